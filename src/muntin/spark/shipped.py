"""Muntin in an archive that came with a job: unpacked once a machine, and imported from there.

In the archive that `shipping` makes, this file is `muntin/__init__.py`. Spark lays archives into a
folder of the application, where they are unpacked and which it deletes in the end: what is
compiled cannot be loaded from an archive, and Numba keeps no cache of what lies in one.
"""

import os
import shutil
import sys
import tempfile
import zipfile


def _unpacked(archive):
    folder = archive.removesuffix(".zip")
    if os.path.isdir(folder):
        return folder
    made = tempfile.mkdtemp(dir=os.path.dirname(archive))
    try:
        with zipfile.ZipFile(archive) as packed:
            packed.extractall(made)
        os.rename(made, folder)
    except OSError:
        if not os.path.isdir(folder):  # else another worker was quicker
            raise
    finally:
        shutil.rmtree(made, ignore_errors=True)
    return folder


_folder = _unpacked(os.path.dirname(os.path.dirname(__file__)))
os.environ["NUMBA_CACHE_DIR"] = os.path.join(_folder, "kernels")  # what the driver has compiled
sys.path.append(os.path.join(_folder, "lib"))  # last: what is installed here comes first
__path__ = [os.path.join(_folder, "src", "muntin")]
__file__ = os.path.join(__path__[0], "__init__.py")
with open(__file__, encoding="utf-8") as _source:
    exec(compile(_source.read(), __file__, "exec"))  # noqa: S102
