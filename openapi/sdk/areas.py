"""The resources of the SDK, and the files that are written for them."""

from __future__ import annotations

from pathlib import Path

from openapi.sdk import calls, messaging, resources, tenancy, work
from openapi.sdk.methods import Area
from openapi.sdk.text import PACKAGE, styled

AREAS: tuple[Area, ...] = (*work.AREAS, *messaging.AREAS, *tenancy.AREAS)


def generated() -> dict[Path, str]:
    """Return the text of each module of calls and of resources."""
    texts = {}
    for area in AREAS:
        folder = "operations" if area.base else "resources"
        texts[PACKAGE / "calls" / f"{area.name}.py"] = calls.written(area)
        texts[PACKAGE / "aio" / folder / f"{area.name}.py"] = resources.written(area)
    return styled(texts)
