"""A tracer that keeps its spans."""

from __future__ import annotations

from collections.abc import Iterable

from edge.tracing import Attributes, Kind, TraceContext

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"


class RecordedSpan:
    """One that was started; `ended` once it has, with `error`."""

    def __init__(
        self,
        number: int,
        name: str,
        kind: Kind,
        parent: TraceContext,
        attributes: Attributes,
        links: Iterable[TraceContext],
    ) -> None:
        self.name, self.kind, self.parent = name, kind, parent
        self.attributes = dict(attributes)
        self.links = list(links)
        self.ended = False
        self.error = ""
        trace = (parent.traceparent or f"00-{number:032x}").split("-")[1]
        self.context = TraceContext(f"00-{trace}-{number:016x}-01", parent.tracestate)

    def set(self, name: str, value: str | int) -> None:
        assert not self.ended
        self.attributes[name] = value

    def end(self, error: str = "") -> None:
        assert not self.ended
        self.ended, self.error = True, error


class SpanRecorder:
    """A `Tracer` of `edge.tracing`."""

    def __init__(self) -> None:
        self.spans: list[RecordedSpan] = []

    def start(
        self,
        name: str,
        kind: Kind,
        parent: TraceContext,
        attributes: Attributes,
        links: Iterable[TraceContext] = (),
    ) -> RecordedSpan:
        span = RecordedSpan(len(self.spans) + 1, name, kind, parent, attributes, links)
        self.spans.append(span)
        return span

    def named(self, name: str) -> RecordedSpan:
        """Return the only span of that name; it has ended."""
        (span,) = [one for one in self.spans if one.name == name]
        assert span.ended
        return span
