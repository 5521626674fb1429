"""Refusing JSON objects that name a member twice.

Readers differ in which of the two they take, so a body that a proxy or an audit has looked at may
mean something else here. Ours takes the last. Where little is said at a time, such a body is
refused instead; looking for it costs more than reading it does.
"""

from __future__ import annotations

import json

from edge.problem import FieldError, Problem


class _Duplicate(Exception):
    pass


def _once(pairs: list[tuple[str, object]]) -> None:
    if len({name for name, _ in pairs}) != len(pairs):
        names = [name for name, _ in pairs]
        raise _Duplicate(next(name for at, name in enumerate(names) if name in names[:at]))


def refuse_duplicates(body: bytes) -> None:
    """Raises a 400 Problem naming the member; of what is no JSON nothing: its reader will."""
    try:
        # Numbers stay text: of a million digits none is to be made.
        json.loads(body, object_pairs_hook=_once, parse_int=str, parse_float=str)
    except _Duplicate as error:
        name = str(error)[:64]
        raise Problem.of(
            "malformed-body",
            f"The body names the member {name!r} twice in one object; name it once.",
            errors=[FieldError(name, "named twice")],
        ) from None
    except (ValueError, RecursionError):
        return
