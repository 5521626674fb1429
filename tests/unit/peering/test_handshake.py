"""Each statement at the head of peering/rpc/handshake.py has a test: which peers are let in."""

from __future__ import annotations

import asyncio
import hmac
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec
import pytest

from peering.rpc import handshake
from peering.rpc.connection import FrameConnection
from peering.rpc.dialling import Backoff, dial, keep_dialling
from peering.rpc.frames import (
    HANDSHAKE_FRAME_BYTES,
    MAGIC,
    FrameReader,
    Goodbye,
    Wire,
    encode_frame,
    encode_head,
)
from peering.rpc.handshake import (
    DIALER,
    LISTENER,
    Challenge,
    HandshakeFailed,
    Hello,
    Listening,
    Party,
    PeerRefusal,
    Proof,
    RefusedByPeer,
    RpcProtocol,
    Welcome,
)
from peering.shared_secret import SharedSecret
from subscribe_forwarder.fleet.links import wire as links
from subscribe_forwarder.fleet.links.legacy import LAYOUT as LEGACY_LAYOUT
from subscribe_forwarder.fleet.links.legacy import Version1

SECRET = SharedSecret(b"a secret of tests")
OTHER = SharedSecret(b"another secret")
NONCE = bytes(32)


class Say(msgspec.Struct, array_like=True, tag=9):
    text: str


Head = Say | Goodbye
WIRE: Wire[Head] = Wire(msgspec.msgpack.Decoder(Head).decode, 100_000, 10_000, 1_000_000)
PROTOCOL: RpcProtocol[Head] = RpcProtocol(b"test", WIRE, oldest=2, newest=3)
OLDER: RpcProtocol[Head] = RpcProtocol(b"test", WIRE, oldest=2, newest=3, legacy=Version1())
"""A protocol that also speaks the form of links of release 0.2.0."""


class Heard:
    """The handler of an open connection."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.reasons: list[str] = []

    def frame(self, head: Head, body: bytes) -> None:
        self.texts.append(head.text)

    def closed(self, reason: str) -> None:
        self.reasons.append(reason)

    def congestion(self, congested: bool) -> None:
        pass


_connections: list[FrameConnection[Head]] = []
_writers: list[asyncio.StreamWriter] = []


def made(protocol: RpcProtocol[Head]) -> FrameConnection[Head]:
    """Return a connection that `end` closes."""
    connection = protocol.connection()
    _connections.append(connection)
    return connection


async def end() -> None:
    """Close what a test has opened: a loop of uvloop that is closed before its sockets hangs."""
    for connection in _connections:
        connection.abort("the test is over")
    for writer in _writers:
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
    for connection in _connections:
        await connection.wait_closed(1.0)
    _connections.clear()
    _writers.clear()


class Listener:
    """Lets in whom it is told to; `heard` is what those say who are in."""

    def __init__(self, secret: SharedSecret, protocol: RpcProtocol[Head]) -> None:
        self.party = Party(secret, b"listener")
        self.protocol = protocol
        self.judged: list[bytes] = []
        self.opened: list[bytes] = []
        self.refusal: PeerRefusal | None = None
        self.heard = Heard()
        self.more = b""
        self.port = 0

    def accept(self) -> FrameConnection[Head]:
        connection = made(self.protocol)
        connection.handler = Listening(
            connection,
            self.protocol,
            self.party,
            admit=self.admit,
            welcome=lambda claim: b"welcome, " + claim + self.more,
            opened=self.open,
        )
        return connection

    def admit(self, claim: bytes) -> PeerRefusal | None:
        self.judged.append(claim)
        return self.refusal

    def open(self, connection: FrameConnection[Head], claim: bytes) -> None:
        self.opened.append(claim)
        connection.handler = self.heard


@asynccontextmanager
async def listening(
    secret: SharedSecret = SECRET, protocol: RpcProtocol[Head] = PROTOCOL
) -> AsyncIterator[Listener]:
    listener = Listener(secret, protocol)
    server = await asyncio.get_running_loop().create_server(listener.accept, "127.0.0.1", 0)
    listener.port = server.sockets[0].getsockname()[1]
    try:
        yield listener
    finally:
        server.close()
        await end()


class Opened:
    """The values that a dialer gets when its connection is open."""

    def __init__(self) -> None:
        self.claim = self.told = b""
        self.heard = Heard()

    def __call__(self, connection: FrameConnection[Head], claim: bytes, told: bytes) -> None:
        self.claim, self.told = claim, told
        connection.handler = self.heard


async def dialled(
    port: int,
    secret: SharedSecret = SECRET,
    protocol: RpcProtocol[Head] = PROTOCOL,
    opened: Opened | None = None,
    **options: Any,
) -> FrameConnection[Head]:
    party = Party(secret, b"dialer")
    options["make"] = lambda: made(protocol)
    return await dial(("127.0.0.1", port), protocol, party, opened or Opened(), **options)


class Stranger:
    """Speaks the present form by hand."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        _writers.append(writer)
        self._frames: FrameReader[bytes] | None = None
        self.hello = b""

    def say(self, head: msgspec.Struct, body: bytes = b"") -> None:
        self.say_bytes(b"".join(encode_frame(encode_head(head), [body], 100_000)))

    def say_bytes(self, raw: bytes) -> None:
        self._writer.write(raw)

    async def hear(self) -> tuple[bytes, bytes] | None:
        """Return head and body of the next frame; None if the connection was closed."""
        try:
            async with asyncio.timeout(5):
                return await self._hear()
        except TimeoutError:
            raise
        except (asyncio.IncompleteReadError, OSError):
            return None

    async def _hear(self) -> tuple[bytes, bytes]:
        if self._frames is None:
            assert await self._reader.readexactly(len(MAGIC)) == MAGIC
            self._frames = FrameReader(bytes, 100_000)
        while (frame := self._frames.next()) is None:
            data = await self._reader.read(10_000)
            if not data:
                raise asyncio.IncompleteReadError(b"", None)
            self._frames.get_buffer()[: len(data)] = data
            self._frames.filled(len(data))
        return frame

    async def challenged(self, hello: Hello | None = None) -> tuple[Challenge, bytes, bytes]:
        """Return the challenge, its bytes as they were sent, and its proof."""
        hello = hello or Hello(2, 3, b"stranger", NONCE)
        self.hello = encode_head(hello)
        self.say_bytes(MAGIC)
        self.say(hello)
        heard = await self.hear()
        assert heard is not None
        return msgspec.msgpack.decode(heard[0], type=Challenge), *heard

    async def refused(self) -> str:
        """Return the reason of a refusal; the connection is closed then."""
        heard = await self.hear()
        if heard is None:
            return ""
        said = msgspec.msgpack.decode(heard[0], type=handshake.Message)
        assert isinstance(said, Goodbye)
        assert await self.hear() is None
        return said.text

    def leave(self) -> None:
        self._writer.close()


async def stranger(listener: Listener) -> Stranger:
    return Stranger(*await asyncio.open_connection("127.0.0.1", listener.port))


def proof(
    side: bytes,
    hello: bytes,
    challenge: bytes,
    secret: SharedSecret = SECRET,
    name: bytes = b"test",
) -> bytes:
    """Compute a proof as anybody may who reads the format."""
    key = hmac.digest(secret.first, b"handshake of " + name, "sha256")
    text = b"".join(struct.pack("<I", len(each)) + each for each in (side, hello, challenge))
    return hmac.digest(key, text, "sha256")


@asynccontextmanager
async def answering(answer: Callable[[Stranger], Any]) -> AsyncIterator[int]:
    """Yield the port of a simple listener; `answer` gets each dialer."""
    tasks: list[asyncio.Task[None]] = []

    def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        tasks.append(asyncio.create_task(answer(Stranger(reader, writer))))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await end()


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(10):
        while not condition():
            await asyncio.sleep(0.002)


async def test_who_knows_the_secret_is_let_in_and_told_and_heard() -> None:
    async with listening() as listener:
        opened = Opened()
        connection = await dialled(listener.port, opened=opened)
        assert (opened.claim, opened.told) == (b"listener", b"welcome, dialer")
        assert listener.opened == [b"dialer"]
        assert connection.send(Say("x" * 50_000))
        await until(lambda: listener.heard.texts == ["x" * 50_000])
        connection.close("done")
        await until(lambda: listener.heard.reasons != [])


@pytest.mark.parametrize("protocol", [PROTOCOL, OLDER], ids=["present", "older too"])
async def test_a_listener_that_has_proved_itself_may_tell_much(protocol: RpcProtocol[Head]) -> None:
    async with listening(protocol=protocol) as listener:
        listener.more = bytes(50_000)
        opened = Opened()
        await dialled(listener.port, protocol=protocol, opened=opened)
        assert opened.told == b"welcome, dialer" + listener.more


async def test_only_who_knows_the_secret_is_let_in() -> None:
    async with listening() as listener:
        them = await stranger(listener)
        _, sent, shown = await them.challenged()
        assert shown == proof(LISTENER, them.hello, sent)
        them.say(Proof(), proof(DIALER, them.hello, sent, OTHER))
        assert await them.refused() == "the secrets differ"
        them = await stranger(listener)
        _, sent, _ = await them.challenged()
        them.say(Proof(), proof(DIALER, them.hello, sent))
        assert await them.hear() == (encode_head(Welcome()), b"welcome, stranger")
        assert listener.opened == [b"stranger"]


async def test_only_who_knows_the_secret_is_spoken_to() -> None:
    heard: list[Any] = []

    async def answer(them: Stranger) -> None:
        dialed = await them.hear()
        assert dialed is not None
        challenge = Challenge(3, b"listener", NONCE)
        them.say_bytes(MAGIC)
        them.say(challenge, proof(LISTENER, dialed[0], encode_head(challenge), OTHER))
        heard.append(await them.hear())
        them.leave()

    expected: list[bytes] = []
    async with answering(answer) as port:
        with pytest.raises(HandshakeFailed, match="the secrets differ"):
            await dialled(port, expect=lambda claim: expected.append(claim))
        await until(lambda: heard)
    assert heard == [None]
    assert expected == []


async def test_a_proof_fits_one_handshake_and_one_side_of_it() -> None:
    async with listening() as listener:
        first, again, mirror = [await stranger(listener) for _ in range(3)]
        _, sent, _ = await first.challenged()
        good = proof(DIALER, first.hello, sent)
        _, later, _ = await again.challenged()
        assert later != sent
        again.say(Proof(), good)
        assert await again.refused() == "the secrets differ"
        _, _, shown = await mirror.challenged()
        mirror.say(Proof(), shown)
        assert await mirror.refused() == "the secrets differ"
        first.say(Proof(), good)
        assert await first.hear() is not None
        assert listener.opened == [b"stranger"]


@asynccontextmanager
async def between(
    port: int,
    *,
    hello: Callable[[bytes], bytes] = lambda raw: raw,
    challenge: Callable[[bytes], bytes] = lambda raw: raw,
) -> AsyncIterator[int]:
    """Yield the port of an attacker in the middle that changes the first bytes in either
    direction.
    """

    async def pump(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter, edit: Callable[[bytes], bytes]
    ) -> None:
        first = True
        try:
            while data := await reader.read(10_000):
                writer.write(edit(data) if first else data)
                first = False
        except OSError:
            pass
        finally:
            writer.close()

    tasks: list[asyncio.Task[None]] = []

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", port)
        _writers.extend((writer, back))
        tasks.append(asyncio.create_task(pump(reader, back, hello)))
        tasks.append(asyncio.create_task(pump(there, writer, challenge)))

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await end()


def changed(kind: type[Hello | Challenge], **changes: Any) -> Callable[[bytes], bytes]:
    """Return a function that changes one frame in the present form, which stays well formed."""

    def edit(raw: bytes) -> bytes:
        reader: FrameReader[bytes] = FrameReader(bytes, 10_000, read=raw[len(MAGIC) :])
        frame = reader.next()
        assert frame is not None
        head = msgspec.structs.replace(msgspec.msgpack.decode(frame[0], type=kind), **changes)
        return MAGIC + b"".join(encode_frame(encode_head(head), [frame[1]]))

    return edit


async def test_nobody_between_changes_a_claim() -> None:
    for options in (
        {"hello": changed(Hello, claim=b"mallory")},
        {"challenge": changed(Challenge, claim=b"mallory")},
        {"hello": changed(Hello, nonce=NONCE)},
        {"challenge": changed(Challenge, nonce=NONCE)},
    ):
        async with listening() as listener, between(listener.port, **options) as port:
            with pytest.raises(HandshakeFailed, match="the secrets differ"):
                await dialled(port)
            assert listener.judged == []
    async with listening() as listener, between(listener.port) as port:
        assert await dialled(port)


def older_hello(**changes: Any) -> Callable[[bytes], bytes]:
    """Return a function that changes the dialer's first frame except its body, the present
    Hello.
    """

    def edit(raw: bytes) -> bytes:
        frame = LEGACY_LAYOUT.reader(bytes, 10_000, read=raw).next()
        assert frame is not None
        assert frame[1].startswith(MAGIC)
        head = msgspec.msgpack.decode(frame[0], type=links.Hello)
        head = msgspec.structs.replace(head, **changes)
        return b"".join(LEGACY_LAYOUT.encode(encode_head(head), [], 10_000))

    return edit


@pytest.mark.parametrize(
    ("protocol", "options", "why"),
    [
        (PROTOCOL, {"hello": changed(Hello, newest=2)}, "the secrets differ"),
        (PROTOCOL, {"challenge": changed(Challenge, version=2)}, "the secrets differ"),
        (OLDER, {"hello": older_hello()}, "refused: an older handshake than the dialer's"),
        (OLDER, {"hello": older_hello(version=1)}, "the secrets differ"),
    ],
    ids=["hello", "challenge", "form", "form and version"],
)
async def test_nobody_between_talks_two_into_what_is_older(
    protocol: RpcProtocol[Head], options: dict[str, Any], why: str
) -> None:
    async with (
        listening(protocol=protocol) as listener,
        between(listener.port, **options) as port,
    ):
        with pytest.raises(HandshakeFailed, match=why):
            await dialled(port, protocol=protocol)
        assert listener.judged == []


async def test_a_proof_is_good_for_one_protocol() -> None:
    other: RpcProtocol[Head] = RpcProtocol(b"other", WIRE, oldest=2, newest=3)
    async with listening() as listener:
        with pytest.raises(HandshakeFailed, match="the secrets differ"):
            await dialled(listener.port, protocol=other)
        assert listener.judged == []
    keys = {form.key(SECRET).first for form in (PROTOCOL.present, other.present, Version1())}
    assert len(keys | {SECRET.first}) == 4


async def test_no_claim_is_judged_before_it_is_proved() -> None:
    async with listening() as listener:
        them = await stranger(listener)
        await them.challenged()
        assert listener.judged == []
        them.say(Proof(), bytes(32))
        assert await them.refused() == "the secrets differ"
        assert listener.judged == []
        eager = await stranger(listener)
        eager.say_bytes(MAGIC)
        eager.say(Hello(2, 3, b"eager", NONCE))
        eager.say(Say("before the proof"))
        while await eager.hear() is not None:
            pass
        assert listener.judged == listener.heard.texts == []


async def test_a_claim_is_judged_by_the_dialer_too() -> None:
    """One that is not meant gets no proof; one that is refused does, and hears why."""
    async with listening() as listener:
        with pytest.raises(HandshakeFailed, match="not that one"):
            await dialled(listener.port, expect=lambda claim: "not that one")
        assert listener.judged == []
        with pytest.raises(HandshakeFailed, match="stay away"):
            await dialled(listener.port, admit=lambda claim: PeerRefusal("stay away", 7))
        await until(lambda: listener.heard.texts == ["stay away"])


@pytest.mark.parametrize("protocol", [PROTOCOL, OLDER], ids=["present", "older too"])
async def test_what_is_unproven_is_small(protocol: RpcProtocol[Head]) -> None:
    large = b"".join(encode_frame(encode_head(Say("x" * HANDSHAKE_FRAME_BYTES)), [], 100_000))
    older = b"".join(LEGACY_LAYOUT.encode(encode_head(Say("x" * 3000)), [], 100_000))
    async with listening(protocol=protocol) as listener:
        for raw in (MAGIC + large[:12], older[:12], b"GET / HTTP/1.1\r\n\r\n"):
            them = await stranger(listener)
            them.say_bytes(raw)
            assert await them.hear() is None
        assert len(listener.accept().get_buffer(-1)) == HANDSHAKE_FRAME_BYTES

    async def answer(them: Stranger) -> None:
        them.say_bytes(MAGIC + large)
        await them.hear()

    async with answering(answer) as port:
        with pytest.raises(HandshakeFailed, match="frame length"):
            await dialled(port, protocol=protocol)


async def test_who_says_nothing_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handshake, "HANDSHAKE_TIMEOUT_S", 0.05)
    async with listening() as listener:
        silent, halfway = await stranger(listener), await stranger(listener)
        await halfway.challenged()
        assert await silent.hear() is None
        assert await halfway.hear() is None

    async def answer(them: Stranger) -> None:
        await asyncio.sleep(10)

    async with answering(answer) as port:
        with pytest.raises(TimeoutError):
            await dialled(port, timeout_s=0.05)


async def test_a_stranger_cannot_say_goodbye_for_good() -> None:
    async def answer(them: Stranger) -> None:
        them.say_bytes(MAGIC)
        them.say(Goodbye("stop", 7))
        await them.hear()

    async with answering(answer) as port:
        with pytest.raises(HandshakeFailed, match="refused: stop") as caught:
            await dialled(port)
        assert not isinstance(caught.value, RefusedByPeer)
    async with listening() as listener:
        listener.refusal = PeerRefusal("stop", 7)
        with pytest.raises(RefusedByPeer, match="refused: stop") as refused:
            await dialled(listener.port)
        assert refused.value.code == 7
        assert listener.opened == []


@pytest.mark.parametrize("protocol", [PROTOCOL, OLDER], ids=["present", "older too"])
@pytest.mark.parametrize("one", range(3))
async def test_a_secret_is_changed_in_rounds(one: int, protocol: RpcProtocol[Head]) -> None:
    """Processes of a round of restarts connect to those of the round before and after, in both
    directions.
    """
    rounds = [
        SharedSecret(b"old"),
        SharedSecret(b"old", (b"new",)),
        SharedSecret(b"new", (b"old",)),
        SharedSecret(b"new"),
    ]
    for dialer, listener in ((one, one + 1), (one + 1, one)):
        async with listening(rounds[listener], protocol) as end:
            connection = await dialled(end.port, rounds[dialer], protocol)
            connection.abort("done")


@pytest.mark.parametrize(
    ("hello", "why"),
    [
        (Hello(4, 9, b"x", NONCE), "protocol 4…9 is not spoken here, only 2…3"),
        (Hello(0, 1, b"x", NONCE), "protocol 0…1 is not spoken here, only 2…3"),
        (Hello(2, 3, b"x", b"short"), "malformed hello"),
    ],
)
async def test_hellos_that_are_refused(hello: Hello, why: str) -> None:
    async with listening() as listener:
        them = await stranger(listener)
        them.say_bytes(MAGIC)
        them.say(hello)
        assert await them.refused() == why


@pytest.mark.parametrize("protocol", [PROTOCOL, OLDER], ids=["present", "older too"])
async def test_the_latest_version_of_both_is_spoken(protocol: RpcProtocol[Head]) -> None:
    """A release without the older forms sends a Hello in the present form only."""
    async with listening(protocol=protocol) as listener:
        for newest, spoken in ((2, 2), (3, 3), (9, 3)):
            them = await stranger(listener)
            challenge, _, _ = await them.challenged(Hello(1, newest, b"x", NONCE))
            assert challenge.version == spoken


@pytest.mark.parametrize(
    "said", [[Proof()], [Welcome()], [Say("x")], [Hello(2, 3, b"x", NONCE)] * 2], ids=str
)
async def test_what_is_no_handshake_is_cut(said: list[msgspec.Struct]) -> None:
    async with listening() as listener:
        them = await stranger(listener)
        them.say_bytes(MAGIC)
        for head in said:
            them.say(head)
        if len(said) > 1:
            assert await them.hear() is not None
        assert await them.refused() in ("", "not a handshake")
        assert listener.judged == []


def test_the_frames_of_the_handshake_are_frozen() -> None:
    golden = {
        "95010203c40163c4016e": Hello(2, 3, b"c", b"n"),
        "940203c40163c4016e": Challenge(3, b"c", b"n"),
        "9103": Proof(),
        "9104": Welcome(),
        "9305a16707": Goodbye("g", 7),
    }
    for raw, head in golden.items():
        assert encode_head(head).hex() == raw
        assert msgspec.msgpack.decode(bytes.fromhex(raw), type=handshake.Message) == head
        later = [*msgspec.msgpack.decode(bytes.fromhex(raw)), "of a later release"]
        assert msgspec.msgpack.decode(encode_head(later), type=handshake.Message) == head
    assert bytes.fromhex("504b4201") == MAGIC
    assert b"".join(encode_frame(b"\x91\x04", [b"told"])).hex() == (
        "0a000000" + "4d4af7d2" + "02000000" + "9104" + "746f6c64"
    )


def test_the_proof_of_the_handshake_is_frozen() -> None:
    text = PROTOCOL.present.proven(DIALER, b"hello", b"challenge")
    assert text == (b"\x06\x00\x00\x00dialer\x05\x00\x00\x00hello\x09\x00\x00\x00challenge")
    assert PROTOCOL.present.key(SECRET).prove(text) == proof(DIALER, b"hello", b"challenge")


@pytest.mark.parametrize(("stable_s", "resets"), [(0.0, True), (60.0, False)])
async def test_dialling_goes_on_until_it_is_cancelled(stable_s: float, resets: bool) -> None:
    """Waits grow while nothing lasts, and begin anew after what did."""
    tries = 0

    async def once() -> FrameConnection[Head] | None:
        nonlocal tries
        tries += 1
        if tries < 4:
            return None
        connection = PROTOCOL.connection()
        asyncio.get_running_loop().call_soon(connection.abort, "lost")
        return connection

    class Counting(Backoff):
        resets = 0

        def reset(self) -> None:
            self.resets += 1
            super().reset()

    backoff = Counting(0.001, 0.002)
    going_on = asyncio.create_task(keep_dialling(once, backoff, stable_s=stable_s))
    await until(lambda: tries > 6)
    going_on.cancel()
    await asyncio.gather(going_on, return_exceptions=True)
    assert bool(backoff.resets) is resets
