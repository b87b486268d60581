"""Compiled kernels are kept under a name that changes with any source of theirs."""

import os
import shutil
import subprocess
import sys
from importlib import import_module
from pkgutil import iter_modules

import numba
import pytest
from numba.core.dispatcher import Dispatcher

from muntin.summaries.kernels import PACKAGE, cache_folder, inlined, kernel, turns
from tests.disks import small_disk


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


WIDENS = """
import numpy as np
from muntin.segments.kernels.streams import widen
widen(np.array([1, 2], np.uint8), 5, 1, np.empty(2, np.int64))
print(widen.__wrapped__.__code__.co_filename, sum(widen.stats.cache_hits.values()))
"""


def test_what_one_environment_has_compiled_another_loads(tmp_path):
    other = shutil.copytree(PACKAGE, tmp_path / "other" / "muntin")
    told = {}
    for place in (PACKAGE, other):
        found = {**os.environ, "PYTHONPATH": str(place.parent), "NUMBA_CACHE_DIR": str(tmp_path)}
        said = subprocess.check_output([sys.executable, "-c", WIDENS], env=found, text=True)
        told[place] = said.split()
        assert told[place][0].startswith(str(place))
    assert [hits for _, hits in told.values()] == ["0", "1"]


def test_what_one_numba_has_compiled_another_leaves_alone(tmp_path):
    found = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    another = "import numba\nnumba.__version__ = 'another'\n"
    hits = []
    for run in (WIDENS, another + WIDENS, WIDENS, another + WIDENS):
        said = subprocess.check_output([sys.executable, "-c", run], env=found, text=True)
        hits.append(said.split()[1])
    assert hits == ["0", "0", "1", "1"]


def test_where_nothing_can_be_written_kernels_run_all_the_same(tmp_path):
    shutil.copytree(PACKAGE, tmp_path / "muntin")  # beside which Numba keeps them then
    (tmp_path / "file").touch()
    places = {"PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "file" / "kernels")}
    found = {**os.environ, **places}
    done = subprocess.run([sys.executable, "-c", WIDENS], env=found, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


NOWHERE = """
import logging, os, pwd
from numba.core import caching

def refuse(*_, **__):
    raise OSError(30, "Read-only file system")

logging.basicConfig(format="%(message)s")
os.makedirs = os.mkdir = refuse      # as root, whom no permissions stop
pwd.getpwuid = {}.__getitem__        # a container's user that has no entry, and so no home
caching.tempfile.TemporaryFile = refuse
"""


@pytest.mark.parametrize("home", [{}, {"HOME": "/nonexistent"}])
def test_without_a_home_and_where_no_folder_can_be_written_kernels_run_all_the_same(home):
    places = {"PYTHONPATH": str(PACKAGE.parent), "PYTHONDONTWRITEBYTECODE": "1", **home}
    kept = {name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-c", NOWHERE + WIDENS], env=kept | places, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("NUMBA_CACHE_DIR") == 1


def test_where_the_cache_has_no_room_kernels_run_all_the_same(tmp_path):
    with small_disk(tmp_path, "8k") as disk:
        found = {**os.environ, "PYTHONPATH": str(PACKAGE.parent), "NUMBA_CACHE_DIR": str(disk)}
        done = subprocess.run(
            [sys.executable, "-c", WIDENS], env=found, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr


def test_what_is_called_with_constants_is_compiled_once_for_all_of_them():
    for decorate in (inlined, kernel):

        @decorate()
        def shifted(value, by):
            return value << by

        both = numba.njit(lambda value: shifted(value, 1) + shifted(value, 2))
        assert both(3) == 18
        assert len(shifted.signatures) == 1


def test_a_kernel_that_allocates_nothing_calls_none_that_does():
    """Numba compiles what is called as its caller is: such a call failed, unless the callee had
    been compiled before."""
    folders = [f"muntin.{path.parts[-3]}.kernels" for path in PACKAGE.glob("*/kernels/__init__.py")]
    modules = [
        import_module(f"{folder}.{found.name}")
        for folder in folders
        for found in iter_modules(import_module(folder).__path__)
    ]
    bare = [
        function
        for module in modules
        for function in vars(module).values()
        if isinstance(function, Dispatcher) and function.targetoptions.get("_nrt") is False
    ]
    assert len(bare) > 50
    for function in bare:
        names, known = function.py_func.__code__.co_names, function.py_func.__globals__
        called = [known[name] for name in names if isinstance(known.get(name), Dispatcher)]
        assert all(each.targetoptions.get("_nrt") is False for each in called), function
        assert not {"empty", "zeros", "ones", "full"} & {*names}, function


COMPILES = """
import sys, numpy as np
from muntin.summaries.kernels import turns
from muntin.summaries.kernels.hashing import hash_strings as kernel
from muntin.summaries.items import hash_items
import pyarrow as pa
turns.WAIT_SECONDS_MAX = 300.0  # on a busy machine it takes longer than anybody waits
print("ready", flush=True)
sys.stdin.readline()
hash_items(pa.array(["a", "b"]))
print(sum(kernel.stats.cache_misses.values()), sum(kernel.stats.cache_hits.values()))
"""


def test_what_processes_need_at_the_same_time_one_of_them_compiles(tmp_path, monkeypatch):
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
    pipe = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    started = [subprocess.Popen([sys.executable, "-c", COMPILES], **pipe) for _ in range(2)]
    for process in started:
        assert process.stdout.readline() == "ready\n"
    for process in started:
        process.stdin.write("\n")
        process.stdin.flush()
    said = sorted(process.communicate(timeout=300)[0] for process in started)
    assert said == ["0 1\n", "1 0\n"]


def test_nobody_waits_for_ever_for_one_that_does_not_go_on(tmp_path, monkeypatch):
    monkeypatch.setattr(turns, "WAIT_SECONDS_MAX", 0.1)
    first = turns.Turn(tmp_path / "kernels" / "kernel.turn")
    second = turns.Turn(tmp_path / "kernels" / "kernel.turn")
    assert (first.waited, second.waited) == (False, True)
    second.end()  # it had none
    assert turns.Turn(tmp_path / "kernels" / "kernel.turn").waited
    first.end()
    third = turns.Turn(tmp_path / "kernels" / "kernel.turn")
    assert not third.waited
    third.end()


def test_numba_that_compiles_nothing_is_named():
    """What wraps around in a kernel is another number in Python."""
    setting = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    command = [sys.executable, "-m", "muntin", "query", "-l", "memory://x", "SELECT 1"]
    told = subprocess.run(command, env=setting, capture_output=True, text=True, check=False)
    assert told.returncode == 1
    assert told.stderr.startswith("error: NUMBA_DISABLE_JIT is set")
    doctor = subprocess.run([*command[:3], "doctor"], env=setting, capture_output=True, text=True)
    assert "NUMBA_DISABLE_JIT is set" in doctor.stdout.partition("WRONG  numba ")[2]
