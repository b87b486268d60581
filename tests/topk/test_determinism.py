"""The same events make the same messages, byte for byte, in every process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path


def test_messages_do_not_depend_on_how_python_hashes_names() -> None:
    here = Path(__file__).with_name("traced.py")
    found = []
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(
            [sys.executable, str(here)],
            env=environment,
            capture_output=True,
            check=True,
            timeout=200,
            text=True,
        )
        found.append(json.loads(done.stdout))
    assert found[0] == found[1]
    assert len(set(found[0])) == len(found[0])  # the runs differ, so something was sent in them
