"""A Python that has what workers must have, NumPy, Numba and PyArrow, and no Muntin."""

import os
import sysconfig
import venv
from pathlib import Path

THERE = ("numpy", "numba", "llvmlite", "pyarrow", "pandas", "dateutil", "pytz", "tzdata", "six")


def bare_python(folder):
    """The environment's interpreter; its packages are links to those of this environment."""
    venv.create(folder, with_pip=False, symlinks=True)
    here = Path(sysconfig.get_path("purelib"))
    there = next(Path(folder).glob("lib/python3*/site-packages"))
    for package in here.iterdir():
        if package.name.split(".")[0] in THERE and "info" not in package.name:
            (there / package.name).symlink_to(package)
    return Path(folder) / "bin" / "python"


def without_muntin():
    """An environment in which nothing leads to this one's packages."""
    left_out = ("PYTHON", "PYSPARK", "SPARK", "MUNTIN", "NUMBA")
    return {k: v for k, v in os.environ.items() if not k.startswith(left_out)}
