"""What became of the ids of an ack or a nack, and what may be published with an ack."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from packetboat.models.messages import Data


class Output(msgspec.Struct, frozen=True, kw_only=True):
    """A message to publish with an ack: readable if and only if the ack is committed."""

    topic: str
    data: Data
    content_type: str | None = None
    key: str | None = None
    attributes: Mapping[str, str] | None = None
    priority: int = 0
    ttl_seconds: float | None = None
    traceparent: str | None = None
    """W3C trace context; None: that of the active span of OpenTelemetry, if there is one."""
    tracestate: str | None = None


class ItemFailure(msgspec.Struct, frozen=True):
    """Why one id of an ack or nack failed."""

    index: int
    status: int
    type: str
    detail: str = ""
    ack_id: str | None = None
    message_id: str | None = None

    @property
    def slug(self) -> str:
        """The last part of the type: `lease-expired`."""
        return self.type.rpartition("/")[2]


class Settled(msgspec.Struct, frozen=True):
    """How many ids were acked, nacked, …, and which were not."""

    count: int
    failures: tuple[ItemFailure, ...] = ()
    published: tuple[str, ...] = ()
    """Message ids of an ack that publishes, in the order given; empty where it is a duplicate."""
    duplicate: bool = False
    """Of an ack that publishes: the messages were acked before, and nothing was published now."""
