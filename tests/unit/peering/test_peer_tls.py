"""TLS between processes: who is let in, in which mode, and with files that change."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import cast

import pytest
from prometheus_client import REGISTRY

from peering.authority import make_authority
from peering.rpc.listening import (
    HANDSHAKES_AT_ONCE,
    HANDSHAKES_PER_S,
    HandshakeRates,
    PeerListener,
)
from peering.settings import PeerTlsMode
from peering.tls import PeerTls, PeerTlsError, dialing
from tests.abuse.handshakes import client_hello
from tests.unit.peering.peer_certificates import Certificates

PLAIN_HELLO = b"\x10\x00\x00\x00 a frame"
A_YEAR_AGO = datetime.now(UTC) - timedelta(days=365)


@pytest.fixture
def ours(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path / "ours")


class Echo(asyncio.Protocol):
    """Sends back what comes."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.lost = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        assert self.transport is not None
        self.transport.write(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set()


@asynccontextmanager
async def listening(tls: PeerTls | None) -> AsyncIterator[int]:
    """Yield the port of an echo."""
    echoes: list[Echo] = []

    def echo() -> Echo:
        echoes.append(Echo())
        return echoes[-1]

    listener = PeerListener(echo, tls)
    try:
        yield await listener.start("127.0.0.1", 0)
    finally:
        listener.close()
        for one in echoes:
            if one.transport is not None:
                one.transport.abort()
                await one.lost.wait()


async def heard(port: int, tls: PeerTls | None, said: bytes = PLAIN_HELLO) -> bytes:
    """Return the echo that a dialer gets; empty if it is not let in."""
    context, name = dialing(tls)
    with suppress(OSError):
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=context, server_hostname=name
        )
        try:
            writer.write(said)
            async with asyncio.timeout(10):
                return await reader.read(len(said))
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
    return b""


def refusals(why: str) -> float:
    return (
        REGISTRY.get_sample_value("packetboat_peer_connections_refused_total", {"why": why}) or 0.0
    )


@pytest.mark.parametrize("dials", PeerTlsMode)
@pytest.mark.parametrize("listens", PeerTlsMode)
async def test_modes_that_meet(
    ours: Certificates, dials: PeerTlsMode, listens: PeerTlsMode
) -> None:
    """For every pair of modes: neighbours understand each other, and so do all but plain to
    `require` and TLS to `off`.
    """
    dialer, listener = (
        None if mode is PeerTlsMode.OFF else ours.tls(mode) for mode in (dials, listens)
    )
    understood = listens is not PeerTlsMode.OFF if dials.dials_tls else listens.listens_plain
    async with listening(listener) as port:
        if listener is None and not understood:
            return  # an echo would send back the hello of TLS itself
        assert await heard(port, dialer) == (PLAIN_HELLO if understood else b"")


async def test_who_has_no_certificate_of_ours_is_refused(
    ours: Certificates, tmp_path: Path
) -> None:
    """A listener counts them; a dialer that does not believe it goes away by itself."""
    strange = Certificates(tmp_path / "strange")
    strange_to_us = Certificates(tmp_path / "trusting")
    strange_to_us.trust(ours.authority)
    async with listening(ours.tls()) as port:
        assert await heard(port, strange.tls()) == b""
        counted = refusals("certificate")
        assert await heard(port, strange_to_us.tls()) == b""
        assert refusals("certificate") == counted + 1
        assert await heard(port, ours.tls()) == PLAIN_HELLO
        plain = refusals("plain")
        assert await heard(port, None) == b""
        assert refusals("plain") == plain + 1


async def test_an_installation_of_another_name_is_refused(
    ours: Certificates, tmp_path: Path
) -> None:
    """One CA for two installations: neither side lets the other in."""
    other = Certificates(tmp_path / "other", ours.authority)
    other.issue("staging")
    async with listening(ours.tls()) as port:
        assert await heard(port, other.tls(name="staging")) == b""
    disguised = other.tls(name="staging")
    async with listening(disguised) as port:
        assert await heard(port, ours.tls()) == b""
        assert await heard(port, disguised) == PLAIN_HELLO
    # A dialer that would believe us is held to the name by the listener.
    context = disguised.dialing().context
    assert context is not None
    context.check_hostname = False
    async with listening(ours.tls()) as port:
        counted = refusals("certificate")
        assert await heard(port, disguised) == b""
        assert refusals("certificate") == counted + 1


async def test_a_certificate_that_ended_is_refused(
    ours: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that holds one that ended since it was read."""
    ours.issue(days=1, now=A_YEAR_AGO)
    with monkeypatch.context() as earlier:
        earlier.setattr("peering.tls.time.time", lambda: A_YEAR_AGO.timestamp() + 60)
        ended = ours.tls()
    ours.issue()
    async with listening(ours.tls()) as port:
        assert await heard(port, ended) == b""
    async with listening(ended) as port:
        assert await heard(port, ours.tls()) == b""


async def test_files_that_change_hold_for_new_connections(ours: Certificates) -> None:
    """A new CA is put beside the old one, certificates follow, the old CA goes: all without a
    restart, with a connection that stays open from before."""
    listener, dialer = ours.tls(), ours.tls()
    old, new = ours.authority, make_authority("the next CA")
    async with listening(listener) as port:
        context, name = dialer.dialing()
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=context, server_hostname=name
        )
        ours.trust(old, new)
        listener.refresh()
        ours.authority = new
        ours.issue()
        dialer.refresh()  # shows a certificate of the new CA, and trusts both
        assert await heard(port, dialer) == PLAIN_HELLO
        listener.refresh()
        assert await heard(port, dialer) == PLAIN_HELLO
        ours.trust(new)
        listener.refresh()
        assert await heard(port, dialer) == PLAIN_HELLO
        ours.authority = old
        ours.issue()
        dialer.refresh()
        assert await heard(port, dialer) == b"", "the old CA is out"
        writer.write(b"still")
        assert await reader.readexactly(5) == b"still"
        writer.close()


def test_files_that_can_not_be_used_change_nothing(ours: Certificates) -> None:
    tls = ours.tls()
    before = tls.listening()
    unread = "packetboat_peer_certificate_unreadable"
    for spoil in _spoils(ours):
        ours.issue()
        tls.refresh()
        assert tls.listening() is not before
        before = tls.listening()
        spoil()
        tls.refresh()
        assert tls.listening() is before
        assert REGISTRY.get_sample_value(unread) == 1
    ours.issue()
    tls.refresh()
    assert REGISTRY.get_sample_value(unread) == 0


def _spoils(ours: Certificates) -> list[Callable[[], object]]:
    def with_another_key() -> None:
        key = ours.key.read_bytes()
        ours.issue()
        ours.key.write_bytes(key)

    return [
        lambda: ours.certificate.write_text("half"),
        lambda: ours.key.unlink(),
        lambda: ours.issue("another"),
        lambda: ours.issue(days=1, now=A_YEAR_AGO),
        with_another_key,
    ]


@pytest.mark.parametrize(
    ("at", "why"),
    [
        (0, "PACKETBOAT_PEER_TLS_CERT: .*cert.pem"),
        (1, "PACKETBOAT_PEER_TLS_KEY: .*key.pem"),
        (2, "not for the name packetboat-peer .*another"),
        (3, "it ended at"),
        (4, "PACKETBOAT_PEER_TLS_KEY"),
    ],
)
def test_what_can_not_be_used_is_named_at_the_start(ours: Certificates, at: int, why: str) -> None:
    _spoils(ours)[at]()
    with pytest.raises(PeerTlsError, match=why):
        ours.tls()


def test_the_ends_are_told(ours: Certificates) -> None:
    ours.issue(days=3)
    ours.tls()
    ends = "packetboat_peer_certificate_expires_timestamp_seconds"
    left_s = (REGISTRY.get_sample_value(ends, {"of": "own"}) or 0) - datetime.now().timestamp()
    assert 0 <= 3 * 86_400 - left_s < 600
    ca_s = REGISTRY.get_sample_value(ends, {"of": "ca"}) or 0
    assert ca_s > datetime.now().timestamp() + 3_000 * 86_400


async def test_who_says_nothing_is_closed_and_hinders_nobody(
    ours: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("peering.rpc.listening.FIRST_BYTES_S", 0.3)
    async with listening(ours.tls()) as port:
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(5)]
        _, half = silent[0]
        half.write(b"\x16\x03")  # neither yet
        assert await heard(port, ours.tls()) == PLAIN_HELLO
        async with asyncio.timeout(20):
            for reader, writer in silent:
                with suppress(OSError):
                    assert await reader.read(1) == b""
                writer.close()


async def test_more_undecided_ones_than_may_be_wait_in_the_line_of_the_kernel(
    ours: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("peering.rpc.listening.MAX_UNDECIDED", 2)
    monkeypatch.setattr("peering.rpc.listening.FIRST_BYTES_S", 0.3)
    async with listening(ours.tls()) as port:
        silent = [await asyncio.open_connection("127.0.0.1", port) for _ in range(5)]
        assert await heard(port, ours.tls()) == PLAIN_HELLO
        for _, writer in silent:
            writer.close()


async def test_an_address_that_begins_many_handshakes_keeps_nobody_else_out(
    ours: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("peering.rpc.listening.HANDSHAKES_AT_ONCE", 3)
    monkeypatch.setattr("peering.rpc.listening.HANDSHAKES_PER_S", 0.0)
    async with listening(ours.tls(PeerTlsMode.ACCEPT)) as port, asyncio.timeout(20):
        answered = 0
        for _ in range(5):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(client_hello())
            with suppress(OSError):
                answered += bool(await reader.read(1))
            writer.close()
        assert answered == 3
        context, name = dialing(ours.tls())
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=context, server_hostname=name, local_addr=("127.0.0.2", 0)
        )
        writer.write(PLAIN_HELLO)
        assert await reader.readexactly(len(PLAIN_HELLO)) == PLAIN_HELLO
        writer.close()
        assert await heard(port, None) == PLAIN_HELLO, "what is no TLS costs no handshake"


def test_an_address_may_begin_handshakes_again_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("peering.rpc.listening.MAX_ADDRESSES", 2)
    rates = HandshakeRates()
    assert sum(rates.take("a", 0.0) for _ in range(1000)) == HANDSHAKES_AT_ONCE
    assert sum(rates.take("a", 2.0) for _ in range(1000)) == 2 * HANDSHAKES_PER_S
    assert all(rates.take(each, 2.0) for each in ("b", "c"))
    assert len(rates._left) == 2


async def test_plain_frames_are_never_taken_for_tls(ours: Certificates) -> None:
    """Frames with a length that begins with 0x16, and even with 0x16 0x03, are plain."""
    async with listening(ours.tls(PeerTlsMode.ACCEPT)) as port:
        for said in (b"\x16\x03\x00\x00 a frame", b"\x16\x00\x00\x00 a frame"):
            assert await heard(port, None, said) == said


def test_keys_are_their_owner_s_alone(ours: Certificates) -> None:
    assert os.stat(ours.key).st_mode & 0o777 == 0o600


async def test_nothing_that_comes_in_is_a_defect(
    ours: Certificates, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing reaches the loop's exception handler, which would end a store node."""
    monkeypatch.setattr("peering.rpc.listening.TLS_HANDSHAKE_S", 0.5)
    heard_of: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: heard_of.append(context))
    hello = _client_hello(ours.tls())
    rude: list[Callable[[int], Awaitable[object]]] = [
        partial(_say, b""),
        partial(_say, b"\x16"),
        partial(_say, b"\x16\x03\x01"),
        partial(_say, b"\x16\x03\x01" + bytes(600)),
        partial(_say, hello[: len(hello) // 2]),
        partial(_say, hello),
        partial(_say, hello, reset=True),
        partial(_say, hello + b"\x17\x03\x03\x00\x05junk!"),
        partial(_say, hello, wait=True),  # its handshake never goes on
        lambda port: heard(port, Certificates(tmp_path / "strange").tls()),
        lambda port: heard(port, None),
        partial(_handshake_and_go, ours.tls()),
    ]
    async with listening(ours.tls()) as port:
        for be_rude in rude:
            await asyncio.gather(*(be_rude(port) for _ in range(4)))
            assert await heard(port, ours.tls()) == PLAIN_HELLO
            assert heard_of == []


def _client_hello(tls: PeerTls) -> bytes:
    context, name = tls.dialing()
    assert context is not None
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    with suppress(ssl.SSLWantReadError):
        context.wrap_bio(incoming, outgoing, server_hostname=name).do_handshake()
    return outgoing.read()


async def _say(said: bytes, port: int, *, reset: bool = False, wait: bool = False) -> None:
    """Send some bytes and go, after a while or with a reset."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(said)
    with suppress(OSError):
        await writer.drain()
        if wait:
            async with asyncio.timeout(20):
                while await reader.read(1000):
                    pass
        if reset:
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
    writer.transport.abort()


async def _handshake_and_go(tls: PeerTls, port: int) -> None:
    context, name = tls.dialing()
    with suppress(OSError):
        _, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=context, server_hostname=name
        )
        writer.transport.abort()
