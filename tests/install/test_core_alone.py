"""`pip install muntin` without extras: summaries, ledger, SELECT, server, client, CLI."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_core_is_installed_from_a_wheel_and_used(tmp_path):
    uv = Path(sys.executable).with_name("uv")
    uv = str(uv) if uv.exists() else shutil.which("uv")
    assert uv, "scripts/setup.sh has it on the PATH, or puts it into .venv"
    python = tmp_path / "alone" / "bin" / "python"

    def run(*words):
        done = subprocess.run(
            [*map(str, words)],
            cwd=tmp_path,
            env={k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "MUNTIN"))},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    run(uv, "build", "-q", "--wheel", "-o", tmp_path, ROOT)
    (wheel,) = tmp_path.glob("*.whl")
    run(uv, "venv", "-q", "--python", sys.executable, python.parents[1])
    lock = ROOT / "requirements.lock"
    run(uv, "pip", "install", "-q", "--python", python, "--constraint", lock, wheel)
    run(python, Path(__file__).with_name("core_alone.py"), tmp_path)
