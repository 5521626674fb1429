"""The moments of a node's ticks and of its other regular work."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from store_nodes.beats import BEAT_S, BEAT_US, EARLY_S, ROUND_US, next_multiple, until_next_s
from store_nodes.client.connections import IDLE_TICK_S
from store_nodes.client.link import PING_WITHIN_S
from store_nodes.consensus.state import Timing
from store_nodes.node.group import Group
from store_nodes.node.node import TICK_US, Node
from tests.unit.store_node.node_support import running

FAR_US = 60_000_000


class Ticking:
    """A running node whose groups are due when `due_us` says; they tell of ticks in `ticked`."""

    def __init__(self, node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
        self.node = node
        self.ticked: list[int] = []
        self.due_us = dict.fromkeys(node.groups, node.now_us() + FAR_US)
        due_us = property(lambda group: self.due_us[group.id])
        monkeypatch.setattr(Group, "due_us", due_us)
        monkeypatch.setattr(Group, "tick", lambda group, *times: self.ticked.append(group.id))
        for group in node.groups.values():
            group.next_tick_us = self.due_us[group.id]
        node._next_disk_check_us = node.now_us() + FAR_US

    def tick(self) -> None:
        assert self.node._timer is not None
        self.node._timer.cancel()
        self.node._tick()

    async def touch(self, group: int) -> None:
        self.node.touch(self.node.groups[group])
        await asyncio.sleep(0)
        assert not self.node._touched


@pytest.fixture
async def ticking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Ticking]:
    async with running(tmp_path) as one:
        with monkeypatch.context() as patch:
            yield Ticking(one.node, patch)


async def test_only_the_groups_that_are_due_are_ticked(ticking: Ticking) -> None:
    node = ticking.node
    node.groups[0].next_tick_us = node.now_us()
    ticking.tick()
    assert ticking.ticked == [0]


async def test_the_next_tick_comes_when_another_group_is_due(ticking: Ticking) -> None:
    node = ticking.node
    node.groups[0].next_tick_us = node.now_us()
    node.groups[1].next_tick_us = later_us = node.now_us() + 400_000
    ticking.tick()
    assert node._tick_us == later_us


async def test_a_group_that_is_due_sooner_than_before_is_ticked_then(ticking: Ticking) -> None:
    node = ticking.node
    ticking.tick()
    ticking.due_us[1] = sooner_us = node.now_us() + 300_000
    await ticking.touch(1)
    assert (node.groups[1].next_tick_us, node._tick_us) == (sooner_us, sooner_us)


async def test_the_soonest_tick_that_there_may_be_looks_at_every_group_with_news(
    ticking: Ticking,
) -> None:
    node = ticking.node
    ticking.tick()
    for group in (0, 1):
        ticking.due_us[group] = 0
        await ticking.touch(group)
    assert node._tick_us == node._ticked_us + TICK_US
    ticking.tick()
    assert ticking.ticked == [0, 1]


def test_regular_work_meets_at_the_heartbeats_of_idle_groups() -> None:
    assert Timing().idle_heartbeat_us == BEAT_US
    assert next_multiple(5 * ROUND_US, ROUND_US) % BEAT_US == 0
    assert Timing().look_us % BEAT_US == 0
    assert IDLE_TICK_S == BEAT_S <= PING_WITHIN_S


@pytest.mark.parametrize("now_s", [0.0, 0.1, 0.2999, 1000.05, 123456.789])
def test_a_pause_ends_right_after_a_beat(now_s: float) -> None:
    pause_s = until_next_s(now_s, BEAT_S)
    assert EARLY_S < pause_s <= BEAT_S + EARLY_S
    after_s = (now_s + pause_s) % BEAT_S
    assert after_s == pytest.approx(EARLY_S, abs=1e-6)
