"""The contract of the HTTP API, as data: openapi.yaml beside this file."""

from __future__ import annotations

from functools import cache
from importlib import resources
from typing import Any, cast

import yaml


@cache
def text() -> str:
    return resources.files("openapi").joinpath("openapi.yaml").read_text(encoding="utf-8")


@cache
def document() -> dict[str, Any]:
    """Shared: not to be changed."""
    return cast(dict[str, Any], yaml.load(text(), yaml.CSafeLoader))
