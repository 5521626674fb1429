"""W3C trace context goes with what is published: that of the active span, or as it is given."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    TraceFlags,
    TraceState,
    use_span,
)
from packetboat import Client, Emit, Outgoing, Output
from packetboat.models import Message
from packetboat.publisher.pending import pending
from packetboat.tracing import context_of
from packetboat.transport import Request
from packetboat.worker.calls import _output

from tests.unit.sdk.sdk_support import Script, ok

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
OTHER = "00-11111111111111111111111111111111-2222222222222222-00"


@contextmanager
def active_span(state: str | None = "a=1,b=2") -> Iterator[None]:
    given = TraceState.from_header([state]) if state else None
    context = SpanContext(
        0x0AF7651916CD43DD8448EB211C80319C, 0xB7AD6B7169203331, True, TraceFlags(1), given
    )
    with use_span(NonRecordingSpan(context)):
        yield


def published(**given: Any) -> dict[str, Any]:
    none = (None,) * 3
    message = pending(b"x", *none, 0, *none, None, None, None, **given)
    item: dict[str, Any] = msgspec.msgpack.decode(message.encoded)
    return {name: value for name, value in item.items() if name.startswith("trace")}


def test_the_active_span_goes_with_a_message() -> None:
    assert published() == {}
    with active_span():
        assert published() == {"traceparent": PARENT, "tracestate": "a=1,b=2"}
    with active_span(None):
        assert published() == {"traceparent": PARENT}


def test_what_is_given_comes_first() -> None:
    with active_span():
        assert published(traceparent=OTHER) == {"traceparent": OTHER}
    assert published(traceparent=OTHER, tracestate="c=3")["tracestate"] == "c=3"


def sent(call: Any) -> Request:
    script = Script(ok({"publish_id": "p", "results": [], "acked": 0}))
    with Client(transport=script) as client:
        call(client)
    (request,) = script.requests
    return request


def test_every_way_to_publish_carries_it() -> None:
    wanted = {"traceparent": PARENT, "tracestate": "a=1,b=2"}
    with active_span():
        early = sent(lambda c: c.publish_early("t", Outgoing(data=1)))
        batch = sent(lambda c: c.publish_batch("t", [1, Outgoing(data=2, traceparent=OTHER)]))
        acked = sent(lambda c: c.ack("s", "a", publish=[Output(topic="t", data=1)]))
    assert wanted.items() <= early.headers.items()
    first, second = msgspec.msgpack.decode(batch.body)["messages"]
    assert wanted.items() <= first.items()
    assert second["traceparent"] == OTHER
    assert wanted.items() <= msgspec.json.decode(acked.body)["publish"][0].items()


def test_what_a_handler_emits_carries_it() -> None:
    output = _output(Emit("t", 1, traceparent=OTHER, tracestate="c=3"))
    assert context_of(output.traceparent, output.tracestate) == (OTHER, "c=3")


def test_consumers_see_it() -> None:
    raw = {
        "message_id": "m",
        "ack_id": "a",
        "publish_time": "2026-01-01T00:00:00Z",
        "partition": 0,
        "offset": 0,
        "traceparent": PARENT,
        "tracestate": "a=1",
    }
    message = msgspec.convert(raw, Message)
    assert (message.traceparent, message.tracestate) == (PARENT, "a=1")


@pytest.mark.parametrize("name", ["opentelemetry"])
def test_publishing_imports_no_opentelemetry(name: str) -> None:
    program = (
        "import sys; from packetboat.tracing import context_of; context_of(None, None);"
        f"sys.exit({name!r} in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", program], timeout=60).returncode == 0
