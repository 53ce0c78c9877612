"""YAML in which a key that stands twice is an error: the second would hide the first."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml


class _StrictLoader(yaml.SafeLoader):
    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if key in seen:
                line = key_node.start_mark.line + 1
                raise ValueError(f"line {line}: the key {key!r} stands twice; the second would hide the first")
            seen.add(key)
        return super().construct_mapping(node, deep)


def read_yaml(path: Path) -> Any:
    """What a YAML file holds.

    Raises: ValueError naming the file when it isn't YAML, or a key stands twice in one mapping.
    """
    try:
        return yaml.load(path.read_text(encoding="utf-8"), Loader=_StrictLoader)  # noqa: S506 (a SafeLoader)
    except (yaml.YAMLError, ValueError) as error:
        raise ValueError(f"{path}: not YAML that can be read: {error}") from None
