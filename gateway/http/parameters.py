"""Refuses query parameters that the contract does not list for an operation."""

from __future__ import annotations

from urllib.parse import unquote_to_bytes

from edge.problem import FieldError, Problem, invalid

Names = frozenset[bytes]
MAX_NAMED = 8
MAX_NAME_CHARS = 64


def refuse_unknown(query: bytes, known: Names) -> None:
    """Raise a 400 Problem that names the unknown parameters and the known ones."""
    unknown: dict[bytes, None] = {}
    for pair in query.split(b"&"):
        name = pair.partition(b"=")[0]
        if not name or name in known:
            continue
        name = unquote_to_bytes(name.replace(b"+", b" "))
        if name not in known:
            unknown[name] = None
    if unknown:
        raise _problem(list(unknown), sorted(name.decode() for name in known))


def _problem(unknown: list[bytes], known: list[str]) -> Problem:
    names = [name.decode("utf-8", "replace")[:MAX_NAME_CHARS] for name in unknown[:MAX_NAMED]]
    has = f"it has {', '.join(known)}" if known else "it has none"
    return invalid(
        f"The operation has no query parameter {', '.join(names)}; {has}.",
        [FieldError(name, f"unknown query parameter; {has}") for name in names],
        status=400,
    )
