"""One link per pair, as long as both live; made again when it is lost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from peering.rpc.dialling import Backoff
from peering.tls import PeerTls
from subscribe_forwarder.fleet.links import link as link_module
from subscribe_forwarder.fleet.links import network
from subscribe_forwarder.fleet.links.network import (
    FIRST_RETRY_S,
    MOST_RETRY_S,
    PING_EVERY_S,
    LinkNetwork,
)
from subscribe_forwarder.fleet.links.wire import WIRE
from subscribe_forwarder.peers import PeerGone
from tests.unit.peering.peer_certificates import Certificates
from tests.unit.subscribe_forwarder.frame_proxy import frame_proxy
from tests.unit.subscribe_forwarder.link_pair import (
    SECRET,
    Client,
    End,
    follow_each_other,
    incarnation_of,
    linked,
    open_end,
    open_links,
    until,
)


@asynccontextmanager
async def _new_end(number: int) -> AsyncIterator[End]:
    end = await open_end(number)
    try:
        yield end
    finally:
        await end.links.close(0.1)


def live(*ends: End) -> dict[bytes, tuple[str, int]]:
    return {end.incarnation: ("127.0.0.1", end.port) for end in ends}


async def test_each_pair_has_one_link_however_it_came_up() -> None:
    async with open_links(5) as ends:
        follow_each_other(ends)
        await asyncio.sleep(0.3)  # those that dial a moment later have done so
        await linked(ends)
        for end in ends:
            assert end.links.peer(end.incarnation) is None
            assert len(end.links._connections) == len(ends) - 1


@pytest.mark.parametrize("seed", range(4))
async def test_when_both_dial_at_once_the_smaller_ones_connection_stays(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(network, "YIELD_S", seed / 5000)
    for _ in range(10):
        one, two = await open_end(1), await open_end(2)
        follow_each_other([one, two])
        await linked([one, two])
        await asyncio.sleep(0.02)
        await linked([one, two])
        # Where they crossed, both kept the same one; where the later did not dial, there is one.
        assert one.link(two).dialled is not two.link(one).dialled
        assert len(one.links._connections) == len(two.links._connections) == 1
        await asyncio.gather(one.links.close(0.1), two.links.close(0.1))


async def test_two_connections_at_once_end_as_the_one_of_the_smaller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both listeners let the other in before either dialer is welcomed."""
    monkeypatch.setattr(network, "YIELD_S", 0.0)
    one, two = await open_end(1), await open_end(2)
    async with frame_proxy(one.port) as to_one, frame_proxy(two.port) as to_two:
        two_dials = {one.incarnation: ("127.0.0.1", to_one.port)}
        one_dials = {two.incarnation: ("127.0.0.1", to_two.port)}
        # After the challenge, before the proof.
        to_one.on_frame = lambda frame: to_one.freeze() if len(to_one.frames) == 2 else None
        to_two.on_frame = lambda frame: to_two.freeze() if len(to_two.frames) == 2 else None
        two.links.follow(two_dials)
        one.links.follow(one_dials)
        await until(lambda: len(to_one.frames) == len(to_two.frames) == 2)
        to_one.on_frame = to_two.on_frame = lambda frame: None
        to_one.thaw()
        to_two.thaw()
        await linked([one, two])
        await asyncio.sleep(0.05)
        await linked([one, two])
        assert one.link(two).dialled
        assert not two.link(one).dialled
        await asyncio.gather(one.links.close(0.1), two.links.close(0.1))


async def test_a_lost_link_is_made_again_from_either_side() -> None:
    async with open_links() as ends:
        one, two = ends
        for loser, other in ((one, two), (two, one)):
            loser.link(other).connection.abort("cut")
            assert loser.links.peers() == []
            await linked(ends)


async def test_who_lives_no_more_is_dropped_and_not_dialled() -> None:
    async with open_links(3) as (one, two, three):
        one.links.follow(live(one, three))
        assert [peer.incarnation for peer in one.links.peers()] == [three.incarnation]
        two.links.follow(live(two, three))
        await until(lambda: one.links.peer(two.incarnation) is two.links.peer(one.incarnation))
        await asyncio.sleep(0.3)
        assert one.links.peer(two.incarnation) is None
        assert three.links.peer(two.incarnation) is not None


async def test_a_peer_that_is_not_listed_yet_keeps_its_link_for_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with open_links() as (old, _), _new_end(9) as new:
        new.links.follow(live(old))
        await until(lambda: old.links.peer(new.incarnation))
        old.links.follow({})
        assert old.links.peer(new.incarnation) is not None
        monkeypatch.setattr(network, "UNLISTED_S", 0.0)
        old.links.follow({})
        assert old.links.peer(new.incarnation) is None


async def test_a_forwarder_registered_anew_has_links_under_its_new_name() -> None:
    told: list[tuple[bytes, bool]] = []
    async with open_links() as (one, two):
        one.links.on_peer(lambda who, there: told.append((who, there)))
        old, two.incarnation = two.incarnation, incarnation_of(8)
        two.links.identify(two.incarnation)
        await until(lambda: one.links.peer(two.incarnation))
        assert one.links.peer(old) is None
        assert told == [(old, False), (two.incarnation, True)]
        await until(lambda: two.links.peer(one.incarnation))
        two.links.identify(two.incarnation)
        assert two.links.peer(one.incarnation) is not None
        two.links.identify(None)
        assert two.links.peers() == []
        await until(lambda: one.links.peers() == [])
        await asyncio.sleep(0.2)
        assert one.links.peers() == []


async def test_a_peer_that_falls_silent_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that was stopped: its connection stays, nothing comes of it."""
    monkeypatch.setattr(link_module, "SILENCE_S", 1.2)
    async with _new_end(1) as one, _new_end(2) as two, frame_proxy(two.port) as proxy:
        one.links.follow({two.incarnation: ("127.0.0.1", proxy.port)})
        await linked([one, two])
        client = Client()
        asking = asyncio.create_task(
            one.link(two).request("x", client.scope, client.receive, client.send)
        )
        await asyncio.sleep(0)
        proxy.freeze()
        asked_s = time.monotonic()
        with pytest.raises(PeerGone, match="silent"):
            await asking
        assert time.monotonic() - asked_s >= 1.2 - PING_EVERY_S
        await until(lambda: two.links.peers() == [])


async def test_after_a_stop_of_our_own_nothing_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bytes in the sockets were written to a process that the others may have given up."""
    heard: list[bytes] = []
    async with open_links() as (one, two):
        one.links.hears("news", lambda who, body: heard.append(body))
        one.links._pulse.beat_s -= network.PAUSED_S + 0.1
        two.link(one).note("news", b"stale")
        await until(lambda: one.links.peers() == [])
        assert heard == []
        one.links._pulse.beat_s = time.monotonic()
        await linked([one, two])
        two.link(one).note("news", b"fresh")
        await until(lambda: heard == [b"fresh"])


async def test_a_stop_is_noticed_also_where_nothing_comes() -> None:
    async with open_links() as (one, two):
        link = one.link(two)
        one.links._pulse.beat_s -= network.PAUSED_S + 0.1
        await until(lambda: not link.connection.open)
        await linked([one, two])


async def test_a_note_that_cannot_be_taken_in_ends_the_link() -> None:
    def hear(who: bytes, body: bytes) -> None:
        raise KeyError(body)

    async with open_links() as (one, two):
        one.links.hears("news", hear)
        link = two.link(one)
        link.note("news", b"x")
        await until(lambda: not link.connection.open)
        await linked([one, two])


async def test_notes_beyond_the_bound_are_dropped_or_end_the_link(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def make() -> LinkNetwork:
        return LinkNetwork(SECRET, lossy=["backlog"])

    monkeypatch.setattr(link_module, "MAX_QUEUED_NOTES_BYTES", 100)
    async with open_links(2, make) as (one, two):
        link = one.link(two)
        assert link.note("backlog", bytes(60))
        assert not link.note("backlog", bytes(60))
        assert link.connection.open
        assert not link.note("owned", bytes(60))
        assert not link.connection.open


async def test_a_peer_that_reads_nothing_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network.PROTOCOL, "wire", replace(WIRE, max_queued_bytes=10_000))
    async with open_links() as (one, two):
        link = one.link(two)
        asking = [asyncio.create_task(link.ask("x", bytes(4000), 5.0)) for _ in range(4)]
        for ended in await asyncio.gather(*asking, return_exceptions=True):
            assert isinstance(ended, PeerGone)


async def test_closing_lets_what_runs_for_peers_end() -> None:
    released = asyncio.Event()

    async def answer(who: bytes, body: bytes) -> bytes:
        await released.wait()
        return b"done"

    async with open_links() as (one, two):
        two.links.answers("slow", answer)
        asking = asyncio.create_task(one.link(two).ask("slow", b"", 5.0))
        await asyncio.sleep(0.05)
        closing = asyncio.create_task(two.links.close(5.0))
        await asyncio.sleep(0.05)
        assert not closing.done()
        released.set()
        assert await asking == b"done"
        await closing
        await until(lambda: one.links.peers() == [])


async def test_links_over_tls_with_certificates_of_both_sides(tmp_path: Path) -> None:
    ours, strange = (Certificates(tmp_path / name).tls() for name in ("ours", "strange"))

    def make(tls: PeerTls | None = ours) -> LinkNetwork:
        return LinkNetwork(SECRET, tls=tls)

    async def echo(who: bytes, body: bytes) -> bytes:
        return body

    large = bytes(1_000_000)
    async with open_links(2, make) as ends:
        for asker, other in (ends, ends[::-1]):
            other.links.answers("echo", echo)
            assert await asker.link(other).ask("echo", large, 5.0) == large
        for stranger_tls in (strange, None):
            stranger = await open_end(9, make(stranger_tls))
            stranger.links.follow(live(*ends))
            await asyncio.sleep(0.3)
            assert stranger.links.peers() == []
            await stranger.links.close(0.1)
        await linked(ends)


def test_waits_between_tries_grow_to_a_bound() -> None:
    backoff = Backoff(FIRST_RETRY_S, MOST_RETRY_S)
    waits = [backoff.next_s() for _ in range(10)]
    for wait, most in zip(waits, (0.05, 0.1, 0.2, 0.4, 0.8, 1, 1, 1, 1, 1), strict=True):
        assert most / 2 <= wait <= most
    backoff.reset()
    assert backoff.next_s() <= 0.05
