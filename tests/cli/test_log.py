"""A log whose disk is full."""

from __future__ import annotations

import sys

import typer
from rich.console import Console

from muntin.cli.log import logged
from tests.disks import small_disk


def test_what_a_full_disk_does_not_take_is_left_out_and_told_once_there_is_room(
    tmp_path, monkeypatch
):
    with small_disk(tmp_path, "1m") as disk:
        (disk / "other").write_bytes(bytes(950_000))
        file = (disk / "log").open("w")  # with a buffer of up to 128 KiB, by the version of Python
        monkeypatch.setattr(sys, "stdout", file)
        with logged():
            for number in range(8_000):
                typer.echo(f"line {number:>20}")
                Console().print(f"rich {number:>20}")
            (disk / "other").unlink()
            typer.echo("there is room")
            typer.echo("and more")
        file.close()
        text = (disk / "log").read_text()
    lines = text.splitlines()
    assert lines[:2] == [f"line {0:>20}", f"rich {0:>20}"]
    told = "what stood here could not all be written: No space left on device"
    assert lines[-3:] == ["there is room", told, "and more"]
    assert lines.count(told) == 1
