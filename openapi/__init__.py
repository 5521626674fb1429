"""The contract of the HTTP API, as data: openapi.yaml and the areas beside it, one document.

openapi.yaml has what several areas share; each file of areas/ has `paths` and the components that
only these use.
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from typing import Any

import yaml


class Doubled(ValueError):
    """Two files describe the same path, or have a component of the same name."""


class _Dumper(yaml.CSafeDumper):
    """Nothing by reference, and members in the order they were written in."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


@cache
def text() -> str:
    """The document as YAML."""
    return yaml.dump(document(), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


@cache
def document() -> dict[str, Any]:
    """Shared: not to be changed. Raises Doubled."""
    root = resources.files("openapi")
    whole: dict[str, Any] = _read(root / "openapi.yaml")
    components: dict[str, Any] = whole.pop("components")
    paths: dict[str, Any] = {}
    areas = (root / "areas").iterdir()
    for file in sorted(areas, key=lambda file: file.name):
        if not file.name.endswith(".yaml"):
            continue
        area = _read(file)
        _join(paths, area["paths"], file)
        for kind, members in area.get("components", {}).items():
            _join(components.setdefault(kind, {}), members, file)
    return whole | {"paths": paths, "components": components}


def _read(file: Traversable) -> Any:
    return yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader)


def _join(whole: dict[str, Any], part: dict[str, Any], file: Traversable) -> None:
    doubled = whole.keys() & part.keys()
    if doubled:
        raise Doubled(f"{file.name}: {', '.join(sorted(doubled))} is described elsewhere too")
    whole.update(part)
