"""What a definition and a body may cost, and how they are refused.

A definition is a tenant's, and runs on every publish to its topics: so it may not recurse, is
bounded in size and in depth, and never leads anywhere else; a body is bounded in what it may make
the check do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from edge.decode_errors import not_json
from edge.problem import FieldError

MAX_DEFINITION_BYTES = 128 * 1024
MAX_DEPTH = 32
"""Of a definition with its references followed."""
MAX_PARTS = 2_000
"""Subschemas of a definition with its references followed."""
MAX_CHECKED_BYTES = 1024 * 1024
"""Of a body on a topic with a schema."""
MAX_WORK = 2**28
"""Bytes of a JSON body times subschemas of its definition: what it may cost to check it."""
MAX_VALUES = 100_000
"""Of an Avro body: what a small one may claim to hold is nothing to count up to."""
MAX_ERRORS = 20
"""Named of one body or one comparison."""
DETAIL_CHARS = 300


class BadDefinition(Exception):
    """The definition is wrong, or beyond the limits; `errors` name places by JSON pointer."""

    def __init__(self, errors: Sequence[FieldError]) -> None:
        super().__init__("; ".join(f"{error.field}: {error.detail}" for error in errors))
        self.errors = tuple(errors)


class TooDear(Exception):
    """It may take longer than the event loop has for it; a worker process finds out."""


class CannotCompare(Exception):
    """The definitions use something that is not compared; the text says what and where."""


def bad(path: Iterable[str | int], detail: str) -> BadDefinition:
    return BadDefinition([FieldError(pointer(path), shortened(detail))])


def pointer(path: Iterable[str | int]) -> str:
    """RFC 6901; the whole document is the empty one."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def shortened(text: str) -> str:
    return text if len(text) <= DETAIL_CHARS else text[: DETAIL_CHARS - 1] + "…"


def read_definition(text: str) -> object:
    """The JSON of a definition, of bounded size and depth; BadDefinition."""
    raw = text.encode("utf-8", "surrogatepass")
    if len(raw) > MAX_DEFINITION_BYTES:
        raise bad((), f"at most {MAX_DEFINITION_BYTES} bytes")
    try:
        value: object = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise bad((), f"is not JSON: {not_json(error)}") from error
    _check_depth(value)
    return value


def _check_depth(value: object) -> None:
    """A part of the definition takes two levels of JSON: its keyword, and it in an array."""
    level: list[object] = [value]
    for _ in range(3 * MAX_DEPTH):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return
    raise bad((), f"is nested more than {MAX_DEPTH} deep")
