"""Compiled kernels are kept under a name that changes with any source of theirs."""

import shutil

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
