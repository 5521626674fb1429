"""Tenants take turns at a group that takes less than they send."""

from __future__ import annotations

import asyncio
from collections import Counter, deque

import pytest

from appending.group_window import GroupWindow

NOISY, QUIET = b"n" * 16, b"q" * 16


class Lane:
    def __init__(self, group: Group, tenant_id: bytes, appends: int, size_bytes: int = 100) -> None:
        self._group = group
        self.tenant_id = tenant_id
        self.left = appends
        self.size_bytes = size_bytes

    def send(self) -> None:
        if self.left and self._group.window.admits(self.tenant_id, self.take_turn):
            self.take_turn()

    def take_turn(self) -> None:
        if self.left:
            self.left -= 1
            self._group.window.begin(self.tenant_id, self.size_bytes)
            self._group.sent.append(self)


class Group:
    """Answers one append at a time, in order."""

    def __init__(self, max_bytes: int, **weights: float) -> None:
        by_tenant = {name[0].encode() * 16: weight for name, weight in weights.items()}
        self.window = GroupWindow(max_bytes, lambda tenant_id: by_tenant.get(tenant_id, 1.0))
        self.sent: deque[Lane] = deque()
        self.answered: Counter[bytes] = Counter()

    async def answer(self, count: int) -> None:
        for _ in range(count):
            if not self.sent:
                return
            lane = self.sent.popleft()
            self.answered[lane.tenant_id] += 1
            self.window.ended(lane.size_bytes)
            lane.send()
            await asyncio.sleep(0)


def lanes(group: Group, tenant_id: bytes, count: int, appends: int = 1000) -> list[Lane]:
    made = [Lane(group, tenant_id, appends) for _ in range(count)]
    for lane in made:
        lane.send()
    return made


async def test_below_the_bound_everybody_sends_at_once() -> None:
    group = Group(1000)
    lanes(group, NOISY, 5)
    lanes(group, QUIET, 5)
    assert len(group.sent) == 10


async def test_many_lanes_of_one_tenant_do_not_hold_up_another() -> None:
    group = Group(1000)
    lanes(group, NOISY, 200)
    assert len(group.sent) == 10
    (quiet,) = lanes(group, QUIET, 1, appends=20)
    await group.answer(11)
    assert quiet.left == 19, "it waits for what was sent before it, and for no more"
    await group.answer(11 * 19)
    assert quiet.left == 0


async def test_turns_are_by_weight() -> None:
    group = Group(1000, noisy=1.0, quiet=3.0)
    lanes(group, NOISY, 50)
    lanes(group, QUIET, 50)
    await group.answer(20)
    group.answered.clear()
    await group.answer(400)
    assert group.answered[QUIET] == pytest.approx(300, abs=10)


async def test_who_comes_back_has_nothing_saved_up() -> None:
    group = Group(1000)
    lanes(group, NOISY, 50)
    await group.answer(500)
    lanes(group, QUIET, 50)
    await group.answer(20)
    group.answered.clear()
    await group.answer(100)
    assert group.answered[QUIET] == pytest.approx(50, abs=5)


async def test_lanes_with_nothing_left_are_passed_over_and_the_line_ends() -> None:
    group = Group(1000)
    noisy = lanes(group, NOISY, 50)
    for lane in noisy:
        lane.left = 0
    (quiet,) = lanes(group, QUIET, 1, appends=3)
    await group.answer(1)
    assert quiet.left == 2
    await group.answer(100)
    assert quiet.left == 0
    assert not group.window._queue
    assert not group.window._queue._had
    assert group.window._held_bytes == 0
