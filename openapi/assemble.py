"""`python -m openapi.assemble` joins the YAML files of the contract and writes document.json.

openapi.yaml has what several areas share; each file of areas/ has `paths` and the components that
only these use.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).parent
DOCUMENT = HERE / "document.json"


class Doubled(ValueError):
    """Two files describe the same path, or have a component of the same name."""


def assembled() -> dict[str, Any]:
    """Return the document that the YAML files describe; raise Doubled."""
    whole: dict[str, Any] = _read(HERE / "openapi.yaml")
    components: dict[str, Any] = whole.pop("components")
    paths: dict[str, Any] = {}
    for file in sorted((HERE / "areas").glob("*.yaml")):
        area = _read(file)
        _join(paths, area["paths"], file)
        for kind, members in area.get("components", {}).items():
            _join(components.setdefault(kind, {}), members, file)
    return whole | {"paths": paths, "components": components}


def encoded() -> str:
    """Return the text of document.json: each path and component on a line of its own."""
    return _lines(assembled(), {"paths": 1, "components": 2}) + "\n"


def _read(file: Path) -> Any:
    return yaml.load(file.read_text(encoding="utf-8"), yaml.CSafeLoader)


def _join(whole: dict[str, Any], part: dict[str, Any], file: Path) -> None:
    doubled = whole.keys() & part.keys()
    if doubled:
        raise Doubled(f"{file.name}: {', '.join(sorted(doubled))} is described elsewhere too")
    whole.update(part)


def _lines(members: dict[str, Any], depths: dict[str, int]) -> str:
    """Write an object with a member a line; those in `depths` likewise, so many levels deep."""
    written = []
    for name, value in members.items():
        depth = depths.get(name, 0)
        text = (
            _lines(value, dict.fromkeys(value, depth - 1))
            if depth > 0
            else json.dumps(value, ensure_ascii=False)
        )
        written.append(f"{json.dumps(name)}: {text}")
    return "{\n" + ",\n".join(written) + "\n}"


if __name__ == "__main__":
    DOCUMENT.write_text(encoded(), encoding="utf-8")
