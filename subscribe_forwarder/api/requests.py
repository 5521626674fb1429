"""Strict reading of pull parameters and of the bodies of ack, nack, release and modify."""

from __future__ import annotations

import math
import re
from typing import Annotated, NamedTuple
from urllib.parse import parse_qs

import msgspec

from edge.asgi import Scope, header
from edge.large_bodies import dear, read_apart
from edge.problem import FieldError, invalid
from edge.workshop import Workshop
from subscribe_forwarder.api.bodies import decode, decoded
from subscribe_forwarder.api.items import MAX_ITEMS, Ids
from subscribe_forwarder.api.places import checked, places_of
from subscribe_forwarder.delivery.places import Places
from subscribe_forwarder.state.rate import NAMELESS

MAX_MESSAGES = 1000
MAX_BYTES = 8 * 1024 * 1024
MAX_WAIT_S = 60.0
MAX_DEADLINE_S = 43_200
MAX_BODY_BYTES = 2 * 1024 * 1024
"""A thousand ids of the longest kind."""
MAX_ACK_BODY_BYTES = 16 * 1024 * 1024
"""The same, and the messages that an ack may publish, in base64."""
MAX_OUTSTANDING = 10_000
MAX_OUTSTANDING_BYTES = 64 * 1024 * 1024
CONSUMER_HEADER = b"packetboat-consumer"
_DEFAULT_MESSAGES = 10
_CONSUMER = re.compile(r"[\x20-\x7e]{1,128}")
_DECIMAL = re.compile(r"[0-9]{1,9}(\.[0-9]{0,9})?")

Id = Annotated[str, msgspec.Meta(max_length=1024)]
IdList = Annotated[list[Id], msgspec.Meta(min_length=1, max_length=MAX_ITEMS)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=MAX_DEADLINE_S)]
Reason = Annotated[str, msgspec.Meta(max_length=1024)]


class PullBody(msgspec.Struct, forbid_unknown_fields=True):
    max_messages: int | float = _DEFAULT_MESSAGES
    max_bytes: int | float = MAX_BYTES
    wait_seconds: float = 0.0
    min_messages: int | float = 1
    consumer: str | msgspec.UnsetType = msgspec.UNSET
    partitions: list[int] | msgspec.UnsetType = msgspec.UNSET
    affinity: bool = False


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
    publish: msgspec.Raw = msgspec.Raw()
    """A JSON array of messages; empty where there is none."""


class AckRequest(msgspec.Struct, array_like=True):
    """An ack, as far as it is read here."""

    ids: Ids
    publish: bytes = b""
    """A JSON array of messages, which somebody else reads; empty where there is none."""
    topics: list[str] = []
    """Those that they go to."""


class _Output(msgspec.Struct, gc=False):
    """As much of an output as says where it goes."""

    topic: str


class ReleaseBody(_IdsBody, forbid_unknown_fields=True):
    pass


class NackBody(_IdsBody, forbid_unknown_fields=True):
    delay_seconds: Seconds | None = None
    reason: Reason | None = None


class RejectBody(_IdsBody, forbid_unknown_fields=True):
    reason: Reason | None = None


class ModifyBody(_IdsBody, forbid_unknown_fields=True, kw_only=True):
    deadline_seconds: Seconds


class Taker(NamedTuple):
    """Who takes, and from where."""

    consumer: str
    places: Places | None


class PullRequest(msgspec.Struct, frozen=True):
    """A pull whose limits hold."""

    max_messages: int = _DEFAULT_MESSAGES
    max_bytes: int = MAX_BYTES
    wait_s: float = 0.0
    min_messages: int = 1
    consumer: str = NAMELESS
    places: Places | None = None
    """None: all partitions."""

    @property
    def gathers(self) -> bool:
        """What comes is held until there is enough of it."""
        return self.min_messages > 1 and self.wait_s > 0


class StreamRequest(msgspec.Struct, frozen=True):
    """A stream whose limits hold."""

    max_messages: int
    """Most outstanding ones, and the most bytes of their data."""
    max_bytes: int
    heartbeat_s: float
    ends_after_s: float
    """Infinite: no end."""
    consumer: str
    places: Places | None = None


class Query:
    """Query parameters; the last of a repeated one counts."""

    def __init__(self, scope: Scope) -> None:
        raw = scope["query_string"]
        self._values: dict[str, list[str]] = {}
        if raw:
            text = raw.decode("ascii", "replace")
            self._values = parse_qs(text, keep_blank_values=True, errors="replace")

    def text(self, name: str) -> str | None:
        given = self._values.get(name)
        return None if given is None else given[-1]

    def number(self, name: str, default: float) -> float:
        """NaN for what is none."""
        given = self.text(name)
        if given is None:
            return default
        return float(given) if _DECIMAL.fullmatch(given) else math.nan


ACK = msgspec.json.Decoder(AckBody)
NACK = msgspec.json.Decoder(NackBody)
REJECT = msgspec.json.Decoder(RejectBody)
RELEASE = msgspec.json.Decoder(ReleaseBody)
MODIFY = msgspec.json.Decoder(ModifyBody)
_PULL = msgspec.json.Decoder(PullBody)
_OUTPUTS = msgspec.json.Decoder(list[_Output])


async def ack_of(workshop: Workshop | None, tenant_id: bytes, body: bytes) -> AckRequest:
    """Raises a 400 or 422 Problem; 413 or 429 for one that takes long to read."""
    if dear(body):
        return await read_apart(workshop, tenant_id, AckRequest, decoded_ack, body)
    return decoded_ack(body)


def decoded_ack(body: bytes) -> AckRequest:
    given = decoded(body, ACK)
    publish = bytes(given.publish)
    return AckRequest(given.ids(), publish, _topics_of(publish) if publish else [])


def _topics_of(publish: bytes) -> list[str]:
    """Raises a 422 Problem for outputs that do not say where they go."""
    try:
        return [output.topic for output in _OUTPUTS.decode(publish)]
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise invalid("The outputs do not fit.", [FieldError("publish", str(error))]) from error


def pull_of_query(scope: Scope) -> PullRequest:
    """400 naming the parameter that does not fit."""
    query = Query(scope)
    consumer, errors = consumer_of(scope, query.text("consumer"))
    places, wrong = places_of(query.text("partitions"), query.text("affinity"), consumer)
    return _checked(
        query.number("max_messages", _DEFAULT_MESSAGES),
        query.number("max_bytes", MAX_BYTES),
        query.number("wait_seconds", 0.0),
        query.number("min_messages", 1),
        Taker(consumer, places),
        errors + wrong,
    )


def pull_of_body(scope: Scope, body: bytes) -> PullRequest:
    """An empty body takes the defaults."""
    given = decode(body, _PULL) if body.strip() else PullBody()
    named = None if given.consumer is msgspec.UNSET else given.consumer
    consumer, errors = consumer_of(scope, named)
    partitions = None if given.partitions is msgspec.UNSET else frozenset(given.partitions)
    places, wrong = checked(partitions, given.affinity, consumer)
    return _checked(
        given.max_messages,
        given.max_bytes,
        given.wait_seconds,
        given.min_messages,
        Taker(consumer, places),
        errors + wrong,
    )


def stream_of_query(scope: Scope) -> StreamRequest:
    """400 naming the parameter that does not fit."""
    query = Query(scope)
    messages = query.number("max_outstanding_messages", 100)
    size_bytes = query.number("max_outstanding_bytes", MAX_BYTES)
    heartbeat_s = query.number("heartbeat_seconds", 10.0)
    max_s = query.number("max_seconds", 0.0)
    consumer, errors = consumer_of(scope, query.text("consumer"))
    places, wrong = places_of(query.text("partitions"), query.text("affinity"), consumer)
    errors += wrong
    if not _whole(messages, MAX_OUTSTANDING):
        errors.append(
            FieldError("max_outstanding_messages", f"an integer from 1 to {MAX_OUTSTANDING}")
        )
    if not _whole(size_bytes, MAX_OUTSTANDING_BYTES):
        limit = MAX_OUTSTANDING_BYTES
        errors.append(FieldError("max_outstanding_bytes", f"an integer from 1 to {limit}"))
    if not 1 <= heartbeat_s <= MAX_WAIT_S:
        errors.append(FieldError("heartbeat_seconds", f"seconds from 1 to {MAX_WAIT_S:g}"))
    if not 0 <= max_s <= MAX_DEADLINE_S:
        errors.append(FieldError("max_seconds", f"seconds from 0 to {MAX_DEADLINE_S}"))
    if errors:
        raise invalid("A limit of the stream does not fit.", errors, status=400)
    ends_after_s = max_s if query.text("max_seconds") is not None else math.inf
    return StreamRequest(
        int(messages), int(size_bytes), heartbeat_s, ends_after_s, consumer, places
    )


def consumer_of(scope: Scope, given: str | None) -> tuple[str, list[FieldError]]:
    """The consumer's name for itself: the parameter, else the header, else none."""
    names = {"consumer": given}
    raw = header(scope, CONSUMER_HEADER)
    if raw is not None:
        names["Packetboat-Consumer"] = raw.decode("latin-1")
    errors = [
        FieldError(field, "1 to 128 printable ASCII characters")
        for field, name in names.items()
        if name is not None and not _CONSUMER.fullmatch(name)
    ]
    return given or names.get("Packetboat-Consumer") or NAMELESS, errors


def _whole(value: float, most: int) -> bool:
    return 1 <= value <= most and value == int(value)


def _checked(
    max_messages: float,
    max_bytes: float,
    wait_s: float,
    min_messages: float,
    taker: Taker,
    errors: list[FieldError],
) -> PullRequest:
    if not _whole(max_messages, MAX_MESSAGES):
        errors.append(FieldError("max_messages", f"an integer from 1 to {MAX_MESSAGES}"))
    elif not _whole(min_messages, int(max_messages)):
        errors.append(FieldError("min_messages", "an integer from 1 to max_messages"))
    if not _whole(max_bytes, MAX_BYTES):
        errors.append(FieldError("max_bytes", f"an integer from 1 to {MAX_BYTES}"))
    if not 0 <= wait_s <= MAX_WAIT_S:
        errors.append(FieldError("wait_seconds", f"seconds from 0 to {MAX_WAIT_S:g}"))
    if errors:
        raise invalid("A limit of the pull does not fit.", errors, status=400)
    return PullRequest(int(max_messages), int(max_bytes), float(wait_s), int(min_messages), *taker)
