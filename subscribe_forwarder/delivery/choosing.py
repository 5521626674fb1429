"""Handles new messages one by one, if a filter, a skip rule or the order of keys matters.

Messages that are settled without delivery are settled in runs; messages that must wait for their
key are held.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from subscribe_forwarder import metrics
from subscribe_forwarder.delivery.reading.batch import Batch, BatchRange, add_range
from subscribe_forwarder.delivery.reading.judgement import Judgement, Run
from subscribe_forwarder.delivery.state.cursor import Settled

if TYPE_CHECKING:
    from subscribe_forwarder.delivery.pull_limits import PullLimits
    from subscribe_forwarder.delivery.reader import Reader

_NAMES = {Settled.FILTERED: "filtered", Settled.SKIPPED: "skipped"}


def settle(reader: Reader, low: int, high: int, how: Settled) -> None:
    """Settle new messages that are not delivered."""
    count = reader.ledger.cursor.settle(low, high, how)
    metrics.not_delivered.labels(_NAMES.get(how, how.name.lower())).inc(count)


class Choosing:
    """One pass over new messages of one batch; `known`: they were read before a takeover."""

    def __init__(
        self, reader: Reader, ranges: list[BatchRange], limits: PullLimits, now_us: int
    ) -> None:
        self._reader = reader
        self._ranges = ranges
        self._limits = limits
        self._now_us = now_us

    def go_over(self, batch: Batch, offset: int, stop: int, *, known: bool) -> int:
        """Handle new messages from `offset` up to `stop`, within the batch; return the
        offset where it stopped.
        """
        reader, limits, base = self._reader, self._limits, batch.base
        began = offset
        stop = min(stop, offset + limits.scan)
        judgement = reader.judge(batch, offset - base, limits)
        if judgement is not None and base + judgement.upto < stop:
            stop = base + judgement.upto
            limits.more = True
        for low, high, how in _within(judgement, offset - base, stop - base):
            if how is not None:
                settle(reader, base + low, base + high, how)
                offset = base + high
                continue
            offset = self._take(batch, low, high, known=known)
            if offset < base + high:
                break
        limits.scan -= offset - began
        return offset

    def _take(self, batch: Batch, index: int, stop: int, *, known: bool) -> int:
        limits, base, keys = self._limits, batch.base, self._reader.keys
        messages = batch.messages()
        hashes = None if keys is None else batch.key_hashes()
        while index < stop and not limits.full and (known or limits.new > 0):
            size = len(messages[index].data)
            if size > limits.max_bytes and limits.taken:
                limits.max_bytes = 0
                break
            offset = base + index
            expires_us = batch.expires_us(index) if batch.expires else 0
            key = None if hashes is None else hashes[index]
            if 0 < expires_us <= self._now_us:
                self._expire(offset, key)
                index += 1
                continue
            limits.new -= 1
            if keys is None or key is None or keys.admit(offset, key, expires_us):
                add_range(self._ranges, batch, index, limits.take(batch, index, index + 1))
            index += 1
        return base + index

    def _expire(self, offset: int, key: int | None) -> None:
        """Settle a message whose time to live was over before it was read."""
        reader = self._reader
        if reader.keys is not None and key is not None:
            reader.keys.order.admit(offset, key)  # it has its place until it is settled
            reader.expire(offset)
        else:
            metrics.expired.inc(reader.ledger.cursor.settle(offset, offset + 1, Settled.EXPIRED))


def _within(judgement: Judgement | None, low: int, high: int) -> Iterator[Run]:
    if judgement is None:
        yield Run(low, high, None)
        return
    for run in judgement.runs:
        if run.high > low and run.low < high:
            yield Run(max(run.low, low), min(run.high, high), run.how)
