"""Attacks on a port of peers that speaks TLS, by callers that know no secret of the installation.

Each takes an address and a number of seconds, as those of connections.py do, and returns the number
of its connections. A listener decides about a connection in four seconds at most: two for TLS, two
for the handshake inside it. The attacks keep their connections open for longer.
"""

from __future__ import annotations

import asyncio
import itertools
import ssl
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress

from peering.tls import Dialing
from tests.abuse.connections import Address, peers

AT_ONCE = 100
EVERY_S = 0.2
MOST_OPEN = 1500
"""Connections of an attack at a time: more than a listener has undecided."""


def client_hello() -> bytes:
    """Return the first flight of a handshake that a server has to answer with a signature."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    out = ssl.MemoryBIO()
    begun = context.wrap_bio(ssl.MemoryBIO(), out, server_hostname="abuse")
    with suppress(ssl.SSLWantReadError):
        begun.do_handshake()
    return out.read()


async def begun(address: Address, seconds: float) -> int:
    """Begin handshakes of TLS, and never finish one."""
    hello, end_s, count = client_hello(), time.monotonic() + seconds, 0
    async with AsyncExitStack() as held:
        while time.monotonic() < end_s:
            if count < MOST_OPEN:
                made = await held.enter_async_context(peers(address, AT_ONCE))
                for peer in made:
                    await peer.send(hello)
                count += len(made)
            await asyncio.sleep(EVERY_S)
    return count


async def silent(address: Address, seconds: float, kinds: Sequence[Dialing]) -> int:
    """Finish handshakes of TLS, by turns of each kind, and say nothing afterwards."""
    end_s, turns = time.monotonic() + seconds, itertools.cycle(kinds)
    made: list[asyncio.StreamWriter] = []

    async def dial() -> None:
        while time.monotonic() < end_s and len(made) < MOST_OPEN:
            kind = next(turns)
            with suppress(OSError, TimeoutError):
                async with asyncio.timeout(5.0):
                    _, writer = await asyncio.open_connection(
                        *address, ssl=kind.context, server_hostname=kind.name
                    )
                made.append(writer)

    try:
        await asyncio.gather(*(dial() for _ in range(20)))
        await asyncio.sleep(max(0.0, end_s - time.monotonic()))
    finally:
        for writer in made:
            writer.transport.abort()
    return len(made)


def without_certificate() -> Dialing:
    """Return the TLS arguments of a caller that has no certificate and believes every server."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return Dialing(context, "abuse")
