"""A pipeline file's YAML, with the place of each entry. Only what reads a file imports it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from muntin.errors import SpecError

FILE_BYTES_MAX = 1 << 20
DEPTH_MAX = 32


class _Loader(yaml.SafeLoader):
    """Safe YAML whose booleans are true and false only (YAML 1.2): `on: window` stays `on`. It
    refuses aliases, deep nesting, and names that stand twice."""

    def __init__(self, text: str, path: Path) -> None:
        super().__init__(text)
        self._path = path
        self._depth = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            where = _at(self._path, self.peek_event().start_mark)
            raise SpecError(f"{where}: aliases (*name) are not used here")
        is_deeper = self.check_event(yaml.CollectionStartEvent)
        self._depth += is_deeper
        if self._depth > DEPTH_MAX:
            raise SpecError(f"{self._path}: nested more than {DEPTH_MAX} deep")
        node = super().compose_node(parent, index)
        self._depth -= is_deeper
        return node

    def compose_mapping_node(self, anchor: Any) -> yaml.MappingNode:
        """YAML takes the last of two entries with one name, silently: somebody meant the first."""
        node = super().compose_mapping_node(anchor)
        first: dict[str, int] = {}
        for key in (key for key, _ in node.value if isinstance(key, yaml.ScalarNode)):
            if key.value in first:
                raise SpecError(
                    f"{_at(self._path, key.start_mark)}: {key.value}: stands twice, first in line "
                    f"{first[key.value]}: keep one of them"
                )
            first[key.value] = key.start_mark.line + 1
        return node


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if not tag.endswith(":bool")]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile(r"^(?:true|True|TRUE|false|False|FALSE)$"), list("tTfF")
)


@dataclass(frozen=True, slots=True)
class Document:
    """A file's data with its syntax tree, which knows the lines."""

    path: Path
    data: Any
    root: yaml.Node | None

    def at(self, place: Sequence[Any]) -> str:
        """File, line and column (from 1) of the innermost entry on the way to `place`."""
        node, mark = self.root, None
        for step in place:
            found = None
            if isinstance(node, yaml.MappingNode):
                for key, value in node.value:
                    if key.value == str(step):
                        found, mark = value, key.start_mark
            elif isinstance(node, yaml.SequenceNode) and step in range(len(node.value)):
                found = node.value[step]
                mark = found.start_mark
            if found is None:
                break
            node = found
        return _at(self.path, mark)


def _at(path: Path, mark: Any) -> str:
    return f"{path}:{mark.line + 1}:{mark.column + 1}" if mark else f"{path}:1:1"


def read(path: Path, remedy: str) -> Document:
    """Read a YAML file; SpecError where it is missing (with `remedy`), too large or not YAML."""
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        raise SpecError(f"{path}: no such file; {remedy}") from None
    except IsADirectoryError:
        raise SpecError(f"{path}: is a folder: name the file in it; {remedy}") from None
    except OSError as problem:
        raise SpecError(f"{path}: {problem.strerror}") from None
    if len(raw) > FILE_BYTES_MAX:
        raise SpecError(f"{path}: {len(raw)} bytes are too many: at most {FILE_BYTES_MAX}")
    try:
        loader = _Loader(raw.decode("utf-8"), path)
        root = loader.get_single_node()
        data = None if root is None else loader.construct_document(root)
    except SpecError:
        raise
    except UnicodeDecodeError as problem:
        line = raw[: problem.start].count(b"\n") + 1
        raise SpecError(f"{path}:{line}: not UTF-8 text: save it as UTF-8") from None
    except yaml.MarkedYAMLError as problem:
        where = _at(path, problem.problem_mark)
        remedy = "indent with spaces" if "'\\t'" in str(problem.problem) else remedy
        raise SpecError(f"{where}: not YAML: {problem.problem}; {remedy}") from None
    except (yaml.YAMLError, ValueError, OverflowError) as problem:
        raise SpecError(f"{path}: not YAML: {' '.join(str(problem).split())}; {remedy}") from None
    if not isinstance(data, dict):
        raise SpecError(f"{path}: is no mapping (name: value, line by line); {remedy}")
    return Document(path, data, root)
