"""Content types of bodies."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=1_000)
def essence(content_type: str | None) -> str:
    """Return a content type without parameters; empty if there is none."""
    return (content_type or "").partition(";")[0].strip().lower()


def is_json(content_type: str | None) -> bool:
    """Return whether a content type is JSON; a missing one counts as JSON."""
    found = essence(content_type)
    return found in ("", "application/json") or found.endswith("+json")
