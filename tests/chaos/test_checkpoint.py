"""Spark's checkpoint damaged or on a full disk: refused or exact, never another answer."""

from __future__ import annotations

import os
import random
import shutil
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import muntin
from muntin.ledger.open import open_ledger
from tests.conftest import SPARK
from tests.disks import remounted, small_disk
from tests.pipeline.support import START, content, events, pipeline, run

pytestmark = [pytest.mark.spark, pytest.mark.chaos, pytest.mark.slow, pytest.mark.timeout(7200)]
FILES, ROWS, FLIPS = 6, 50, int(os.environ.get("MUNTIN_FLIPS", "3"))  # of each file


def table_of(rng: random.Random):
    rows = sorted(
        (rng.uniform(0, 900), rng.choice("abcd"), rng.randrange(4), 1, rng.randrange(1000))
        for _ in range(FILES * ROWS)
    )
    return events(rows)


def spec_of(folder: Path, checkpoint: Path):
    return pipeline(
        source={"format": "parquet", "path": f"{folder}/events", "maxFilesPerTrigger": 1},
        trigger="0 seconds", spark=SPARK,
        ledger=f"sqlite:///{checkpoint.parent}/ledger.db", checkpoint=str(checkpoint),
    )  # fmt: skip


def written(table, folder: Path) -> None:
    (folder / "events").mkdir()
    for number in range(FILES):
        path = folder / "events" / f"part-{number:02d}.parquet"
        pq.write_table(table.slice(number * ROWS, ROWS), path)
        os.utime(path, (START // 1_000_000 + number,) * 2)


def taken(spec, until: int = FILES) -> None:
    """Run it; where it is not to come to its end, it dies after a commit that Spark has not."""

    def said(ingest) -> None:
        if ingest.progress.batches == until < FILES:
            raise RuntimeError("here it dies")

    muntin.stream(None, spec, once=True, on_batch=said).await_termination()


def is_exact(table, spec) -> bool:
    ledger = open_ledger(spec.ledger_url)
    batches = [[table.slice(number * ROWS, ROWS)] for number in range(FILES)]
    try:
        with run(pipeline(), batches, ended=True) as clean:
            holder = type("Holder", (), {"ledger": ledger, "pipeline": pipeline()})
            return content(holder) == content(clean)
    finally:
        ledger.close()


def test_a_damaged_checkpoint_is_refused_or_harmless(tmp_path):
    rng = random.Random(10)
    table = table_of(rng)
    written(table, tmp_path)
    (tmp_path / "whole").mkdir()
    with pytest.raises(Exception, match="here it dies"):
        taken(spec_of(tmp_path, tmp_path / "whole" / "checkpoint"), 3)
    names = [
        path.relative_to(tmp_path / "whole" / "checkpoint")
        for path in sorted((tmp_path / "whole" / "checkpoint").rglob("*"))
        if path.is_file()
    ]
    assert len(names) > 8
    exact = refused = 0
    for name in names:
        for turn in range(FLIPS):
            copy = tmp_path / "copy"
            shutil.copytree(tmp_path / "whole", copy)
            spec = spec_of(tmp_path, copy / "checkpoint")
            file = copy / "checkpoint" / name
            kept = bytearray(file.read_bytes())
            if turn % 3 == 2:
                kept = kept[: rng.randrange(len(kept))]  # torn
            else:
                kept[rng.randrange(len(kept))] ^= 1 << rng.randrange(8)
            file.write_bytes(kept)
            try:
                taken(spec)
            except Exception as problem:
                assert str(problem)  # noqa: PT017
                refused += 1
            else:
                assert is_exact(table, spec), (name, turn)
                exact += 1
            shutil.rmtree(copy)
    print(f"{len(names)} files: {refused} refused, {exact} exact, 0 wrong")  # noqa: T201


def test_a_checkpoint_on_a_full_disk_is_told_and_goes_on_with_more_space(tmp_path):
    table = table_of(random.Random(11))
    written(table, tmp_path)
    with small_disk(tmp_path, "60k") as disk:
        spec = spec_of(tmp_path, disk / "checkpoint")
        spec = spec.model_copy(update={"ledger": f"sqlite:///{tmp_path}/ledger.db"})
        with pytest.raises(Exception, match="No space left on device"):
            taken(spec)
        remounted(disk, "size=30m")
        taken(spec)
        assert is_exact(table, spec)
