"""Reports the outcomes of pushed messages to the ledgers, and commits them.

The invariant: `uncommitted` counts what an endpoint has taken until Postgres knows of it, so that
the engine can bound it: a process that dies repeats that and what was in flight, and nothing else.
It counts nothing that no commit of ours is to come for. Answers that come in one turn of the loop
are told together, and committed together with all that came while the last commit ran.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from edge.problem import Problem
from subscribe_forwarder import metrics
from subscribe_forwarder.delivery.ack_id import Minter
from subscribe_forwarder.delivery.flush import Commit
from subscribe_forwarder.delivery.hub import Hub
from subscribe_forwarder.delivery.reader import Reader
from subscribe_forwarder.delivery.reading.batch import Batch
from subscribe_forwarder.delivery.state.ledger import Ledger, Now
from subscribe_forwarder.push.verdict import Verdict

RETRY_S = 0.2
Late = Literal["ack", "release"]


class Item(NamedTuple):
    """One leased message."""

    reader: Reader
    ledger: Ledger
    batch: Batch
    at: int
    """The index of the message in the batch."""
    attempt: int
    turn: int
    minter: Minter
    """The minter of the epoch under which the message is leased."""

    @property
    def offset(self) -> int:
        return self.batch.base + self.at


class OutcomeCommits:
    """Settles the pushed messages of one subscription."""

    def __init__(
        self,
        hub: Hub,
        commit: Commit,
        now: Callable[[], Now],
        late: Callable[[Late, Sequence[bytes]], None],
        settled: Callable[[], None],
    ) -> None:
        """Make it.

        `late`: takes, by ack id, messages that are owned elsewhere by now, or under another ledger
        here, and what is to be done with them; `settled`: is called when fewer are uncommitted.
        """
        self._hub = hub
        self._commit = commit
        self._now = now
        self._late = late
        self._settled = settled
        self._acks: list[Item] = []
        self._dirty: dict[Reader, list[Item]] = {}
        """The items that were told to their ledgers, and those of them that were acked."""
        self._told = 0
        """Messages acked in the ledgers, of commits that are under way or to come."""
        self._scheduled = False
        self._task: asyncio.Task[None] | None = None

    @property
    def uncommitted(self) -> int:
        """The number of messages that the endpoint has taken and Postgres does not know of."""
        return len(self._acks) + self._told

    def settle(self, items: Sequence[Item], verdict: Verdict) -> None:
        """Settle the messages of one request.

        Messages of an at-most-once subscription are settled before.
        """
        if self._hub.subscription.delivery == "at_most_once":
            return
        if verdict.outcome == "delivered":
            self._acks += items
        elif verdict.outcome == "gone":
            self.give_back(items)
        else:
            self._fail(items, verdict)
        self._soon()

    def give_back(self, items: Sequence[Item]) -> int:
        """Return messages that were not sent: ready again, and no attempt counts.

        Returns how many still were leased.
        """
        given = 0
        late: list[Item] = []
        for item in items:
            if not self.current(item):
                late.append(item)
            elif item.ledger.give_back(item.offset):
                given += 1
                if item.ledger.policy.exactly_once:
                    self._dirty.setdefault(item.reader, [])
                    self._soon()
        self._pass_on("release", late)
        metrics.lease_ended.labels("released").inc(given)
        return given

    def current(self, item: Item) -> bool:
        """Return whether the ledger of a message is still the one that counts."""
        reader = item.reader
        return reader.ledger is item.ledger and self._hub.readers.get(reader.place) is reader

    async def close(self, deadline_s: float) -> None:
        """Tell the rest, and wait at most `deadline_s` seconds for the commit."""
        self._tell()
        if (committing := self._task) is not None:
            _, running = await asyncio.wait({committing}, timeout=deadline_s)
            for task in running:
                task.cancel()
            await asyncio.gather(committing, return_exceptions=True)

    def _fail(self, items: Sequence[Item], verdict: Verdict) -> None:
        now = self._now()
        ended = 0
        for item in items:
            if not self.current(item):
                continue
            delay_ms = None
            if verdict.retry_after_s is not None:
                backoff_ms = item.ledger.policy.backoff_ms(item.attempt, random.random)
                delay_ms = max(backoff_ms, int(verdict.retry_after_s * 1000))
            if item.ledger.fail(item.offset, now, delay_ms, verdict.detail):
                ended += 1
                self._dirty.setdefault(item.reader, [])
        metrics.lease_ended.labels("nack").inc(ended)

    def _soon(self) -> None:
        """Have outcomes reported at the end of this turn of the loop."""
        if not self._scheduled:
            self._scheduled = True
            asyncio.get_running_loop().call_soon(self._tell)

    def _tell(self) -> None:
        """Ack delivered messages in their ledgers, and start their commit."""
        self._scheduled = False
        acks, self._acks = self._acks, []
        by_reader: dict[Reader, list[Item]] = {}
        late: list[Item] = []
        for item in acks:
            if not self.current(item):
                late.append(item)
            elif self._may_ack(item):
                by_reader.setdefault(item.reader, []).append(item)
        for reader, items in by_reader.items():
            metrics.acked.inc(reader.acked(sorted([item.offset for item in items])))
            self._dirty.setdefault(reader, []).extend(items)
            self._told += len(items)
        self._pass_on("ack", late)
        if self._dirty and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._commit_all())
        if len(acks) > sum(map(len, by_reader.values())):
            self._settled()

    def _pass_on(self, how: Late, items: Sequence[Item]) -> None:
        """Settle messages whose ledger has changed by their ack ids."""
        if items:
            self._late(how, [item.minter.mint(item.offset, item.turn) for item in items])

    def _may_ack(self, item: Item) -> bool:
        """Return whether a message may be acked; exactly once: only under its own lease."""
        ledger = item.ledger
        if not ledger.policy.exactly_once:
            return True
        return ledger.held.holds(item.offset, item.minter.head.epoch, item.turn)

    async def _commit_all(self) -> None:
        """Commit reported outcomes until none are left; try failed commits again."""
        try:
            while self._dirty:
                told, self._dirty = self._dirty, {}
                going = [reader for reader in told if not reader.frozen]
                try:
                    await self._commit(going)
                except Problem:
                    await self._not_committed(told)
                else:
                    for reader in going:
                        self._done(told.pop(reader))
                    if told:
                        await self._not_committed(told)
                self._settled()
        finally:
            self._task = None

    async def _not_committed(self, told: dict[Reader, list[Item]]) -> None:
        """Try again, but for readers that are not ours any more."""
        await asyncio.sleep(RETRY_S)
        for reader, items in told.items():
            if self._hub.readers.get(reader.place) is reader:
                self._dirty.setdefault(reader, [])[:0] = items
            else:
                self._done(items)

    def _done(self, items: list[Item]) -> None:
        """Finish messages whose readers' commit ended.

        Items of a ledger that is replaced, or of a reader that went elsewhere, may not have been in
        it: they are acked by id, once more or at last.
        """
        self._told -= len(items)
        self._pass_on("ack", [item for item in items if not self.current(item)])
