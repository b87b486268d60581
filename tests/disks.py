"""Small disks, which fill up."""

from __future__ import annotations

import os
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(folder: Path, size: str):
    """A disk of that size that anybody may write to, where this user may mount one."""
    disk = folder / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=777", "tmpfs", str(disk)]
    if os.geteuid() or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("needs root to mount a small disk")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=False)


def remounted(disk: Path, options: str) -> None:
    """The same disk, larger for example, or read only."""
    subprocess.run(["mount", "-o", f"remount,{options}", str(disk)], check=True)
