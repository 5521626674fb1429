"""Everything the clients know of HTTP. What stands on httpx is imported when it is first used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packetboat.transport.seam import (
    TIMEOUT_S,
    AsyncStreamResponse,
    AsyncTransport,
    Request,
    Response,
    StreamResponse,
    Transport,
)

if TYPE_CHECKING:
    from packetboat.transport.httpx_async import AsyncHttpxTransport
    from packetboat.transport.httpx_sync import HttpxTransport

__all__ = [
    "TIMEOUT_S",
    "AsyncHttpxTransport",
    "AsyncStreamResponse",
    "AsyncTransport",
    "HttpxTransport",
    "Request",
    "Response",
    "StreamResponse",
    "Transport",
]


def __getattr__(name: str) -> Any:
    if name == "HttpxTransport":
        from packetboat.transport.httpx_sync import HttpxTransport

        return HttpxTransport
    if name == "AsyncHttpxTransport":
        from packetboat.transport.httpx_async import AsyncHttpxTransport

        return AsyncHttpxTransport
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
