"""A definition of either kind: it is compiled once, and then checks bodies.

The event loop passes `here`: work that may take longer than others can wait is then not done, and
TooExpensive is raised.
"""

from __future__ import annotations

from typing import Any

from edge.problem import FieldError
from schemas import avro, avro_bodies
from schemas.avro_compatibility import unreadable
from schemas.json_compatibility import not_allowed
from schemas.json_schema import JsonSchema
from schemas.limits import MAX_CHECKED_BYTES, MAX_ERRORS, CannotCompare, TooExpensive
from schemas.price import HERE_NS

AVRO_TYPES = frozenset({"avro/binary", "application/avro", "application/vnd.apache.avro+binary"})

MAX_AVRO_CHARS_HERE = 24 * 1024
"""Characters of an Avro definition that is compiled on the event loop."""


class JsonDefinition:
    """A JSON Schema, for bodies in JSON."""

    def __init__(self, text: str, *, here: bool = False) -> None:
        self.schema = JsonSchema(text, most_ns=_most_ns(here))

    def check(
        self, data: bytes, content_type: str | None, *, here: bool = False
    ) -> list[FieldError]:
        """Return the faults of a body; `field` is a JSON pointer into the body, or
        `content_type`.
        """
        if not is_json(content_type):
            return [_wrong_type("application/json, or a type that ends in +json")]
        return _too_large(data) or self.schema.check(data, most_ns=_most_ns(here))

    def reads(self, written: JsonDefinition) -> list[FieldError]:
        """Return the faults by which bodies of the other definition may be invalid here.

        Raises CannotCompare.
        """
        return not_allowed(self.schema, written.schema)


class AvroDefinition:
    """An Avro schema, for bodies in Avro, binary or as JSON."""

    def __init__(self, text: str, *, here: bool = False) -> None:
        if here and len(text) > MAX_AVRO_CHARS_HERE:
            raise TooExpensive
        self.type = avro.parse(text)

    def check(
        self, data: bytes, content_type: str | None, *, here: bool = False
    ) -> list[FieldError]:
        """Return the faults of a body as JsonDefinition does; of a binary body only the first."""
        if _kind(content_type) in AVRO_TYPES:
            return _too_large(data) or avro_bodies.check_binary(self.type, data, here=here)
        if is_json(content_type):
            return _too_large(data) or avro_bodies.check_json(self.type, data, here=here)
        return [_wrong_type(f"one of {', '.join(sorted(AVRO_TYPES))}, or application/json")]

    def reads(self, written: AvroDefinition) -> list[FieldError]:
        return unreadable(self.type, written.type)


Definition = JsonDefinition | AvroDefinition


def compile_definition(kind: str, text: str, *, here: bool = False) -> Definition:
    """Compile a definition of `kind` `json_schema` or `avro`; raises BadDefinition."""
    made = AvroDefinition if kind == "avro" else JsonDefinition
    return made(text, here=here)


def incompatible(compatibility: str, new: Definition, old: Definition) -> list[FieldError]:
    """Return up to `MAX_ERRORS` breaks between one version and the next; [] if there are none.

    With `backward` the new version reads messages of the old one, with `forward` the old version
    reads messages of the new one, with `full` both. Raises CannotCompare.
    """
    errors: list[FieldError] = []
    if compatibility in {"backward", "full"}:
        errors += _reads(new, old, "old messages")
    if compatibility in {"forward", "full"}:
        errors += _reads(old, new, "old readers")
    return errors[:MAX_ERRORS]


def _reads(reader: Any, written: Any, whom: str) -> list[FieldError]:
    if type(reader) is not type(written):
        raise CannotCompare("definitions of different types")
    found: list[FieldError] = reader.reads(written)
    return [error._replace(detail=f"{whom}: {error.detail}") for error in found]


def is_json(content_type: str | None) -> bool:
    kind = _kind(content_type)
    return kind == "application/json" or kind.endswith("+json")


def _kind(content_type: str | None) -> str:
    return (content_type or "").partition(";")[0].strip().lower()


def _wrong_type(wanted: str) -> FieldError:
    return FieldError("content_type", f"must be {wanted}")


def _too_large(data: bytes) -> list[FieldError]:
    if len(data) <= MAX_CHECKED_BYTES:
        return []
    return [FieldError("", f"at most {MAX_CHECKED_BYTES} bytes on a topic with a schema")]


def _most_ns(here: bool) -> float:
    return HERE_NS if here else float("inf")
