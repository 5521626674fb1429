"""Installs and repairs ask peers in turn, and name messages that no peer has."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn, cast

import pytest
from crc32c import crc32c

from store_nodes.client import Entry, SnapshotImage, StoreClient
from store_nodes.client.reads import FetchedEntries
from store_nodes.commands import (
    Append,
    Create,
    Delete,
    Truncate,
    decode_value,
    encode,
    encode_append,
    encode_value,
)
from store_nodes.errors import QueueTruncated, Unavailable
from store_nodes.machine.machine import Machine
from store_nodes.node.copying import Copier, Sources
from store_nodes.node.recovering import Recovering
from store_nodes.node.start import load
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import Message
from store_nodes.record_batch import encode as encode_batch
from store_nodes.storage.traces import Trace, told
from store_nodes.wal.footer import BatchEntry
from store_nodes.wal.frame import FrameKind
from store_nodes.wal.position import Position
from tests.unit.store_node.node_support import (
    Peers,
    RunningNode,
    running,
    settings_of,
    until_ended,
    with_peers,
)

QUEUE = QueueId(bytes(range(16)), 1)
BATCH = encode_batch([Message(b"hello")], 1)


class Holders(Peers):
    """Peers that give a machine with one message; `holders` have the message."""

    def __init__(self, image: SnapshotImage, holders: set[int]) -> None:
        super().__init__({2: image, 3: image})
        self.holders = holders
        self.fetched_from: list[int] = []

    async def fetch(
        self,
        group: int,
        queue: QueueId,
        offset: int,
        max_bytes: int,
        *,
        node: int,
        timeout_s: float,
    ) -> FetchedEntries:
        self.fetched_from.append(node)
        if node not in self.holders:
            raise Unavailable("these messages are lost here")
        return FetchedEntries([Entry(0, 1, None, None, memoryview(BATCH))], 0, 1)

    async def node_status(self, node: int, *, timeout_s: float) -> dict[str, object]:
        return {}


def image_with_a_message(one: RunningNode) -> SnapshotImage:
    """Return group 0 as a peer has it that stored a message unknown to this node."""
    machine = Machine.restore(0, one.image(ahead=5).raw)
    for raw in (
        encode(Create(QUEUE.pack(), 0, b"")),
        encode_append(QUEUE.pack(), bytes(16), 1, machine.log_time_us + 1000, 1, BATCH),
    ):
        machine.apply(machine.applied, encode_value([raw], machine.log_time_us + 1))
    return SnapshotImage(machine.state_snapshot(), machine.applied, 0)


def has_the_message(one: RunningNode) -> bool:
    return one.node._recovering.batches.missing(QUEUE.pack(), 0, 1) == []


async def install(one: RunningNode, peers: Peers) -> None:
    with with_peers(one, peers):
        one.node.install_needed(one.node.groups[0], 2, one.applied() + 1)
        await until_ended(one)


def test_a_source_that_is_down_is_asked_last_and_waited_for_once() -> None:
    """A dead node's call takes its whole time-out: asked for each batch, a node that took its place
    never caught up."""
    peers = Peers({})
    sources = Sources(cast(StoreClient, peers), [1, 2, 3])
    assert list(sources.in_turn()) == [1, 2, 3]
    peers.down.add(1)
    assert list(sources.in_turn()) == [2, 3, 1]
    assert list(sources.in_turn()) == [2, 3]
    peers.down.clear()
    assert list(sources.in_turn()) == [1, 2, 3]
    peers.down.add(1)
    assert list(sources.in_turn()) == [2, 3, 1], "it was up since"


async def test_an_install_asks_the_sources_that_are_up(tmp_path: Path) -> None:
    async with running(tmp_path) as one:
        peers = Holders(image_with_a_message(one), {2, 3})
        peers.down.add(2)
        await install(one, peers)
        assert set(peers.asked) == {3}
        assert peers.fetched_from == [3]
        assert has_the_message(one)


async def test_what_no_peer_gave_an_install_is_asked_for_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The peer that had it was away for a moment: nobody asked ever again."""
    async with running(tmp_path) as one:
        peers = Holders(image_with_a_message(one), set())
        await install(one, peers)
        assert one.node.restarting
    monkeypatch.setattr("store_nodes.node.copying.LINK_TRIES", 0)
    monkeypatch.setattr(Recovering, "store_client", lambda self: peers)
    monkeypatch.setattr(Recovering, "sources", lambda self, best=None: [2, 3])
    async with running(tmp_path) as one:
        report = one.node._recovering.repair.report
        assert report is not None, "nobody asks for it"
        assert not report.votes, "only messages are missing"
        assert not has_the_message(one)
        peers.holders.add(3)
        async with asyncio.timeout(10):
            while one.node._recovering.repair.report is not None:
                await asyncio.sleep(0.02)
        assert has_the_message(one)
    async with running(tmp_path) as one:
        assert one.node._recovering.repair.report is None


async def test_what_a_newer_machine_does_not_name_is_not_missing(tmp_path: Path) -> None:
    """Nobody gave it because it was deleted while the install copied."""

    class Deleting(Holders):
        async def fetch(self, *of: Any, **how: Any) -> FetchedEntries:
            later = Machine.restore(0, self.images[2].raw)
            delete = encode(Delete(QUEUE.pack()))
            later.apply(later.applied, encode_value([delete], later.log_time_us + 1))
            image = SnapshotImage(later.state_snapshot(), later.applied, 0)
            self.images = {2: image, 3: image}
            return await super().fetch(*of, **how)

    async with running(tmp_path) as one:
        await install(one, Deleting(image_with_a_message(one), set()))
        assert one.node.restarting
    async with running(tmp_path) as one:
        assert one.node._recovering.repair.report is None


KEPT = 2


class Truncating(Holders):
    """Peers that truncated three messages and keep the last. Their machine says so once it is
    `later`."""

    async def fetch(
        self,
        group: int,
        queue: QueueId,
        offset: int,
        max_bytes: int,
        *,
        node: int,
        timeout_s: float,
    ) -> FetchedEntries:
        self.fetched_from.append(node)
        if offset != KEPT:
            raise QueueTruncated(KEPT + 1)
        return FetchedEntries([Entry(KEPT, 1, None, None, memoryview(BATCH))], KEPT + 1, KEPT + 1)


TRUNCATE = encode(Truncate(QUEUE.pack(), KEPT + 1, (KEPT,)))


def image_with_three_messages(one: RunningNode) -> Machine:
    machine = Machine.restore(0, image_with_a_message(one).raw)
    for seq in (2, 3):
        raw = encode_append(QUEUE.pack(), bytes(16), seq, machine.log_time_us + 1000, 1, BATCH)
        machine.apply(machine.applied, encode_value([raw], machine.log_time_us + 1))
    return machine


def lacks_the_kept(one: RunningNode) -> bool:
    return one.node._recovering.batches.missing(QUEUE.pack(), KEPT, KEPT + 1) != []


async def test_what_a_truncation_keeps_while_an_install_copies_is_copied_too(
    tmp_path: Path,
) -> None:
    """The copier went on above the truncation: this node never had the kept message."""
    async with running(tmp_path) as one:
        machine = image_with_three_messages(one)
        before = SnapshotImage(machine.state_snapshot(), machine.applied, 0)
        machine.apply(machine.applied, encode_value([TRUNCATE], machine.log_time_us + 1))
        after = SnapshotImage(machine.state_snapshot(), machine.applied, 0)

        class Meanwhile(Truncating):
            async def fetch(self, *of: Any, **how: Any) -> FetchedEntries:
                self.images = {2: after, 3: after}
                return await super().fetch(*of, **how)

        await install(one, Meanwhile(before, set()))
        assert one.node.restarting
        assert not lacks_the_kept(one)
    async with running(tmp_path) as one:
        assert one.node._recovering.repair.report is None


async def test_what_a_truncation_keeps_is_asked_for_until_this_machine_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No peer that the install could ask for a machine had applied the truncation yet."""
    async with running(tmp_path) as one:
        machine = image_with_three_messages(one)
        before = SnapshotImage(machine.state_snapshot(), machine.applied, 0)
        peers = Truncating(before, set())
        await install(one, peers)
        assert one.node.restarting
        assert lacks_the_kept(one)
    monkeypatch.setattr("store_nodes.node.copying.LINK_TRIES", 0)
    monkeypatch.setattr(Recovering, "store_client", lambda self: peers)
    monkeypatch.setattr(Recovering, "sources", lambda self, best=None: [2, 3])
    peers.fetched_from.clear()
    async with running(tmp_path) as one:
        repair = one.node._recovering.repair
        async with asyncio.timeout(10):
            while len(peers.fetched_from) < 2 and repair.report is not None:
                await asyncio.sleep(0.02)
            assert repair.report is not None, "it ended after its first attempt"
            await one.command(TRUNCATE)
            while repair.report is not None:
                await asyncio.sleep(0.02)
        assert not lacks_the_kept(one)


async def test_an_install_that_has_all_leaves_nothing_to_repair(tmp_path: Path) -> None:
    async with running(tmp_path) as one:
        await install(one, Holders(image_with_a_message(one), {3}))
        assert one.node.restarting
    async with running(tmp_path) as one:
        assert has_the_message(one)
        assert one.node._recovering.repair.report is None


async def test_an_install_that_is_wanted_while_another_ends_is_carried_out(tmp_path: Path) -> None:
    """The installer kept it as wanted, so no later call began it either."""

    class Ending(Peers):
        closed = 0

        async def close(self) -> None:
            self.closed += 1
            if self.closed == 1:
                self.images = {2: one.image(ahead=20)}
                one.node.install_needed(group, 2, oldest)

    async with running(tmp_path) as one:
        behind = one.image()
        await one.advance(instances=5)
        group, oldest = one.node.groups[0], one.applied() + 10
        peers = Ending({2: behind})
        with with_peers(one, peers):
            one.node.install_needed(group, 2, oldest)
            await until_ended(one)
        assert peers.closed == 2
        assert one.node.restarting


def test_a_stop_while_a_copied_batch_is_written_is_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The copy was told of it after it had ended, which ended the node as a crash does."""

    async def go() -> None:
        synced: list[Callable[[list[Position]], None]] = []
        async with running(tmp_path) as one:
            position = Position(1, 0, len(BATCH))
            entry = BatchEntry(QUEUE.pack(), 0, 1, 1, position)
            monkeypatch.setattr(one.node, "submit", lambda _, __, done: synced.append(done))
            copying = asyncio.create_task(one.node._recovering.keep(0, [(entry, BATCH)]))
            await asyncio.sleep(0)
            copying.cancel()
            await asyncio.wait([copying])
            monkeypatch.undo()
            (tell,) = synced
            tell([position])

    asyncio.run(go())


class Damaged(Holders):
    """Peers that all lost the message; node 3 has its trace."""

    def __init__(self, image: SnapshotImage, trace: Trace) -> None:
        super().__init__(image, set())
        self.trace = trace

    async def node_status(self, node: int, *, timeout_s: float) -> dict[str, object]:
        return {"traces": [self.trace.row()]} if node == 3 else {"lost": None}


def trace_of(instance: int, value: bytes) -> Trace:
    [(_, append)] = decode_value(value)
    assert isinstance(append, Append)
    place = (len(BATCH), append.batch_at, FrameKind.ACCEPT, instance, 7)
    return Trace(0, QUEUE.pack(), False, 0, 1, 1, *place, len(value), crc32c(value))


@pytest.mark.parametrize("accepted", [True, False])
async def test_an_install_finds_what_every_peer_lost_among_the_values_accepted_here(
    tmp_path: Path, accepted: bool
) -> None:
    """This node had voted for the message, and lacked an instance before it. The install took it
    past both, so the damage of one disk lost a message that two had.
    """
    async with running(tmp_path) as one:
        image = image_with_a_message(one)
        instance = image.applied - 1
        append = encode_append(QUEUE.pack(), bytes(16), 1, 1 << 60, 1, BATCH)
        value = encode_value([append], 1)
        trace = trace_of(instance, value)
        if not accepted:
            value = encode_value([append], 2)
        one.node.groups[0].replica.state.acceptor.accepted[instance] = (7, value)
        await install(one, Damaged(image, trace))
        assert one.node.restarting
        assert has_the_message(one) == accepted
    damage = load(settings_of(tmp_path)).damage
    assert (damage is None) == accepted, "what was not found is asked for later"


class Tracing(Damaged):
    """Peers of which one is looking for the trace for a while."""

    statuses = 0

    async def node_status(self, node: int, *, timeout_s: float) -> dict[str, object]:
        self.statuses += node == 3
        if node == 3 and self.statuses <= 8:
            return {"tracing": True, "traces": []}
        return await super().node_status(node, timeout_s=timeout_s)


async def test_an_install_waits_for_the_traces_that_a_peer_is_looking_for(tmp_path: Path) -> None:
    """An install that did not wait lost a message that two disks had had."""
    async with running(tmp_path) as one:
        image = image_with_a_message(one)
        instance = image.applied - 1
        value = encode_value([encode_append(QUEUE.pack(), bytes(16), 1, 1 << 60, 1, BATCH)], 1)
        one.node.groups[0].replica.state.acceptor.accepted[instance] = (7, value)
        await install(one, Tracing(image, trace_of(instance, value)))
        assert has_the_message(one)


async def test_a_node_tells_its_traces_while_an_attempt_to_repair_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def copy_without_end(*_: object) -> NoReturn:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(Copier, "fill", copy_without_end)
    async with running(tmp_path) as one:
        group = one.node.groups[0]
        await one.command(encode(Create(QUEUE.pack(), 0, b"")))
        soon_us = time.time_ns() // 1000 + 60_000_000
        for seq in (1, 2):
            await one.command(encode_append(QUEUE.pack(), bytes(16), seq, soon_us, 1, BATCH))
        for offset in range(2):
            (held,) = group.batches.locate(QUEUE.pack(), offset, 0)
            one.node.bad_batch(held.position)
            async with asyncio.timeout(10):
                while offset not in {
                    trace.base for trace in told(await one.node.clients.status(groups=False))
                }:
                    await asyncio.sleep(0.02)
        status = await one.node.clients.status(groups=False)
        assert status["tracing"] is False


async def test_a_node_tells_how_the_messages_that_it_lost_were_written(tmp_path: Path) -> None:
    async with running(tmp_path) as one:
        group = one.node.groups[0]
        await one.command(encode(Create(QUEUE.pack(), 0, b"")))
        soon_us = time.time_ns() // 1000 + 60_000_000
        await one.command(encode_append(QUEUE.pack(), bytes(16), 1, soon_us, 1, BATCH))
        instance = one.applied() - 1
        (held,) = group.batches.locate(QUEUE.pack(), 0, 0)
        one.node.bad_batch(held.position)
        async with asyncio.timeout(10):
            while not (found := told(await one.node.clients.status(groups=False))):
                await asyncio.sleep(0.02)
        (trace,) = found
        assert (trace.group, trace.queue, trace.base) == (0, QUEUE.pack(), 0)
        assert trace.instance == instance
        entry, batch = trace.found(group.replica.state.acceptor.accepted) or (None, b"")
        assert entry is not None
        assert batch == BATCH
