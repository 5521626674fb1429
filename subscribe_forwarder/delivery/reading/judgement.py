"""Selects the messages of a batch that a subscription is given, a few messages at a time.

The owner of an expression decides its cost. So a turn of the loop judges for `BUDGET_S`, and a
reader that needs more continues in a later turn. The batch keeps its judgements.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, NamedTuple

from subscribe_forwarder.delivery.state.cursor import Settled

if TYPE_CHECKING:
    from subscribe_forwarder.delivery.reading.batch import Batch
    from subscribe_forwarder.delivery.selection.selection import Selection

BUDGET_S = 0.005
ORIGIN_ONLY = "only"
"""The member of `origin` with the uid, in hex, of the only subscription that a message is for."""


class Pending(Exception):
    """A message is being judged in another process."""


class Turn:
    """The time that is left of a turn for judging; one per subscription, renewed every turn."""

    __slots__ = ("_clock", "left_s", "waits")

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self.left_s = BUDGET_S
        self.waits = False
        """Whether the turn ended because the next message is Pending."""

    @property
    def over(self) -> bool:
        return self.left_s <= 0

    @property
    def begun(self) -> bool:
        """Whether some of the turn's time was used."""
        return self.left_s < BUDGET_S

    def renew(self) -> None:
        self.left_s = BUDGET_S
        self.waits = False

    def wait(self) -> None:
        """End the time of this turn: nothing more can be judged in it."""
        self.left_s, self.waits = 0.0, True

    def now_s(self) -> float:
        return self._clock()


class Run(NamedTuple):
    """The messages of a batch from index `low` to `high` are all settled so, or all delivered."""

    low: int
    high: int
    how: Settled | None


class Judgement:
    """The judgement of one batch for one selection, of the indices `first` … `upto` − 1 so far."""

    __slots__ = ("_batch", "_count", "_only", "_selection", "first", "runs", "upto")

    def __init__(
        self, batch: Batch, selection: Selection | None, only: str | None, first: int = 0
    ) -> None:
        """Judge a batch; `only` is the reader, in a batch with messages for one
        subscription only.
        """
        self._batch = batch
        self._selection = selection
        self._only = only
        self._count = len(batch.messages())
        self.runs: list[Run] = []
        """Adjacent ones differ."""
        self.first = self.upto = first

    @property
    def plain(self) -> bool:
        """Known to be: all from `first` on is delivered."""
        return self.upto >= self._count and all(run.how is None for run in self.runs)

    def go_on(self, turn: Turn, upto: int | None = None) -> None:
        """Judge on, as far as the turn goes, or to `upto`."""
        wanted = self._count if upto is None else upto
        while self.upto < wanted and not turn.over:
            began_s = turn.now_s()
            low, selection = self.upto, self._selection
            high = self._count if selection is None else selection.slice_end(self._batch, low)
            try:
                verdicts = None if selection is None else selection.verdicts(self._batch, low, high)
            except Pending:
                turn.wait()
                return
            self._add(low, high, self._targeted(verdicts, low, high))
            elapsed_s = turn.now_s() - began_s
            turn.left_s -= elapsed_s
            if selection is not None:
                selection.took(high - low, elapsed_s)

    def how(self, index: int) -> Settled | None:
        """Return how a judged message is settled instead of delivered."""
        runs = self.runs
        low, high = 0, len(runs)
        while low < high:
            middle = (low + high) // 2
            if runs[middle].high <= index:
                low = middle + 1
            else:
                high = middle
        return runs[low].how

    def _targeted(
        self, verdicts: Sequence[Settled | None] | None, low: int, high: int
    ) -> Sequence[Settled | None] | None:
        mine = self._only
        if mine is None:
            return verdicts
        messages = self._batch.messages()[low:high]
        given = verdicts or [None] * len(messages)
        return [
            verdict
            if message.origin is None or message.origin.get(ORIGIN_ONLY, mine) == mine
            else Settled.FILTERED
            for message, verdict in zip(messages, given, strict=True)
        ]

    def _add(self, low: int, high: int, verdicts: Sequence[Settled | None] | None) -> None:
        self.upto = high
        if verdicts is None:
            self._append(low, high, None)
            return
        for how, same in groupby(verdicts):
            end = low + sum(1 for _ in same)
            self._append(low, end, how)
            low = end

    def _append(self, low: int, high: int, how: Settled | None) -> None:
        if self.runs and self.runs[-1].how is how:
            low = self.runs.pop().low
        self.runs.append(Run(low, high, how))
