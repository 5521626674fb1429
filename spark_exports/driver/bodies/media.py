"""What a content type says of a body."""

from __future__ import annotations

from functools import lru_cache


@lru_cache(maxsize=1_000)
def essence(content_type: str | None) -> str:
    """Without parameters; the empty text where none was given."""
    return (content_type or "").partition(";")[0].strip().lower()


def is_json(content_type: str | None) -> bool:
    """Also where a publisher said nothing."""
    found = essence(content_type)
    return found in ("", "application/json") or found.endswith("+json")
