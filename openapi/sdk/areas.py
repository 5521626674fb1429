"""The resources of the SDK, and the files that are written for them."""

from __future__ import annotations

from pathlib import Path

from openapi.sdk import calls, messaging, resources, tenancy, work
from openapi.sdk.methods import Area, calls_module
from openapi.sdk.text import PACKAGE, styled

AREAS: tuple[Area, ...] = (*work.AREAS, *messaging.AREAS, *tenancy.AREAS)


def generated() -> dict[Path, str]:
    """Return the text of each module of calls and of resources."""
    texts = {}
    modules: dict[str, list[Area]] = {}
    for area in AREAS:
        folder = "operations" if area.base else "resources"
        texts[PACKAGE / "aio" / folder / f"{area.name}.py"] = resources.written(area)
        modules.setdefault(calls_module(area), []).append(area)
    for name, areas in modules.items():
        texts[PACKAGE / "calls" / f"{name}.py"] = calls.written(*areas)
    return styled(texts)
