"""Strict reading of pull parameters and of the bodies of ack, nack, release and modify."""

from __future__ import annotations

import math
import re
from typing import Annotated, TypeVar
from urllib.parse import parse_qs

import msgspec

from edge.asgi import Scope
from edge.problem import FieldError, Problem, invalid
from subscribe_forwarder.api.items import MAX_ITEMS, Ids

MAX_MESSAGES = 1000
MAX_BYTES = 8 * 1024 * 1024
MAX_WAIT_S = 60.0
MAX_DEADLINE_S = 43_200
MAX_BODY_BYTES = 2 * 1024 * 1024
"""A thousand ids of the longest kind."""
_DEFAULT_MESSAGES = 10
_DECIMAL = re.compile(r"[0-9]{1,9}(\.[0-9]{0,9})?")
_AT = re.compile(r" - at `\$\.?(?P<path>[^`]*)`$")
_NAMED = re.compile(r"(?:unknown|missing required) field `(?P<field>[^`]*)`")

Id = Annotated[str, msgspec.Meta(max_length=1024)]
IdList = Annotated[list[Id], msgspec.Meta(min_length=1, max_length=MAX_ITEMS)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=MAX_DEADLINE_S)]
T = TypeVar("T")


class PullBody(msgspec.Struct, forbid_unknown_fields=True):
    max_messages: int | float = _DEFAULT_MESSAGES
    max_bytes: int | float = MAX_BYTES
    wait_seconds: float = 0.0


class _IdsBody(msgspec.Struct, forbid_unknown_fields=True):
    ack_id: Id | None = None
    message_id: Id | None = None
    ack_ids: IdList | None = None
    message_ids: IdList | None = None

    def ids(self) -> Ids:
        """Of the one form given; 422 for none or several."""
        given = [
            Ids(field, texts)
            for field, texts in (
                ("ack_id", None if self.ack_id is None else [self.ack_id]),
                ("message_id", None if self.message_id is None else [self.message_id]),
                ("ack_id", self.ack_ids),
                ("message_id", self.message_ids),
            )
            if texts is not None
        ]
        if len(given) != 1:
            raise invalid(
                "Give exactly one of ack_id, message_id, ack_ids and message_ids.",
                [FieldError("ack_ids", "one of the four forms, and only one")],
            )
        return given[0]


class AckBody(_IdsBody, forbid_unknown_fields=True):
    pass


class ReleaseBody(_IdsBody, forbid_unknown_fields=True):
    pass


class NackBody(_IdsBody, forbid_unknown_fields=True):
    delay_seconds: Seconds = 0.0
    reason: Annotated[str, msgspec.Meta(max_length=1024)] | None = None


class ModifyBody(_IdsBody, forbid_unknown_fields=True, kw_only=True):
    deadline_seconds: Seconds


class PullRequest(msgspec.Struct, frozen=True):
    """A pull whose limits hold."""

    max_messages: int
    max_bytes: int
    wait_s: float


ACK = msgspec.json.Decoder(AckBody)
NACK = msgspec.json.Decoder(NackBody)
RELEASE = msgspec.json.Decoder(ReleaseBody)
MODIFY = msgspec.json.Decoder(ModifyBody)
_PULL = msgspec.json.Decoder(PullBody)


def decode(body: bytes, decoder: msgspec.json.Decoder[T]) -> T:
    """400 for what is no JSON, 422 naming the field for what does not fit."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise invalid("The body does not fit.", [_field_error(str(error))]) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Problem(
            400, "malformed-body", "Malformed body", f"The body is not JSON: {error}."
        ) from error


def pull_of_query(scope: Scope) -> PullRequest:
    """400 naming the parameter that does not fit; the last of a repeated one counts."""
    raw = scope["query_string"]
    if not raw:
        return PullRequest(_DEFAULT_MESSAGES, MAX_BYTES, 0.0)
    values = parse_qs(raw.decode("ascii", "replace"), keep_blank_values=True, errors="replace")

    def number(name: str, default: float) -> float:
        given = values.get(name)
        if given is None:
            return default
        return float(given[-1]) if _DECIMAL.fullmatch(given[-1]) else math.nan

    return _checked(
        number("max_messages", _DEFAULT_MESSAGES),
        number("max_bytes", MAX_BYTES),
        number("wait_seconds", 0.0),
    )


def pull_of_body(body: bytes) -> PullRequest:
    """An empty body takes the defaults."""
    if not body.strip():
        return PullRequest(_DEFAULT_MESSAGES, MAX_BYTES, 0.0)
    given = decode(body, _PULL)
    return _checked(given.max_messages, given.max_bytes, given.wait_seconds)


def _checked(max_messages: float, max_bytes: float, wait_s: float) -> PullRequest:
    errors = []
    if not (1 <= max_messages <= MAX_MESSAGES and max_messages == int(max_messages)):
        errors.append(FieldError("max_messages", f"an integer from 1 to {MAX_MESSAGES}"))
    if not (1 <= max_bytes <= MAX_BYTES and max_bytes == int(max_bytes)):
        errors.append(FieldError("max_bytes", f"an integer from 1 to {MAX_BYTES}"))
    if not 0 <= wait_s <= MAX_WAIT_S:
        errors.append(FieldError("wait_seconds", f"seconds from 0 to {MAX_WAIT_S:g}"))
    if errors:
        raise invalid("A limit of the pull does not fit.", errors, status=400)
    return PullRequest(int(max_messages), int(max_bytes), float(wait_s))


def _field_error(message: str) -> FieldError:
    at = _AT.search(message)
    path = at["path"] if at else ""
    text = message[: at.start()] if at else message
    named = _NAMED.search(text)
    if named:
        detail = "unknown field" if "unknown" in text else "required"
        return FieldError(f"{path}.{named['field']}" if path else named["field"], detail)
    return FieldError(path or "body", text.replace("`", "'"))
