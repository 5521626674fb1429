"""A poll asks only where there can be something."""

from __future__ import annotations

import pytest

from metadata.errors import MetadataUnavailable
from metadata.idle_poll import ANYWAY_EVERY_S, IdlePoll


class Rows:
    """The rows for which a poller looks, and the version that the feed knows."""

    def __init__(self) -> None:
        self.version: int | None = 7
        self.now_s = 100.0
        self.there = False
        self.asked = 0
        self.down = False
        self.poll = IdlePoll(lambda: self.version, clock=lambda: self.now_s)

    async def look(self) -> bool:
        self.asked += 1
        if self.down:
            raise MetadataUnavailable("down")
        return self.there

    async def looks(self, times: int = 3) -> int:
        """Look `times` times; return how many of the looks asked."""
        before = self.asked
        for _ in range(times):
            await self.poll.look(self.look)
        return self.asked - before


async def test_nothing_is_asked_again_before_something_changed() -> None:
    rows = Rows()
    assert await rows.looks() == 1
    rows.version = 8
    assert await rows.looks() == 1
    rows.version = 3  # a Postgres that went back
    assert await rows.looks() == 1


async def test_while_there_is_something_every_look_asks() -> None:
    rows = Rows()
    rows.there = True
    assert await rows.looks() == 3
    rows.there = False
    assert await rows.looks() == 1


async def test_a_look_that_failed_is_repeated() -> None:
    rows = Rows()
    rows.down = True
    for _ in range(2):
        with pytest.raises(MetadataUnavailable):
            await rows.poll.look(rows.look)
    rows.down = False
    assert await rows.looks() == 1


async def test_a_change_during_the_look_is_not_missed() -> None:
    rows = Rows()

    async def look() -> bool:
        rows.version = 8
        return False

    await rows.poll.look(look)
    assert await rows.looks() == 1


async def test_without_a_version_every_look_asks() -> None:
    rows = Rows()
    rows.version = None
    assert await rows.looks() == 3


async def test_now_and_then_it_asks_anyway() -> None:
    rows = Rows()
    assert await rows.looks() == 1
    rows.now_s += ANYWAY_EVERY_S
    assert await rows.looks() == 1
