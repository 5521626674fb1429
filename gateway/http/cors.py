"""Lets browsers show our answers to pages of the origins in PACKETBOAT_CORS_ORIGINS.

Tokens are sent in a header and never in a cookie, so no answer allows credentials: a page can use
its own token, and nothing that the browser keeps.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from edge.asgi import Header, Scope, Send, header
from openapi.areas import OPERATIONS
from openapi.refusals import refusals_of

ANY = "*"
MAX_AGE_S = 600
"""Seconds that a browser may keep the answer to a preflight."""
METHODS = b"GET, HEAD, POST, PUT, PATCH, DELETE"
_NAMES = re.compile(rb"[A-Za-z0-9!#$%&'*+.^_`|~ ,-]{1,2048}")
_VARY = ((b"vary", b"Origin"),)


def response_headers() -> list[str]:
    """Return the names of all headers that answers have by the contract."""
    named = {"X-Request-Id"}
    for operation in OPERATIONS.values():
        headers = [header for answer in operation.answers for header in answer.headers]
        headers += [header for refusal in refusals_of(operation) for header in refusal.headers]
        named |= {header.name for header in headers}
    return sorted(named)


class Cors:
    """One per process. `origins` as in `https://app.example.com`, or `*` alone."""

    def __init__(self, origins: Sequence[str], exposed: Iterable[str]) -> None:
        self._any = ANY in origins
        self._origins = frozenset(origin.encode() for origin in origins)
        self._exposed = (b"access-control-expose-headers", ", ".join(exposed).encode())

    def headers(self, origin: bytes | None) -> tuple[Header, ...]:
        """Return the headers of every answer to a page of that origin."""
        if self._any:
            return ((b"access-control-allow-origin", b"*"), self._exposed)
        if origin not in self._origins or origin is None:
            return _VARY
        return ((b"access-control-allow-origin", origin), self._exposed, *_VARY)

    def is_preflight(self, scope: Scope, origin: bytes | None) -> bool:
        """Return whether a browser asks what a page of an allowed origin may send."""
        return (
            scope["method"] == "OPTIONS"
            and origin is not None
            and (self._any or origin in self._origins)
            and header(scope, b"access-control-request-method") is not None
        )


async def allow(scope: Scope, send: Send) -> None:
    """Answer a preflight: any method of ours is allowed, and any header that it asks for.

    The request itself is told whether the path has the method, and whether the token allows it.
    """
    headers = [
        (b"access-control-allow-methods", METHODS),
        (b"access-control-max-age", str(MAX_AGE_S).encode()),
    ]
    asked = header(scope, b"access-control-request-headers")
    if asked is not None and _NAMES.fullmatch(asked):
        headers.append((b"access-control-allow-headers", asked))
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b""})
