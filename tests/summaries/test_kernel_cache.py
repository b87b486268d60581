"""Compiled kernels are kept under a name that changes with any source of theirs."""

import shutil
import subprocess
import sys

import pytest

from muntin.summaries.kernels import PACKAGE, cache_folder


@pytest.mark.parametrize("changed", ["summaries/kernels/sorting.py", "segments/kernels/sums.py"])
def test_a_changed_kernel_has_another_folder(tmp_path, changed):
    for folder in ("summaries/kernels", "segments/kernels"):
        shutil.copytree(PACKAGE / folder, tmp_path / folder)
    before = cache_folder(tmp_path)
    assert before == cache_folder()
    with (tmp_path / changed).open("a") as source:
        source.write("# another line\n")
    assert cache_folder(tmp_path) != before


def test_a_kept_kernel_is_loaded_without_what_only_compiling_needs():
    run = (
        "import sys, numpy as np\n"
        "from muntin.segments.kernels.streams import widen\n"
        "out = np.empty(2, np.int64)\n"
        "widen(np.array([1, 2], np.uint8), 5, 1, out)\n"
        "print(out.tolist(), 'numba.np.linalg' in sys.modules)"
    )
    told = [subprocess.check_output([sys.executable, "-c", run], text=True) for _ in range(2)]
    assert told[1] == "[6, 7] False\n"
