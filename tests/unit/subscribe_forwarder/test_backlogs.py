"""Backlogs told over links: to those who want to hear of them, and as long as they do."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from metadata.types import Unit
from subscribe_forwarder.delivery.listeners import Listeners
from subscribe_forwarder.fleet.backlogs import backlogs as service
from subscribe_forwarder.fleet.backlogs import exchange, interest, tracker
from subscribe_forwarder.fleet.backlogs.backlogs import Backlogs
from subscribe_forwarder.fleet.backlogs.local import Seen
from subscribe_forwarder.fleet.backlogs.part import Share, Wanted
from subscribe_forwarder.fleet.backlogs.watch import Watch
from tests.unit.subscribe_forwarder.link_pair import End, follow_each_other, open_links, until

TENANT, TOPIC, UID = b"t" * 16, b"p" * 16, b"s" * 16
WANTED = Wanted(TENANT, TOPIC, UID, 3)


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds pass quickly."""
    monkeypatch.setattr(tracker, "INTERVAL_S", 0.05)
    monkeypatch.setattr(exchange, "RETRY_S", 0.02)
    monkeypatch.setattr(interest, "LINGER_S", 0.05)
    monkeypatch.setattr(service, "HOUSEKEEPING_S", 0.05)
    monkeypatch.setattr(service, "GAP_S", 0.001)


class Forwarder:
    """A forwarder with its own backlogs, and its knowledge of those of others."""

    def __init__(self, end: End) -> None:
        self.end = end
        self.listeners = Listeners()
        self.counts: dict[bytes, dict[int, int]] = {}
        self.loaded: list[bytes] = []
        self.backlogs = Backlogs(self, self.listeners, end.links)
        self.backlogs.start()

    def own(self, partition: int, messages: int, uid: bytes = UID) -> None:
        self.counts.setdefault(uid, {})[partition] = messages
        self.listeners.grew(Unit(TENANT, TOPIC, partition))

    def give_up(self, partition: int) -> None:
        del self.counts[UID][partition]
        self.listeners.moved(Unit(TENANT, TOPIC, partition))

    def see(self, wanted: Wanted) -> Seen:
        counts = self.counts.get(wanted.subscription_uid, {})
        return Seen(tuple(Share(partition, count, 0) for partition, count in counts.items()))

    async def load(self, wanted: Sequence[Wanted]) -> set[bytes]:
        self.loaded += [one.subscription_uid for one in wanted]
        return set()

    def watching(self) -> Watch:
        watch = self.backlogs.watch()
        watch.follow({UID: WANTED})
        return watch


@asynccontextmanager
async def forwarders(count: int) -> AsyncIterator[list[Forwarder]]:
    async with open_links(count) as ends:
        made = [Forwarder(end) for end in ends]
        try:
            yield made
        finally:
            await asyncio.gather(*(one.backlogs.close() for one in made))


async def becomes(watch: Watch, messages: int, *, complete: bool = True) -> None:
    def is_so() -> bool:
        view = watch.view(UID)
        return (view.messages, view.complete) == (messages, complete)

    await until(is_so)


async def test_one_that_owns_nothing_knows_the_whole() -> None:
    async with forwarders(3) as (front, one, two):
        one.own(0, 5)
        two.own(1, 6)
        two.own(2, 7)
        watch = front.watching()
        await becomes(watch, 18)


async def test_what_changes_is_told() -> None:
    async with forwarders(3) as (front, one, two):
        one.own(0, 5)
        two.own(1, 6)
        front.own(2, 1)
        watch = front.watching()
        await becomes(watch, 12)
        watch.take()
        two.own(1, 60)
        await asyncio.wait_for(watch.woken.wait(), 5)
        assert watch.take() == {UID}
        await becomes(watch, 66)
        front.own(2, 0)
        await becomes(watch, 65)


async def test_what_is_not_wanted_is_not_told() -> None:
    async with forwarders(2) as (front, one):
        front.watching()
        one.own(0, 5, b"x" * 16)
        one.own(0, 5)
        await until(lambda: front.backlogs.view(WANTED).messages)
        other = Wanted(TENANT, TOPIC, b"x" * 16, 1)
        assert front.backlogs.view(other).shares == ()


async def test_what_nobody_wants_any_more_is_forgotten_everywhere() -> None:
    async with forwarders(2) as (front, one):
        one.own(0, 5)
        watch = front.watching()
        await until(lambda: watch.view(UID).messages == 5)
        watch.close()
        await until(lambda: not front.backlogs.wanted and not len(one.backlogs._tracker))
        assert front.backlogs.view(WANTED).shares == ()


async def test_two_watches_and_one_that_ends() -> None:
    async with forwarders(2) as (front, one):
        first, second = front.watching(), front.watching()
        one.own(0, 5)
        await until(lambda: second.view(UID).messages == 5)
        first.close()
        await asyncio.sleep(0.2)
        one.own(0, 6)
        await until(lambda: second.view(UID).messages == 6)


async def test_a_link_that_opens_later_is_asked_too() -> None:
    async with forwarders(2) as (front, one):
        one.own(0, 5)
        front.end.links.follow({})
        one.end.links.follow({})
        await until(lambda: not front.end.links.peers() and not one.end.links.peers())
        watch = front.watching()
        await asyncio.sleep(0.05)
        assert watch.view(UID).messages == 0
        follow_each_other([front.end, one.end])
        await until(lambda: watch.view(UID).messages == 5)


async def test_what_a_lost_peer_told_is_stale_until_it_is_back() -> None:
    async with forwarders(2) as (front, one):
        for partition in range(3):
            one.own(partition, 5)
        watch = front.watching()
        await becomes(watch, 15)
        front.end.links.follow({})
        one.end.links.follow({})
        await becomes(watch, 15, complete=False)
        assert len(one.backlogs._tracker) == 0  # nobody wants anything any more
        one.own(0, 6)
        follow_each_other([front.end, one.end])
        await becomes(watch, 16)


async def test_a_partition_that_moves_is_counted_once() -> None:
    async with forwarders(3) as (front, one, two):
        for partition in range(3):
            one.own(partition, 5)
        watch = front.watching()
        await becomes(watch, 15)
        one.give_up(1)
        two.own(1, 4)
        await becomes(watch, 14)


async def test_most_backlog_first_learns_by_being_asked() -> None:
    async with forwarders(3) as (front, one, two):
        one.own(0, 1)
        two.own(1, 9)
        peers = [one.end.incarnation, two.end.incarnation]
        assert front.backlogs.most_backlog_first(WANTED, peers) == peers
        await until(lambda: front.backlogs.most_backlog_first(WANTED, peers) == peers[::-1])


async def test_cursors_made_since_the_claim_are_loaded_for_who_asks() -> None:
    async with forwarders(2) as (front, one):
        front.watching()
        await until(lambda: one.loaded == [UID])


async def test_a_note_that_was_lost_is_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "REFRESH_S", 0.2)
    async with forwarders(2) as (front, one):
        one.own(0, 5)
        watch = front.watching()
        await until(lambda: watch.view(UID).messages == 5)
        one.counts[UID][0] = 8  # and nothing is told of it
        await until(lambda: watch.view(UID).messages == 8)


async def test_a_note_that_could_not_be_sent_is_sent_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with forwarders(2) as (front, one):
        one.own(0, 5)
        watch = front.watching()
        await until(lambda: watch.view(UID).messages == 5)
        await asyncio.sleep(0.2)
        link = one.end.link(front.end)
        refused = []

        def refuse(subject: str, body: bytes) -> bool:
            refused.append(subject)
            return False

        with monkeypatch.context() as patched:
            patched.setattr(type(link), "note", lambda _, subject, body: refuse(subject, body))
            one.own(0, 6)
            await until(lambda: refused)
        await until(lambda: watch.view(UID).messages == 6)


async def test_nonsense_from_a_peer_is_refused() -> None:
    async with forwarders(2) as (front, one):
        one.own(0, 5)
        watch = front.watching()
        await until(lambda: watch.view(UID).messages == 5)
        link = one.end.link(front.end)
        link.note("backlog", b"nonsense")
        with pytest.raises(Exception, match="malformed-body"):
            await link.ask("backlog.filter", b"nonsense", 1.0)
        one.own(0, 6)
        await until(lambda: watch.view(UID).messages == 6)
