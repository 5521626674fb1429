"""One line a message, whatever is in it, and who gets which format."""

from __future__ import annotations

import msgspec
import pytest

from subscribe_forwarder.api.stream_lines import NDJSON, SSE, LineFormat, format_of
from subscribe_forwarder.delivery.reading.render import deliveries

CLEAN = '"data":{"a":"ü"}'
ENDS = [
    ('"data":\r{"a":1}', {"a": 1}),
    ('"data":\n{"a":1}', {"a": 1}),
    ('"data":\r\n{"a":1}', {"a": 1}),
    ('"data":"x\u0085y"', "x\x85y"),
    ('"data":"x\u2028y"', "x\u2028y"),
    ('"data":"x\u2029y"', "x\u2029y"),
]


def body_of(lines: LineFormat, *fragments: str) -> bytes:
    """Return the lines of messages, each in a part of its own."""
    return lines.messages([deliveries([one.encode()], [b"ack"], None) for one in fragments])


@pytest.mark.parametrize("lines", [NDJSON, SSE], ids=["ndjson", "sse"])
@pytest.mark.parametrize(("rendered", "data"), ENDS, ids=lambda value: ascii(value))
def test_a_message_is_one_line(lines: LineFormat, rendered: str, data: object) -> None:
    body = body_of(lines, CLEAN, rendered, CLEAN).decode()
    found = [line for line in body.splitlines() if line]
    assert len(found) == 3
    line = found[1].removeprefix("data: ")
    one = msgspec.json.decode(line)
    assert (one["message"] if lines is NDJSON else one)["data"] == data


@pytest.mark.parametrize("lines", [NDJSON, SSE], ids=["ndjson", "sse"])
def test_what_needs_no_change_is_sent_as_it_is(lines: LineFormat) -> None:
    assert body_of(lines, CLEAN, CLEAN).count(CLEAN.encode()) == 2


@pytest.mark.parametrize(
    ("accept", "lines"),
    [
        (None, NDJSON),
        (b"*/*", NDJSON),
        (b"text/event-stream", SSE),
        (b"text/event-stream, */*;q=0.1", SSE),
        (b"application/x-ndjson, text/event-stream", NDJSON),
        (b"text/event-stream, application/x-ndjson", SSE),
    ],
)
def test_the_format_that_is_asked_for(accept: bytes | None, lines: LineFormat) -> None:
    assert format_of(accept) is lines
