"""The contract of the HTTP API, as data: one document.

It is written by hand as YAML (openapi.yaml and areas/), and read from document.json, which
`make contract` writes from them: a server would take half a second of every start to read YAML.
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

import msgspec
import yaml


class _Dumper(yaml.CSafeDumper):
    """Nothing by reference, and members in the order they were written in."""

    def ignore_aliases(self, data: Any) -> bool:
        return True


@cache
def text() -> str:
    """Return the document as YAML; the first call takes a third of a second."""
    return yaml.dump(document(), Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)


@cache
def document() -> dict[str, Any]:
    """Return the document. Callers share it and must not change it."""
    encoded = (resources.files("openapi") / "document.json").read_bytes()
    return msgspec.json.decode(encoded, type=dict[str, Any])
