"""Limits of the cost of definitions and bodies, and the errors for exceeding them.

A definition comes from a tenant and runs on every publish to its topics. So it may not recurse, has
a bounded size and depth, and never leads to another document. A body is bounded in the work that it
can cause.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from edge.decode_errors import not_json
from edge.problem import FieldError

MAX_DEFINITION_BYTES = 128 * 1024
MAX_DEPTH = 32
"""Depth of a definition with its references followed."""
MAX_PARTS = 2_000
"""Subschemas of a definition with its references followed."""
MAX_CHECKED_BYTES = 1024 * 1024
"""Bytes of a body on a topic with a schema."""
MAX_WORK = 2**28
"""Bytes of a JSON body times subschemas of its definition: the cost of checking it."""
MAX_VALUES = 100_000
"""Values of an Avro body, because a small one may claim to hold more than can be counted."""
MAX_ERRORS = 20
"""Faults that are named of one body or one comparison."""
DETAIL_CHARS = 300


class BadDefinition(Exception):
    """The definition is wrong, or beyond the limits; `errors` name places by JSON pointer."""

    def __init__(self, errors: Sequence[FieldError]) -> None:
        super().__init__("; ".join(f"{error.field}: {error.detail}" for error in errors))
        self.errors = tuple(errors)


class TooExpensive(Exception):
    """Some work may take longer than the event loop has time for; a worker process does it."""


class CannotCompare(Exception):
    """The definitions use something that is not compared; the text says what and where."""


def bad(path: Iterable[str | int], detail: str) -> BadDefinition:
    return BadDefinition([FieldError(pointer(path), shortened(detail))])


def pointer(path: Iterable[str | int]) -> str:
    """Return a path as an RFC 6901 pointer; the whole document is the empty one."""
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)


def shortened(text: str) -> str:
    return text if len(text) <= DETAIL_CHARS else text[: DETAIL_CHARS - 1] + "…"


def read_definition(text: str) -> object:
    """Return the JSON of a definition, of bounded size and depth; raises BadDefinition."""
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
    """Check the depth: a subschema takes two levels of JSON, its keyword and its place in an
    array.
    """
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
