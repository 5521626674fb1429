"""The resources of the SDK, and the files that are written for them."""

from __future__ import annotations

from pathlib import Path

from openapi.sdk import calls, messaging, resources, tenancy, work
from openapi.sdk.methods import Area, calls_module
from openapi.sdk.text import PACKAGE, styled

AREAS: tuple[Area, ...] = (*work.AREAS, *messaging.AREAS, *tenancy.AREAS)


def generated() -> dict[Path, str]:
    """Return the text of each module of calls, of resources, and of the bases of resources."""
    texts = {}
    modules: dict[str, list[Area]] = {}
    for area in AREAS:
        modules.setdefault(calls_module(area), []).append(area)
        if not area.base:
            texts[PACKAGE / "aio/resources" / f"{area.name}.py"] = resources.written(area)
    for name, areas in modules.items():
        texts[PACKAGE / "calls" / f"{name}.py"] = calls.written(*areas)
        if bases := [each for each in areas if each.base]:
            texts[PACKAGE / "aio/operations" / f"{name}.py"] = resources.written(*bases)
    return styled(texts)
