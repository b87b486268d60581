"""A driver whose executors are killed while it builds and asks a fingerprint index."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from muntin.spark import FingerprintIndex, fingerprint_index
from muntin.spark.index import build as building
from muntin.spark.index import sources
from muntin.spark.session import session
from tests.chaos.killing import killing_once


def main(folder: Path) -> None:
    spark = session(
        "executors die",
        {"spark.master": "local-cluster[2,1,1024]", "spark.executor.memory": "1g"},
    )

    def build(name: str) -> FingerprintIndex:
        return FingerprintIndex.build(
            str(folder / "records"), "url", "bytes", 4, path=folder / name, progress=False
        )

    keys = [f"page/{i}" for i in range(0, 4_000, 7)]
    quiet = build("quiet")
    expected = quiet.contains(keys, via="job")
    found = {}
    for stage, module, name in (
        ("first stage", sources, "scatter"),
        ("second stage", building, "gather"),
    ):
        real = getattr(module, name)
        mark = folder / f"killed in the {stage}"
        setattr(module, name, killing_once(real, mark))
        again = build(stage)
        setattr(module, name, real)
        found[stage] = mark.exists() and again.manifest.files == quiet.manifest.files
        found[f"{stage}: digest"] = again.digest.to_bytes() == quiet.digest.to_bytes()
    mark = folder / "killed in a query"
    real = fingerprint_index.ask_here
    fingerprint_index.ask_here = killing_once(real, mark)
    answer = quiet.contains(keys, via="job")
    fingerprint_index.ask_here = real
    found["query"] = mark.exists() and answer.equals(expected)
    found["present"] = int(np.asarray(answer["present"])[: len(range(0, 3_000, 7))].sum())
    print("FOUND " + json.dumps(found), flush=True)  # noqa: T201
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
