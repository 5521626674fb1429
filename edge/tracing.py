"""Spans of a server, which its parts report to a recorder if an operator switched one on.

A part gets a `Tracer` when it is opened, or None. With None, requests run no code about spans. Only
`gateway.telemetry` knows OpenTelemetry.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping
from contextvars import ContextVar
from typing import NamedTuple, Protocol

from edge.asgi import Header

Attributes = Mapping[str, str | int]
MAX_LINKS = 128
"""Links of one span; the specification of OpenTelemetry lets recorders drop more."""


class Kind(enum.Enum):
    """The kind of a span, in OpenTelemetry's words."""

    SERVER = "server"
    CLIENT = "client"
    PRODUCER = "producer"


class TraceContext(NamedTuple):
    """A place in a trace, as W3C Trace Context writes it; a text that is no such place counts as
    none.
    """

    traceparent: str | None = None
    tracestate: str | None = None


NOWHERE = TraceContext()


class Span(Protocol):
    """An operation that is under way; the code that starts a span ends it."""

    @property
    def context(self) -> TraceContext:
        """The place where spans of its parts begin."""
        ...

    def set(self, name: str, value: str | int) -> None:
        """Add an attribute."""
        ...

    def end(self, error: str = "") -> None:
        """End the span now; `error` says in a few words why the operation failed."""
        ...


class Tracer(Protocol):
    """A source of spans, which neither raises nor waits, even if its recorder fails."""

    def start(
        self,
        name: str,
        kind: Kind,
        parent: TraceContext,
        attributes: Attributes,
        links: Iterable[TraceContext] = (),
    ) -> Span:
        """Start a span that continues the trace of `parent`; NOWHERE begins a trace.

        `links` are places in other traces that the span has to do with; the first MAX_LINKS count.
        """
        ...


REQUEST: ContextVar[TraceContext] = ContextVar("packetboat.request_span", default=NOWHERE)
"""The span of the request that runs in this task, where spans are on."""


def context_of(headers: Iterable[Header]) -> TraceContext:
    """Return the place in a trace that the headers of a request name."""
    traceparent = tracestate = None
    for name, value in headers:
        if name == b"traceparent":
            traceparent = value.decode("latin-1")
        elif name == b"tracestate":
            text = value.decode("latin-1")
            tracestate = text if tracestate is None else f"{tracestate},{text}"
    return TraceContext(traceparent, tracestate)


def message_attributes(operation: str, topic: str) -> dict[str, str | int]:
    """Return what every span about messages says, by OpenTelemetry's names."""
    return {
        "messaging.system": "packetboat",
        "messaging.operation.name": operation,
        "messaging.destination.name": topic,
    }
