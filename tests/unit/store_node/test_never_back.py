"""No group of a node ever goes back behind what it has applied, promised or voted for."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from store_nodes.checkpoint.files import DiskFiles
from store_nodes.checkpoint.store import CheckpointStore
from store_nodes.commands import CompareAndSet, encode, encode_value
from store_nodes.consensus import messages
from store_nodes.machine.machine import Machine
from store_nodes.main import EXIT_REFUSED, main
from store_nodes.wal.frame import FrameKind, Record
from store_nodes.wal.position import Position
from tests.unit.store_node.node_support import (
    Peers,
    RunningNode,
    last_checkpoint,
    running,
    settings_of,
    until_ended,
    with_peers,
)


def applied_after_restart(directory: Path, group: int = 0) -> int:
    """Return how much the machine has applied with which the next start begins."""
    held = {one.group: one for one in last_checkpoint(directory).groups}
    return Machine.restore(group, held[group].machine).applied


async def test_an_image_that_the_group_has_passed_is_not_installed(tmp_path: Path) -> None:
    """The install took so long that the group went on by itself."""
    async with running(tmp_path) as one:
        await one.advance(instances=5)
        late = one.image(ahead=3)
        await one.advance(instances=10)
        before = one.applied()
        await one.install({0: late})
    assert applied_after_restart(tmp_path) >= before


async def test_an_image_that_is_ahead_is_installed_and_the_promise_stays(tmp_path: Path) -> None:
    async with running(tmp_path) as one:
        await one.advance(instances=5)
        image = one.image(ahead=7)
        promised = one.node.groups[0].replica.state.acceptor.promised
        assert promised
        await one.install({0: image})
    (first, _) = last_checkpoint(tmp_path).groups
    assert applied_after_restart(tmp_path) == image.applied
    assert first.promised == promised
    assert first.chosen_upto == image.applied
    async with running(tmp_path) as one:
        assert one.applied() >= image.applied
        await one.advance(instances=1)


async def test_a_source_that_is_behind_is_passed_over(tmp_path: Path) -> None:
    """The first one asked has less than this node, the second has less than it needs."""
    async with running(tmp_path) as one:
        behind = one.image(ahead=1)
        await one.advance(instances=10)
        before = one.applied()
        peers = Peers({2: behind, 3: one.image(ahead=2), 4: one.image(ahead=20)})
        with with_peers(one, peers):
            one.node.install_needed(one.node.groups[0], 2, before + 10)
            await until_ended(one)
    assert applied_after_restart(tmp_path) == before + 20
    assert peers.asked[:3] == [2, 3, 4]


async def test_with_no_source_that_has_enough_nothing_is_installed(tmp_path: Path) -> None:
    async with running(tmp_path) as one:
        behind = one.image(ahead=1)
        await one.advance(instances=10)
        peers = Peers({2: behind})
        group = one.node.groups[0]
        with with_peers(one, peers):
            one.node.install_needed(group, 2, one.applied() + 10)
            await until_ended(one)
        assert not one.node.restarting, "it starts again, from less than it has"
        assert peers.asked == [2]
        assert not group.replica.state.installing
        installer = one.node._recovering.installer
        assert installer.status()[0].startswith("failed")
        await one.advance(instances=10)
        assert installer.status() == {}, "it went on without"


@pytest.mark.parametrize("before", [1, 2])
async def test_an_install_ends_when_the_group_went_on_without_it(
    tmp_path: Path, before: int
) -> None:
    """The group was taught by another peer from its log while the install copied, or at its end."""
    async with running(tmp_path) as one:
        await one.advance(instances=5)
        group, oldest = one.node.groups[0], one.applied() + 2
        peers = Peers({2: one.image(ahead=3)}, meanwhile=one.advance, before=before)
        with with_peers(one, peers):
            one.node.install_needed(group, 2, oldest)
            await until_ended(one)
        assert not one.node.restarting, "it starts again, from an image that it has passed"
        assert not group.replica.state.installing
        assert one.node._recovering.status()["installing"] == {}


async def test_a_start_refuses_a_checkpoint_that_is_behind_its_mark(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with running(tmp_path) as one:
        await one.advance(instances=5)
        early = one.image()
        await one.advance(instances=5)
        before = one.applied()
        await one.node._housekeeping.checkpoint()
    checkpoints = CheckpointStore(DiskFiles(tmp_path / "checkpoints"))
    loaded = checkpoints.load()
    assert loaded is not None
    first, *others = loaded.checkpoint.groups
    assert first.reached == before
    back = msgspec.structs.replace(first, machine=early.raw, chosen_upto=early.applied)
    checkpoints.write(msgspec.structs.replace(loaded.checkpoint, groups=(back, *others)))
    assert await asyncio.to_thread(main, settings_of(tmp_path)) == EXIT_REFUSED
    said = "".join(capsys.readouterr())
    assert f"at instance {early.applied}, and this node was at {before}" in said
    assert "replace-node" in said


async def test_a_value_below_an_installed_machine_is_told_to_no_peer_as_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This node had accepted a value, and the others chose another one while it was away. After its
    install it told peers that its own had been chosen.
    """

    async def told(one: RunningNode, instance: int) -> list[messages.Message]:
        sent: list[bytes] = []
        with monkeypatch.context() as patch:
            patch.setattr(one.node, "send", lambda node, group, payload: sent.append(payload))
            one.node.groups[0]._send_from_disk(2, instance, instance + 1)
            await asyncio.sleep(0.1)
        return [messages.decode(payload) for payload in sent]

    async with running(tmp_path) as one:
        await one.advance(instances=3)
        image, instance = one.image(ahead=5), one.applied() + 1
        value = encode_value([encode(CompareAndSet("mine", 0, 1))], 7)
        ballot = one.node.groups[0].replica.state.acceptor.promised
        written: asyncio.Future[list[Position]] = asyncio.get_running_loop().create_future()
        accept = Record(FrameKind.ACCEPT, 0, instance, ballot, value)
        one.node.submit([accept], True, written.set_result)
        await written
        assert [type(each) for each in await told(one, 1)] == [messages.Learned]
        await one.install({0: image})
    async with running(tmp_path) as one:
        assert one.applied() > instance
        assert await told(one, instance) == [messages.TooOld(instance + 1)]
        await one.advance(instances=3)
        own = one.applied() - 1
        assert [type(each) for each in await told(one, own)] == [messages.Learned]
        assert await one.node._housekeeping.checkpoint()
    async with running(tmp_path) as one:
        assert await told(one, instance) == [messages.TooOld(instance + 1)], "it forgot the install"
        assert [type(each) for each in await told(one, own)] == [messages.Learned]
