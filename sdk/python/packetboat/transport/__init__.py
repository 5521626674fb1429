"""The clients' knowledge of HTTP. Modules that use httpx are imported when they are first used."""

from __future__ import annotations

from importlib import import_module
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
    from packetboat.transport.opening import open_async_transport, open_transport

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
    "open_async_transport",
    "open_transport",
]

_HOMES = {
    "AsyncHttpxTransport": "httpx_async",
    "HttpxTransport": "httpx_sync",
    "open_async_transport": "opening",
    "open_transport": "opening",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
