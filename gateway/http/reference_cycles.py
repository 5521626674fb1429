"""The reference cycles of a connection of Hypercorn's are broken when it has ended.

Hypercorn, h2 and its tree of priorities make objects that refer to each other. A connection of
HTTP/2 with 100 streams once left 2,000 of them, and all that it had not sent, to the collector of
garbage, which looks seldom at objects that have lived for a while.
"""

from __future__ import annotations

import asyncio
from typing import Any

from hypercorn.protocol.h2 import H2Protocol

from gateway.middleware.errors import forget


def break_cycles(protocol: Any, reader: asyncio.StreamReader) -> None:
    """Empty the objects of a connection that has ended: nobody uses them any more, and none keeps
    another in memory."""
    forget(reader.exception())
    parts = [protocol.connection, protocol]
    if isinstance(protocol, H2Protocol):
        parts += protocol.priority._streams.values()
    for part in parts:
        vars(part).clear()
