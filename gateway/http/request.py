"""Parses requests of HTTP/1.1: their heads, and bodies that come in chunks.

llhttp reads both (by httptools), in its strict mode, so no rule of HTTP is written down here a
second time. We refuse some requests that it lets pass: other versions than 1.0 and 1.1, methods
that open tunnels, fragments in targets, several Hosts or none, and codings of transfer besides
chunked.

A head, and a body in chunks, both end with an empty line. A caller that feeds a parser no further
than the next one never gives it a byte of the request that follows.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser

from edge.problem import Problem

if TYPE_CHECKING:
    from gateway.http.direct import Known

Headers = list[tuple[bytes, bytes]]
MAX_HEAD_BYTES = 64 * 1024
MAX_FIELDS = 256
MAX_KNOWN_HEADS = 512
MAX_KNOWN_BYTES = 1024
MAX_SEEN_ONCE = 4096
END = b"\r\n\r\n"
_V1 = b" HTTP/1."
_CHUNKED_HEAD = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked" + END


class Malformed(Exception):
    """Raised for bytes that are no request of HTTP/1.1; the start of the next one is not known."""

    def problem(self) -> Problem:
        return Problem.of(
            "malformed-request",
            f"This is no request of HTTP/1.1: {self}.",
        )


class Head(NamedTuple):
    """`path` and `query` are as sent; names are lower-case, values without white space around."""

    method: str
    path: bytes
    query: bytes
    headers: Headers
    content_length: int
    """The length of the body; 0 if it comes in chunks."""
    close: bool
    """Whether its answer is the last of the connection."""
    chunked: bool
    expects: bool
    """The client sends the body when it is told to go on."""
    version: str
    """1.0 or 1.1"""


def parse_head(raw: bytes) -> Head:
    """`raw` is everything before the empty line. Raises Malformed."""
    seen = _SeenHead()
    parser = HttpRequestParser(seen)
    whole = raw + END
    try:
        parser.feed_data(whole)
    except HttpParserUpgrade:
        pass  # nobody has to accept an upgrade: it is answered as if it did not ask for one
    except HttpParserError as error:
        raise Malformed(_reason(error)) from None
    method, target, headers = parser.get_method(), seen.target, seen.headers
    if b" \r" in whole or b"\t\r" in whole:
        headers = [(name, value.rstrip(b" \t")) for name, value in headers]
    target_at = len(method) + 1
    version_at = target_at + len(target)
    if not (seen.whole and raw.startswith(target, target_at) and raw.startswith(_V1, version_at)):
        raise Malformed("its first line is not METHOD TARGET HTTP/1.1")
    is_1_0 = raw[version_at + len(_V1)] == 48
    fields = dict(headers)
    if b"host" not in fields and not is_1_0:
        raise Malformed("it has no Host")
    several = len(fields) < len(headers)
    if several and sum(name == b"host" for name, _ in headers) > 1:
        raise Malformed("it has more than one Host")
    option = fields.get(b"connection", b"keep-alive")
    close = is_1_0 or ((several or option != b"keep-alive") and _closes(headers))
    coding = fields.get(b"transfer-encoding")
    if coding is not None and (is_1_0 or coding.lower() != b"chunked"):
        raise Malformed("its Transfer-Encoding is not chunked")
    expects = b"expect" in fields and fields[b"expect"].lower() == b"100-continue" and not is_1_0
    if target[0] != 47 or b"#" in target:
        target = _local(method, target)
    path, _, query = target.partition(b"?")
    length = int(fields.get(b"content-length", 0))
    version = "1.0" if is_1_0 else "1.1"
    chunked = coding is not None
    return Head(
        method.decode("ascii"), path, query, headers, length, close, chunked, expects, version
    )


class KnownHeads:
    """Keeps parsed heads that came twice lately, since a publishing client repeats its head.

    A head with a key or an id of its own is not kept.
    """

    def __init__(self, known_of: Callable[[Head], Known | None] = lambda _: None) -> None:
        """Keep beside a head what `known_of` says of it, for requests that are served directly."""
        self._known: dict[bytes, Head] = {}
        self._direct: dict[bytes, Known] = {}
        self._known_of = known_of
        self._once: set[int] = set()
        """Hashes of those that came once."""

    def direct(self, raw: bytes) -> Known | None:
        """Return what is kept of a head for requests that are served directly."""
        return self._direct.get(raw)

    def read(self, raw: bytes) -> Head:
        """Return a parsed head, from memory if it is known. Raises as `parse_head` does."""
        head = self._known.get(raw)
        if head is None:
            head = parse_head(raw)
            if hash(raw) in self._once:
                self._keep(raw, head)
            else:
                if len(self._once) >= MAX_SEEN_ONCE:
                    self._once.clear()
                self._once.add(hash(raw))
        return head

    def _keep(self, raw: bytes, head: Head) -> None:
        if len(raw) <= MAX_KNOWN_BYTES:
            if len(self._known) >= MAX_KNOWN_HEADS:
                self._known.clear()
                self._direct.clear()
            self._known[raw] = head
            known = self._known_of(head)
            if known is not None:
                self._direct[raw] = known


class ChunkedBody:
    """A body in chunks, out of a stream of bytes of which it takes no more than its own."""

    def __init__(self) -> None:
        self._seen = _SeenBody()
        self._parser = HttpRequestParser(self._seen)
        self._parser.feed_data(_CHUNKED_HEAD)
        self._tail = b""
        self._framing_bytes = 0
        """Bytes of sizes, extensions and trailers since the last byte of the body."""

    @property
    def ended(self) -> bool:
        return self._seen.ended

    def feed(self, data: bytes) -> tuple[bytes, int]:
        """Return the part of the body in these bytes, and how many belong to it.

        Raises Malformed.
        """
        seen, view, taken = self._seen, memoryview(data), 0
        while taken < len(data) and not seen.ended:
            stop = self._next_end(data, taken)
            try:
                self._parser.feed_data(view[taken:stop])
            except HttpParserError as error:
                raise Malformed(_reason(error)) from None
            taken = stop
        self._tail = (self._tail + data[:taken])[-3:]
        body = b"".join(seen.parts)
        seen.parts.clear()
        self._framing_bytes = 0 if body else self._framing_bytes + taken
        if self._framing_bytes > MAX_HEAD_BYTES or seen.messages > 1:
            raise Malformed("its chunks are not followed by an end")
        return body, taken

    def _next_end(self, data: bytes, at: int) -> int:
        """Past the next empty line, which may have begun in bytes before these; else past all."""
        if not at:
            begun = (self._tail + data[:3]).find(END)
            if begun >= 0:
                return begun + len(END) - len(self._tail)
        found = data.find(END, at)
        return found + len(END) if found >= 0 else len(data)


class _SeenHead:
    """The parser's callbacks for a head."""

    __slots__ = ("headers", "target", "whole")

    def __init__(self) -> None:
        self.target = b""
        self.headers: Headers = []
        self.whole = False

    def on_url(self, url: bytes) -> None:
        self.target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        self.whole = True


class _SeenBody:
    """The parser's callbacks for a body. Trailers are read and dropped."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.messages = 0
        self.ended = False

    def on_message_begin(self) -> None:
        self.messages += 1

    def on_body(self, body: bytes) -> None:
        self.parts.append(body)

    def on_message_complete(self) -> None:
        self.ended = True


def _reason(error: Exception) -> str:
    return str(error).lower() or "it can't be read"


def _closes(headers: Headers) -> bool:
    """Several Connection fields may each have several options."""
    options = b",".join(value for name, value in headers if name == b"connection")
    return any(option.strip() == b"close" for option in options.lower().split(b","))


def _local(method: bytes, target: bytes) -> bytes:
    """Return the target without the scheme and authority that a proxy may send.

    Raises Malformed.
    """
    if not target.startswith(b"/"):
        scheme, _, rest = target.partition(b"://")
        if scheme.lower() in (b"http", b"https"):
            authority, slash, path = rest.partition(b"/")
            target = slash + path or b"/"
            if b"?" in authority:
                raise Malformed("its target has no path")
        elif target != b"*" or method != b"OPTIONS":
            raise Malformed("its target is not a path")
    if b"#" in target:
        raise Malformed("its target has a fragment")
    return target
