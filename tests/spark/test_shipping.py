"""What `muntin.ship` sends works in a Python that has no Muntin."""

import pickle
import subprocess
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from muntin.reading.warm import warm
from muntin.spark.ingest import plan_of
from muntin.spark.partials import fold
from muntin.spark.shipping import packed
from tests.pipeline.support import START, events, pipeline
from tests.spark.bare_python import bare_python, without_muntin

FOLDS = """
import pickle, sys
sys.path.insert(1, sys.argv[1])  # as Spark's workers do
import pyarrow.parquet as pq
from muntin.spark.partials import fold
from numba.core.dispatcher import Dispatcher
plan = pickle.load(open(sys.argv[2], "rb"))
rows = list(fold(plan, pq.read_table(sys.argv[3]).to_batches()))
compiled = {k for n, m in list(sys.modules.items()) if n.startswith("muntin.")
            for k in vars(m).values() if isinstance(k, Dispatcher)}
hits, misses = (sum(sum(getattr(k.stats, name).values()) for k in compiled)
                for name in ("cache_hits", "cache_misses"))
pickle.dump((rows, hits, misses, sys.modules["muntin"].__file__), sys.stdout.buffer)
"""


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    return bare_python(tmp_path_factory.mktemp("bare"))


def test_a_python_without_muntin_folds_and_compiles_nothing(python, tmp_path):
    spec = pipeline()
    warm(spec)
    table = events([(at / 4, "abc"[at % 3], at % 2, 1, at) for at in range(100)])
    plan = plan_of(spec, START + 10**9)
    expected = list(fold(plan, table.to_batches()))
    pq.write_table(table, tmp_path / "events.parquet")
    (tmp_path / "plan").write_bytes(pickle.dumps(plan))
    archive = packed(tmp_path)
    assert packed(tmp_path).name == archive.name
    words = [python, "-c", FOLDS, archive, tmp_path / "plan", tmp_path / "events.parquet"]
    for _ in range(2):  # the second finds it unpacked
        done = subprocess.run(
            [*map(str, words)], env=without_muntin(), capture_output=True, check=False, timeout=300
        )
        assert done.returncode == 0, done.stderr.decode()
        rows, hits, misses, place = pickle.loads(done.stdout)  # noqa: S301 (of the process above)
        assert rows == expected
        assert Path(place).is_relative_to(tmp_path / archive.stem)
        assert hits > 0
        assert misses == 0
