"""Whole numbers that JSON writes with a fraction of zero. JSON Schema calls 91.0 an integer."""

from __future__ import annotations

MAX_EXACT_FLOAT = 2**53


def with_integers(value: object) -> object:
    """Return decoded JSON with integers in the place of floats that are whole numbers."""
    if isinstance(value, float) and value.is_integer() and abs(value) < MAX_EXACT_FLOAT:
        return int(value)
    if isinstance(value, list):
        return [with_integers(item) for item in value]
    if isinstance(value, dict):
        return {key: with_integers(item) for key, item in value.items()}
    return value
