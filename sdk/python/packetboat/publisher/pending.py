"""A message between `publish` and its receipt: encoded once, when it is taken."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from packetboat.calls.call import moment
from packetboat.codec import encode_data
from packetboat.errors import PacketboatError
from packetboat.models import Data
from packetboat.tracing import context_of


class Kind(NamedTuple):
    """The properties that all messages of a batch share, because headers of the request
    carry them.
    """

    publisher_id: str | None = None
    durability: str | None = None
    own_keys: bool = False
    """True if the messages have idempotency keys of their own; else one key names the whole
    batch.
    """


PLAIN = Kind()


class Pending(msgspec.Struct, eq=False):
    """`receipt` is whatever the outcome is told to; the core does not look at it."""

    encoded: bytes
    key: str | None
    idempotency_key: str | None
    kind: Kind
    deadline_s: float
    receipt: Any = None
    settled: bool = False
    repeats: str | None = None
    """The key of a message without one of its own that may be stored, and is published again."""
    refusal: PacketboatError | None = None
    """The error of the last try, which had no effect; the message waits for the next try."""
    timeout_s: float | None = None
    """Seconds for which this message is tried, if it has a timeout of its own."""
    accepted_s: float = 0.0
    """The time at which the publisher accepted the message."""
    tries: int = 0
    """The number of requests that carried the message."""


class _Item(msgspec.Struct, omit_defaults=True):
    data: bytes
    content_type: str | None = None
    key: str | None = None
    attributes: Mapping[str, str] | None = None
    priority: int = 0
    idempotency_key: str | None = None
    delay_seconds: float | None = None
    deliver_at: str | None = None
    ttl_seconds: float | None = None
    traceparent: str | None = None
    tracestate: str | None = None


OF_A_BATCH = re.compile(r"([0-9a-f]{32}:\d{1,19}):(\d{1,4})")
"""The keys that errors name for messages without their own: a batch, and which message of it."""
_encode = msgspec.msgpack.Encoder().encode


def pending(
    data: Data,
    key: str | None,
    attributes: Mapping[str, str] | None,
    content_type: str | None,
    priority: int,
    idempotency_key: str | None,
    delay_seconds: float | None,
    deliver_at: datetime | None,
    ttl_seconds: float | None,
    publisher_id: str | None,
    durability: str | None,
    timeout_s: float | None = None,
    traceparent: str | None = None,
    tracestate: str | None = None,
) -> Pending:
    """Raises TypeError or ValueError for what cannot be a message. It has no deadline yet."""
    if timeout_s is not None and timeout_s <= 0:
        raise ValueError("timeout_s must be more than 0")
    repeats = None
    if idempotency_key is not None and OF_A_BATCH.fullmatch(idempotency_key):
        repeats, idempotency_key = idempotency_key, None
    if type(data) is not bytes:
        data, content_type = encode_data(data, content_type)
    item = _Item(
        data,
        content_type,
        key,
        attributes,
        priority,
        idempotency_key,
        delay_seconds,
        None if deliver_at is None else moment(deliver_at),
        ttl_seconds,
        *context_of(traceparent, tracestate),
    )
    kind = PLAIN
    if publisher_id is not None or durability is not None or idempotency_key is not None:
        kind = Kind(publisher_id, durability, idempotency_key is not None)
    encoded = _encode(item)
    return Pending(encoded, key, idempotency_key, kind, 0.0, repeats=repeats, timeout_s=timeout_s)
