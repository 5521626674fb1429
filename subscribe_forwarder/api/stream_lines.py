"""The lines of a stream: NDJSON, or Server-Sent Events.

NDJSON: an object a line, with one member that says what it is: `message`, `heartbeat` or `end`.
SSE: the same objects as `data` of events of that name. A message is the object that a pull answers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import msgspec

NDJSON_TYPE = b"application/x-ndjson"
SSE_TYPE = b"text/event-stream"
_encode = msgspec.json.encode
_ENDS = {
    b"\r": b" ",
    b"\n": b" ",
    b"\xc2\x85": b"\\u0085",
    b"\xe2\x80\xa8": b"\\u2028",
    b"\xe2\x80\xa9": b"\\u2029",
}
_WIDE_ENDS = [end for end in _ENDS if len(end) > 1]


class LineFormat(NamedTuple):
    """The format in which lines of a stream follow one another."""

    content_type: bytes
    before: bytes
    between: bytes
    after: bytes
    line_feeds: int
    """The number of line feeds after each message."""
    other: bytes
    """The template of a line that is no message: its name, and its JSON."""

    def messages(self, rendered: Sequence[bytes]) -> bytes:
        """Return the lines of messages; `rendered` is from `Delivery.render` and has at
        least one.
        """
        body = self._joined(rendered)
        plain = body.isascii() or not any(end in body for end in _WIDE_ENDS)
        if plain and b"\r" not in body and body.count(b"\n") == self.line_feeds * len(rendered):
            return body
        return self._joined([on_one_line(one) for one in rendered])

    def named(self, name: bytes, members: Mapping[str, object]) -> bytes:
        return self.other % (name, on_one_line(_encode(members)))

    def _joined(self, rendered: Sequence[bytes]) -> bytes:
        return b"".join((self.before, self.between.join(rendered), self.after))


NDJSON = LineFormat(NDJSON_TYPE, b'{"message":', b'}\n{"message":', b"}\n", 1, b'{"%b":%b}\n')
SSE = LineFormat(SSE_TYPE, b"data: ", b"\n\ndata: ", b"\n\n", 2, b"event: %b\ndata: %b\n\n")


def format_of(accept: bytes | None) -> LineFormat:
    """Return SSE if the client accepts it and does not name NDJSON before it; else NDJSON."""
    if accept is None or SSE_TYPE not in accept:
        return NDJSON
    ndjson_at = accept.find(NDJSON_TYPE)
    return SSE if ndjson_at < 0 or accept.find(SSE_TYPE) < ndjson_at else NDJSON


def on_one_line(rendered: bytes) -> bytes:
    """Return the text without characters that some reader takes for the end of a line.

    A body that is JSON is sent as it was published: a raw line break in it is white space between
    its parts, and other ends of lines are characters of its strings.
    """
    for end, instead in _ENDS.items():
        rendered = rendered.replace(end, instead)
    return rendered
