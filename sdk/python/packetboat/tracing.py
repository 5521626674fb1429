"""W3C trace context of what is published: that of the active span, where there is one.

A span can only be active where `opentelemetry.trace` has been imported, so nothing is imported
here, and a program without OpenTelemetry pays for one look at `sys.modules`.
"""

from __future__ import annotations

import sys
from typing import NamedTuple


class TraceContext(NamedTuple):
    """A trace context in the form of W3C Trace Context; None for a missing part."""

    traceparent: str | None = None
    tracestate: str | None = None

    def members(self) -> dict[str, str]:
        """Return the parts that are set, as headers of a request or members of a message."""
        return {name: value for name, value in self._asdict().items() if value is not None}


NONE = TraceContext()


def context_of(traceparent: str | None, tracestate: str | None) -> TraceContext:
    """Return the given context, else that of the active span."""
    if traceparent is not None:
        return TraceContext(traceparent, tracestate)
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return NONE
    span = trace.get_current_span().get_span_context()
    if not span.is_valid:
        return NONE
    parent = f"00-{span.trace_id:032x}-{span.span_id:016x}-{span.trace_flags:02x}"
    return TraceContext(parent, span.trace_state.to_header() or None)
