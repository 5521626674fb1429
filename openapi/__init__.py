"""The contract of the HTTP API, as typed Python: one module for each area.

Start with contract.py for the vocabulary and locks.py for an example. `make generate` writes
openapi.yaml and document.json from the modules.
"""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any

import msgspec


@cache
def text() -> str:
    """Return the document as YAML."""
    return (resources.files("openapi") / "openapi.yaml").read_text("utf-8")


@cache
def document() -> dict[str, Any]:
    """Return the document. Callers share it and must not change it."""
    encoded = (resources.files("openapi") / "document.json").read_bytes()
    return msgspec.json.decode(encoded, type=dict[str, Any])
