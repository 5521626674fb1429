"""Dials a peer, and dials it again for as long as it is wanted."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any

from peering.rpc.connection import FrameConnection
from peering.rpc.frames import H
from peering.rpc.handshake import (
    HANDSHAKE_TIMEOUT_S,
    Admit,
    Dialling,
    HandshakeFailed,
    Party,
    RpcProtocol,
    anyone,
)
from peering.tls import PeerTls, dialing

Address = tuple[str, int]


async def dial(
    address: Address,
    protocol: RpcProtocol[H],
    party: Party,
    opened: Callable[[FrameConnection[H], bytes, bytes], None],
    *,
    expect: Callable[[bytes], str | None] = anyone,
    admit: Admit = anyone,
    make: Callable[[], FrameConnection[H]] | None = None,
    tls: PeerTls | None = None,
    timeout_s: float = HANDSHAKE_TIMEOUT_S,
) -> FrameConnection[H]:
    """Return a connection that the peer has welcomed and to which `opened` has given its handler.

    `handshake.Dialling` explains the arguments. Raises OSError (HandshakeFailed is one) or
    TimeoutError.
    """
    loop = asyncio.get_running_loop()
    context, name = dialing(tls)
    async with asyncio.timeout(timeout_s):
        _, connection = await loop.create_connection(
            make or protocol.connection, *address, ssl=context, server_hostname=name
        )
        try:
            if not connection.open:
                raise HandshakeFailed("closed before a word")
            handshake = Dialling(
                connection, protocol, party, expect=expect, admit=admit, opened=opened
            )
            connection.handler = handshake
            await handshake.done
        except BaseException:
            connection.abort("gave up the handshake")
            raise
    return connection


class Backoff:
    """The waits between tries: each is twice the last, up to a bound, and up to half shorter at
    random.
    """

    def __init__(self, first_s: float, most_s: float) -> None:
        self._first_s = self._next_s = first_s
        self._most_s = most_s

    def reset(self) -> None:
        self._next_s = self._first_s

    def next_s(self) -> float:
        """Return the seconds to wait before the next try."""
        wait_s = self._next_s
        self._next_s = min(self._most_s, wait_s * 2)
        return wait_s * (0.5 + os.urandom(1)[0] / 512)


async def keep_dialling(
    once: Callable[[], Awaitable[FrameConnection[Any] | None]],
    backoff: Backoff,
    *,
    stable_s: float = 0.0,
) -> None:
    """Call `once` again each time its connection is closed, until this is cancelled.

    `once` returns an open connection, or None if it failed. After a connection that lasted
    `stable_s` the waits begin anew.
    """
    loop = asyncio.get_running_loop()
    while True:
        connection = await once()
        if connection is not None:
            began_s = loop.time()
            await connection.wait_closed()
            if loop.time() - began_s >= stable_s:
                backoff.reset()
        await asyncio.sleep(backoff.next_s())
