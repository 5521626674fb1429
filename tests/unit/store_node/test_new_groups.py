"""Groups that are added while a checkpoint is written."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from store_nodes.checkpoint.store import CheckpointStore
from store_nodes.client import SnapshotImage
from store_nodes.commands import GROUPS_COUNTER, encode_noop
from store_nodes.machine.machine import Machine
from store_nodes.membership import Membership
from store_nodes.node.start import load
from tests.unit.store_node.node_support import GROUPS, running, settings_of
from tests.unit.store_node.test_never_back import Peers, with_peers


class SlowWrites:
    """The thread that writes checkpoints gets its turn when `go` is set, once for each."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.go = Event()
        write = CheckpointStore.write_groups

        def slow(store: CheckpointStore, *arguments: Any) -> int:
            assert self.go.wait(10)
            self.go.clear()
            return write(store, *arguments)

        monkeypatch.setattr(CheckpointStore, "write_groups", slow)


async def test_a_checkpoint_that_counts_a_group_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The checkpoint is begun before a group is added, and copied after that; then the
    power is cut.
    """
    writes = SlowWrites(monkeypatch)
    async with running(tmp_path / "node") as one:
        first = asyncio.create_task(one.node._housekeeping.checkpoint())
        await asyncio.sleep(0.05)
        await one.set_counter(0, GROUPS_COUNTER, 0, GROUPS + 1)
        writes.go.set()
        await first
        cut = tmp_path / "cut"
        await asyncio.to_thread(shutil.copytree, tmp_path / "node", cut)
        writes.go.set()  # The second checkpoint, which has the group, came too late.
    started = load(settings_of(cut))
    started.wal.close()
    members = {group: found.machine.membership.voters for group, found in started.found.items()}
    assert set(members.values()) == {(1,)}, "a group is counted, and has no members"
    monkeypatch.undo()
    async with running(cut) as one:
        async with asyncio.timeout(10):
            while GROUPS not in {
                group.id for group in one.node.groups.values() if group.replica.state.leading
            }:
                await asyncio.sleep(0.02)
        await one.advance(GROUPS, 1)


async def test_a_voter_that_was_away_when_a_group_was_added_gets_it_by_an_install(
    tmp_path: Path,
) -> None:
    """Group 0 comes as an image that counts the new group; then the new group does."""
    async with running(tmp_path) as one:
        await one.install({0: one.image(ahead=3, groups=GROUPS + 1)})
    async with running(tmp_path, until_led=range(GROUPS)) as one:
        membership = one.node.groups[0].machine.membership
        new = one.node.groups[GROUPS]
        assert not new.replica.state.membership.members
        machine = Machine(GROUPS, Membership(0, membership.members))
        machine.apply(0, encode_noop(1))
        await one.install({GROUPS: SnapshotImage(machine.state_snapshot(), 1, 0)})
    async with running(tmp_path) as one:
        await one.advance(GROUPS, 1)


async def test_voters_that_were_away_when_a_group_was_added_learn_its_members_from_a_peer(
    tmp_path: Path,
) -> None:
    """Nobody leads it while most of its voters do not know its members, so nobody tells them: it
    never got a leader where most nodes had group 0 by an install."""
    async with running(tmp_path) as one:
        await one.install({0: one.image(ahead=3, groups=GROUPS + 1)})
    async with running(tmp_path, until_led=range(GROUPS)) as one:
        members = one.node.groups[0].machine.membership.members
        stranger, first = Machine(GROUPS), Machine(GROUPS, Membership(0, members))
        images = [SnapshotImage(each.state_snapshot(), 0, 0) for each in (stranger, first)]
        with with_peers(one, Peers(dict(enumerate(images, 2)))):
            for _ in range(200):
                if one.node.groups[GROUPS].replica.state.leading:
                    break
                await asyncio.sleep(0.05)
            assert one.node.groups[GROUPS].replica.state.leading, "nobody told it the members"
        await one.advance(GROUPS, 1)
    async with running(tmp_path) as one:
        await one.advance(GROUPS, 1)
