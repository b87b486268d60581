"""Names in the package: each class has one of its own."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import muntin


def test_a_class_name_stands_once():
    files = Path(muntin.__file__).parent.rglob("*.py")
    trees = [ast.parse(file.read_text("utf-8")) for file in files]
    counts = Counter(
        node.name for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
    )
    assert len(counts) > 300
    assert [name for name, times in counts.items() if times > 1] == []
