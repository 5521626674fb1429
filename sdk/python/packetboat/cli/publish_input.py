"""The input of `packetboat publish`: files, as messages with the line of each.

A line that can't be a message is an item with an `error`; later lines are read all the same. Blank
lines are no messages. A file that begins as gzip does is decompressed.
"""

from __future__ import annotations

import base64
import dataclasses
import gzip
import json
import mimetypes
import sys
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import IO, Any, NamedTuple, cast

import msgspec

from packetboat.models import Outgoing

MAX_MESSAGE_BYTES = 16 * 1024 * 1024
"""The limit of bytes of a message at every server, and of a line without an end in memory."""
_GZIP = b"\x1f\x8b\x08"
_OF_DELIVERIES = frozenset(
    {"message_id", "ack_id", "attempt", "partition", "offset", "publish_time", "publisher_id"}
    | {"scheduled_for", "accepted_time", "state"}
)
"""Further members that `pull`, `tail` and `replay` print.

They are ignored, so that the output of these commands can be published again.
"""


class _Fields(msgspec.Struct):
    """The members of a line of NDJSON, except its data."""

    content_type: str | None = None
    key: str | None = None
    attributes: dict[str, str] | None = None
    priority: int = 0
    idempotency_key: str | None = None
    delay_seconds: float | None = None
    deliver_at: datetime | None = None
    ttl_seconds: float | None = None
    traceparent: str | None = None
    tracestate: str | None = None


_FIELDS = frozenset({"data", "data_base64", *_Fields.__struct_fields__})


class Item(NamedTuple):
    """`line` counts from 1, in the whole input."""

    line: int
    message: Outgoing | None
    error: str | None = None


class InputFailed(Exception):
    """A file can't be read, or not to its end."""


class BadLine(ValueError):
    """Raised for a line that can't be a message."""


@dataclass(frozen=True, slots=True)
class Form:
    """The options by which lines become messages."""

    ndjson: bool = False
    whole: bool = False
    content_type: str | None = None
    key: str | None = None
    key_field: str | None = None
    attributes: dict[str, str] = field(default_factory=dict)
    resume_id: str | None = None
    """Line n always has the same idempotency key then."""
    idempotency_key: str | None = None
    """The key of the only message of the input."""
    priority: int = 0
    delay_seconds: float | None = None
    deliver_at: datetime | None = None
    ttl_seconds: float | None = None
    """This and the three options above are defaults of messages that do not set their own."""

    def item(self, line: int, raw: bytes) -> Item:
        try:
            message = _of_object(raw) if self.ndjson else self._of_bytes(raw)
            return Item(line, self._completed(line, message))
        except (ValueError, TypeError) as error:
            return Item(line, None, str(error))

    def _of_bytes(self, raw: bytes) -> Outgoing:
        key = self.key
        if self.key_field is not None:
            key = _member(_json(raw), self.key_field)
        kind = self.content_type
        if kind is None and self.key_field is not None:
            kind = "application/json"
        if kind is None and not self.whole:
            kind = "text/plain; charset=utf-8" if _is_text(raw) else "application/octet-stream"
        if kind is not None and kind.partition(";")[0] == "application/json":
            _json(raw)
        return Outgoing(data=raw, content_type=kind, key=key)

    def _completed(self, line: int, message: Outgoing) -> Outgoing:
        changes: dict[str, Any] = {}
        if self.ndjson and self.key_field is not None and message.key is None:
            changes["key"] = _member(message.data, self.key_field)
        elif self.key is not None and message.key is None:
            changes["key"] = self.key
        if self.attributes:
            changes["attributes"] = {**self.attributes, **(message.attributes or {})}
        if message.idempotency_key is None:
            if self.resume_id is not None:
                changes["idempotency_key"] = f"{self.resume_id}/{line}"
            elif self.idempotency_key is not None:
                changes["idempotency_key"] = self.idempotency_key
        if not message.priority:
            changes["priority"] = self.priority
        if message.delay_seconds is None and message.deliver_at is None:
            changes |= {"delay_seconds": self.delay_seconds, "deliver_at": self.deliver_at}
        if message.ttl_seconds is None:
            changes["ttl_seconds"] = self.ttl_seconds
        return msgspec.structs.replace(message, **changes) if changes else message


@dataclass(slots=True)
class Position:
    """The bytes of the files that are read, as they are on disk; stdin does not count."""

    read_bytes: int = 0


def items(files: list[Path], form: Form, position: Position, first_line: int = 1) -> Iterator[Item]:
    """Yield the items of all files, one after another. Raises InputFailed."""
    line = 0
    before = 0
    for file in files:
        try:
            with _opened(file) as (raw, content):
                for chunk in [content.read()] if form.whole else _lines(content):
                    line += 1
                    if raw is not None:
                        position.read_bytes = before + raw.tell()
                    if line >= first_line and (chunk.strip() or form.whole):
                        yield _item(_guessed(form, file), line, chunk)
        except (OSError, EOFError, zlib.error) as error:
            raise InputFailed(f"{file}: {getattr(error, 'strerror', None) or error}") from error
        before = position.read_bytes


def size_bytes(files: list[Path]) -> int | None:
    """Return the size of all files; None where it can't be known."""
    try:
        return None if Path("-") in files else sum(file.stat().st_size for file in files)
    except OSError:
        return None


def _item(form: Form, line: int, chunk: bytes) -> Item:
    if len(chunk) > MAX_MESSAGE_BYTES:
        return Item(line, None, "longer than any message may be")
    return form.item(line, chunk)


def _lines(content: IO[bytes]) -> Iterator[bytes]:
    """Yield lines without their ends.

    A line that is too long yields only its first part, which is too long as well.
    """
    while first := content.readline(MAX_MESSAGE_BYTES + 2):
        rest = first
        while not rest.endswith(b"\n") and len(rest) > MAX_MESSAGE_BYTES:
            rest = content.readline(MAX_MESSAGE_BYTES + 2)
        yield first.removesuffix(b"\n").removesuffix(b"\r")


@contextmanager
def _opened(file: Path) -> Iterator[tuple[IO[bytes] | None, IO[bytes]]]:
    """Yield the file whose position shows the progress, and the decompressed content."""
    if str(file) == "-":
        yield None, _decompressed(sys.stdin.buffer)
        return
    with file.open("rb") as raw:
        yield raw, _decompressed(raw)


def _decompressed(raw: Any) -> IO[bytes]:
    if hasattr(raw, "peek") and raw.peek(3)[:3] == _GZIP:
        return cast("IO[bytes]", gzip.GzipFile(fileobj=raw))
    return cast("IO[bytes]", raw)


def _guessed(form: Form, file: Path) -> Form:
    if not form.whole or form.content_type is not None:
        return form
    kind, encoding = mimetypes.guess_type(file.name)
    return dataclasses.replace(form, content_type=None if encoding not in (None, "gzip") else kind)


def _of_object(raw: bytes) -> Outgoing:
    value = _json(raw)
    if not isinstance(value, dict):
        raise BadLine("not a JSON object")
    unknown = sorted(value.keys() - _FIELDS - _OF_DELIVERIES)
    if unknown:
        raise BadLine(f"unknown member {unknown[0]!r}; there are {', '.join(sorted(_FIELDS))}")
    encoded = value.get("data_base64")
    if (encoded is None) == ("data" not in value):
        raise BadLine("either data or data_base64")
    data = value["data"] if encoded is None else base64.b64decode(encoded, validate=True)
    try:
        fields = msgspec.convert(value, _Fields)
    except msgspec.ValidationError as error:
        raise BadLine(str(error)) from None
    if fields.deliver_at is not None and fields.deliver_at.tzinfo is None:
        raise BadLine("deliver_at has no time zone")
    return Outgoing(data=data, **msgspec.structs.asdict(fields))


def _json(raw: bytes) -> Any:
    try:
        return json.loads(raw, parse_constant=_no_constant)
    except ValueError as error:
        raise BadLine(f"not JSON: {error}") from None


def _no_constant(name: str) -> Any:
    raise ValueError(f"JSON has no {name}")


def _member(value: object, name: str) -> str:
    for part in name.split("."):
        value = value.get(part) if isinstance(value, dict) else None
    if value is None or isinstance(value, dict | list):
        raise BadLine(f"no member {name!r} to be the key")
    return value if isinstance(value, str) else json.dumps(value)


def _is_text(raw: bytes) -> bool:
    try:
        raw.decode()
    except UnicodeDecodeError:
        return False
    return True
