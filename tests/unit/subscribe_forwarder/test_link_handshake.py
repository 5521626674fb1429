"""Test which peers may open a link, by hand and in the words of release 0.2.0.

The present form is in `tests/unit/peering/test_handshake.py`.
"""

from __future__ import annotations

import asyncio
import hmac
import os
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest

from peering.rpc import handshake
from peering.rpc.frames import FrameReader, Goodbye, encode_head
from peering.shared_secret import SharedSecret
from subscribe_forwarder.fleet.links.legacy import LAYOUT, Version1
from subscribe_forwarder.fleet.links.network import LinkNetwork
from subscribe_forwarder.fleet.links.wire import WIRE, Challenge, Head, Hello, Note, Proof, Welcome
from tests.unit.subscribe_forwarder.frame_proxy import frame_proxy
from tests.unit.subscribe_forwarder.link_pair import (
    SECRET,
    End,
    follow_each_other,
    incarnation_of,
    linked,
    open_end,
    open_links,
    until,
)

THEM = incarnation_of(7)


def encode(head: Head) -> bytes:
    return b"".join(LAYOUT.encode(encode_head(head), [], 2000))


class Stranger:
    """Speaks frames by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._frames: FrameReader[Head] = LAYOUT.reader(WIRE.decode, 10_000)

    def say(self, head: Head) -> None:
        self._writer.write(encode(head))

    def say_bytes(self, data: bytes) -> None:
        self._writer.write(data)

    async def hear(self) -> Head | None:
        """Return the next head, or None if the connection was closed."""
        async with asyncio.timeout(10):
            while (frame := self._frames.next()) is None:
                data = await self._reader.read(65536)
                if not data:
                    return None
                self._frames.get_buffer()[: len(data)] = data
                self._frames.filled(len(data))
        return frame[0]

    async def refused(self) -> str:
        """Return the reason of a refusal, after which the connection is closed."""
        head = await self.hear()
        reason = head.text if isinstance(head, Goodbye) else ""
        assert head is None or isinstance(head, Goodbye)
        if head is not None:
            assert await self.hear() is None
        return reason


def proof(secret: SharedSecret, side: bytes, hello: Hello, challenge: Challenge) -> bytes:
    bare = msgspec.structs.replace(challenge, proof=b"")
    text = side + msgspec.msgpack.encode((hello, bare))
    return hmac.digest(hmac.digest(secret.first, b"links", "sha256"), text, "sha256")


def hello(**changed: Any) -> Hello:
    return msgspec.structs.replace(Hello(1, 1, THEM, os.urandom(32)), **changed)


@asynccontextmanager
async def listener() -> AsyncIterator[End]:
    end = await open_end(1)
    try:
        yield end
    finally:
        await end.links.close(0.1)


async def stranger(end: End) -> Stranger:
    return Stranger(*await asyncio.open_connection("127.0.0.1", end.port))


async def challenged(them: Stranger, said: Hello) -> Challenge:
    them.say(said)
    challenge = await them.hear()
    assert isinstance(challenge, Challenge)
    return challenge


async def test_who_knows_the_secret_is_let_in_and_sees_that_the_listener_does() -> None:
    async with listener() as end:
        them, said = await stranger(end), hello()
        challenge = await challenged(them, said)
        assert challenge.incarnation == end.incarnation
        assert challenge.proof == proof(SECRET, b"listener", said, challenge)
        them.say(Proof(proof(SECRET, b"dialer", said, challenge)))
        assert isinstance(await them.hear(), Welcome)
        assert end.links.peer(THEM) is not None


async def test_another_secret_is_refused_on_both_sides() -> None:
    async with listener() as end:
        them, said = await stranger(end), hello()
        challenge = await challenged(them, said)
        them.say(Proof(proof(SharedSecret(b"another secret"), b"dialer", said, challenge)))
        assert await them.refused() == "the secrets differ"
        other = await open_end(2, LinkNetwork(SharedSecret(b"another secret")))
        follow_each_other([end, other])
        await asyncio.sleep(0.4)
        assert end.links.peers() == other.links.peers() == []
        await other.links.close(0.1)


@pytest.mark.parametrize("one", range(3))
async def test_the_secret_is_changed_in_rounds(one: int) -> None:
    """Each round of restarts meets the one before and the one after."""
    old, new = SECRET.first, b"the next secret of tests"
    rounds = [(old,), (old, new), (new, old), (new,)]
    for pair in (rounds[one : one + 2], rounds[one : one + 2][::-1]):
        secrets = iter([SharedSecret(first, tuple(others)) for first, *others in pair])
        async with open_links(make=lambda secrets=secrets: LinkNetwork(next(secrets))):
            pass  # linked


async def test_a_proof_fits_one_handshake_only() -> None:
    async with listener() as end:
        them, said = await stranger(end), hello()
        challenge = await challenged(them, said)
        good = proof(SECRET, b"dialer", said, challenge)
        again = await stranger(end)
        second = await challenged(again, said)
        assert second.nonce != challenge.nonce
        again.say(Proof(good))
        assert await again.refused() == "the secrets differ"
        reflected = await stranger(end)
        third = await challenged(reflected, said)
        reflected.say(Proof(third.proof))
        assert await reflected.refused() == "the secrets differ"
        assert end.links.peers() == []


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (hello(version=9, oldest=9), "protocol 9…9 is not spoken here, only 1…2"),
        (hello(version=0, oldest=0), "protocol 0…0 is not spoken here, only 1…2"),
        (hello(nonce=b"short"), "malformed hello"),
    ],
)
async def test_hellos_that_are_refused(said: Hello, why: str) -> None:
    async with listener() as end:
        them = await stranger(end)
        them.say(said)
        assert await them.refused() == why


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (hello(incarnation=b""), "it has no name"),
        (hello(incarnation=incarnation_of(1)), "this is yourself"),
    ],
)
async def test_names_that_are_refused(said: Hello, why: str) -> None:
    async with listener() as end:
        them = await stranger(end)
        challenge = await challenged(them, said)
        them.say(Proof(proof(SECRET, b"dialer", said, challenge)))
        assert await them.refused() == why
        assert end.links.peers() == []


async def test_a_forwarder_of_release_0_2_0_may_be_dialled() -> None:
    """The listener passes over the body of a Hello, and both continue as that release does."""
    heard: list[Head | None] = []

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        them = Stranger(reader, writer)
        said = await them.hear()
        assert isinstance(said, Hello)
        assert (said.version, said.oldest) == (2, 1)
        bare = Challenge(min(said.version, 1), THEM, os.urandom(32), b"")
        shown = proof(SECRET, b"listener", said, bare)
        them.say(challenge := msgspec.structs.replace(bare, proof=shown))
        assert await them.hear() == Proof(proof(SECRET, b"dialer", said, challenge))
        them.say(Welcome())
        them.say(Note("news"))
        heard.extend([await them.hear() for _ in range(2)])
        writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    told: list[bytes] = []
    async with listener() as end:
        end.links.hears("news", lambda who, body: told.append(who))
        end.links.follow({THEM: ("127.0.0.1", server.sockets[0].getsockname()[1])})
        await until(lambda: told == [THEM])
        link = end.links.peer(THEM)
        assert link is not None
        link.note("news", b"x" * 5000)
        end.links.follow({})
        await until(lambda: len(heard) == 2)
        assert heard == [Note("news"), Goodbye("not live")]
    server.close()


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nhost: x\r\n\r\n",
        struct.pack("<III", 2049, 0, 0),
        encode(Welcome()),
        encode(Proof(b"x")),
        b"\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\xff",
    ],
)
async def test_what_is_no_handshake_is_cut(data: bytes) -> None:
    async with listener() as end:
        them = await stranger(end)
        them.say_bytes(data)
        assert await them.refused() in ("", "not a handshake")


async def test_who_says_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake, "HANDSHAKE_TIMEOUT_S", 0.05)
    async with listener() as end:
        them = await stranger(end)
        assert await them.hear() is None


async def test_another_forwarder_at_the_address_is_not_linked() -> None:
    async with listener() as end:
        other = await open_end(2)
        other.links.follow({THEM: ("127.0.0.1", end.port)})
        await asyncio.sleep(0.2)
        assert other.links.peers() == end.links.peers() == []
        await other.links.close(0.1)


async def test_a_handshake_cut_at_any_frame_is_tried_again() -> None:
    for frames in range(4):
        async with listener() as end, frame_proxy(end.port) as proxy:
            other = await open_end(2)
            proxy.cut_before = frames
            other.links.follow({end.incarnation: ("127.0.0.1", proxy.port)})
            await until(lambda proxy=proxy, frames=frames: len(proxy.frames) >= frames)
            await asyncio.sleep(0.05)
            assert other.links.peers() == []
            proxy.cut_before = None
            await linked([end, other])
            await other.links.close(0.1)


async def test_the_key_of_links_is_derived_from_the_secret() -> None:
    key = hmac.digest(SECRET.first, b"links", "sha256")
    assert Version1().key(SECRET) == SharedSecret(key) != SECRET


async def test_a_process_without_an_incarnation_lets_nobody_in() -> None:
    links = LinkNetwork(SECRET)
    port = await links.start("127.0.0.1", 0)
    them = Stranger(*await asyncio.open_connection("127.0.0.1", port))
    assert await them.hear() is None
    await links.close(0.1)
