"""Reading the head of a plain HTTP/1.1 request, strictly; what is not plain is left to Hypercorn.

Plain means: a known method, an origin-form target, one Host, at most one well-formed
Content-Length, no Transfer-Encoding, no Expect, no Upgrade, no odd bytes anywhere. Everything else,
the malformed included, is not judged here but handed on with its bytes, so no rule of HTTP has two
readings.
"""

from __future__ import annotations

import re
from typing import NamedTuple

Headers = list[tuple[bytes, bytes]]
MAX_FIELDS = 256

_REQUEST_LINE = re.compile(rb"(GET|POST|PUT|PATCH|DELETE|HEAD|OPTIONS) (/[!-~]*) HTTP/1\.1")
_FIELDS = re.compile(
    rb"(?:\r\n[!#$%&'*+\-.^_`|~0-9A-Za-z]+:[ \t]*(?:[!-~\x80-\xff][\t -~\x80-\xff]*)?)+"
)
_LENGTH = re.compile(rb"[0-9]{1,15}")
_NOT_PLAIN = frozenset({b"transfer-encoding", b"expect", b"upgrade", b"http2-settings", b"trailer"})


class Head(NamedTuple):
    """`path` and `query` are as sent; names are lower-case, values without white space around."""

    method: str
    path: bytes
    query: bytes
    headers: Headers
    content_length: int
    close: bool


def parse_head(raw: bytes) -> Head | None:
    """`raw` is everything before the empty line. None: not plain."""
    line_end = raw.find(b"\r\n")
    line = _REQUEST_LINE.fullmatch(raw, 0, line_end if line_end >= 0 else len(raw))
    if line is None or line_end < 0 or _FIELDS.fullmatch(raw, line_end) is None:
        return None
    headers: Headers = []
    length = host = None
    close = False
    for field in raw[line_end + 2 :].split(b"\r\n"):
        name, _, value = field.partition(b":")
        name, value = name.lower(), value.strip(b" \t")
        if name in _NOT_PLAIN:
            return None
        if name == b"content-length":
            if length is not None or not _LENGTH.fullmatch(value):
                return None
            length = int(value)
        elif name == b"host":
            if host is not None:
                return None
            host = value
        elif name == b"connection":
            option = value.lower()
            if option == b"close":
                close = True
            elif option != b"keep-alive":
                return None
        headers.append((name, value))
    if host is None:
        return None
    method, target = line.groups()
    if b"#" in target:
        return None
    path, _, query = target.partition(b"?")
    return Head(method.decode("ascii"), path, query, headers, length or 0, close)
