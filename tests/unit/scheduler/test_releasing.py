"""The number of requests for messages that the log does not consider due, with a clock of the
test.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from metadata.delivery.due import Progress, QueueKey
from scheduler import releasing
from scheduler.pending import StagedQueue
from scheduler.releasing import NOT_DUE, Releasing
from scheduler.term import Term
from scheduler.window import Window
from store_nodes.client import StagedInfo, StagedPage
from tests.unit.scheduler.scheduler_support import SECOND, FakeIndex

KEY = QueueKey(bytes(16), bytes(16), 0, 0, 0)


class StandingLog:
    """A log whose time stands before message 0 is due, while our clock goes on."""

    def __init__(self) -> None:
        self.now = 0

    def now_us(self) -> int:
        return self.now

    def clock(self, group: int) -> StandingLog:
        return self

    async def release(self, group: int, queue: object, numbers: Sequence[int], **_: Any) -> Any:
        return [NOT_DUE for _ in numbers]

    async def staged(self, *_: object, **__: object) -> StagedPage:
        return StagedPage((StagedInfo(0, SECOND, 0),), 0, False)


async def test_a_log_whose_time_stands_is_asked_ever_less_often() -> None:
    """The log was once asked every 5 ms for as long as its time stood."""
    log: Any = StandingLog()
    queue = StagedQueue(KEY, 0, Progress())
    window = Window(
        FakeIndex(),  # type: ignore[arg-type]
        length_s=3600,
        max_pending=10,
        find=lambda key: queue,
        wake=lambda group: None,
        clock=lambda group: log,
    )
    window.until_us = 3600 * SECOND
    one = Releasing(log, window, None, Term(), timeout_s=1)  # type: ignore[arg-type]
    window.learned(queue, 0, SECOND, fresh=True)
    asked_us: list[int] = []
    while len(asked_us) < 20:
        next_us = window.heap(0).next_us()
        assert next_us is not None
        log.now = next_us
        asked_us.append(next_us)
        window.heap(0).pop_due(next_us)
        assert list(queue.ready) == [0]
        queue.ready.clear()
        assert await one._release_some(queue, [0]) == []
    waits_us = [later - earlier for earlier, later in pairwise(asked_us)]
    assert waits_us[0] == releasing.NOT_YET_US, "a clock that is a little ahead costs little"
    assert all(later <= 2 * earlier for earlier, later in pairwise(waits_us))
    assert waits_us[-10:] == [releasing.NOT_YET_MAX_US] * 10
