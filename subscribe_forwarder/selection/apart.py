"""Single messages that may take longer to judge than the event loop has for it: a large body, or a
loop over many elements. They are judged in a worker process, each expression by itself, and the
batch keeps what came out.

An evaluation that takes too long is one that failed: it is true for nothing.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from edge.problem import Problem
from edge.workshop import CallFailed, TookTooLong, Workshop
from store_nodes import record_batch
from subscribe_forwarder.reading.batch import Batch
from subscribe_forwarder.reading.judgement import Pending
from subscribe_forwarder.selection.pieces import Pieces
from subscribe_forwarder.selection.rule import Rule
from subscribe_forwarder.selection.variables import Bodies

TOO_LONG = "it takes too long to evaluate"


class _Alone(NamedTuple):
    """A batch of one message, as workers read it."""

    base_offset: int
    log_time_us: int
    batch: bytes
    stage: int | None = None
    indices: tuple[int, ...] | None = None


def evaluated(
    text: str, message: bytes, offset: int, log_time_us: int, partition: int
) -> tuple[bool, str | None]:
    """Return whether the expression is true for the one message of a batch, and why it failed."""
    rule = Rule(text, Bodies())
    matched = rule.matches(Batch(_Alone(offset, log_time_us, message), 0, partition))
    return bool(matched), rule.first_error


class Apart:
    """One per process."""

    def __init__(self, workshop: Workshop) -> None:
        self._workshop = workshop
        self._under_way: dict[tuple[int, int], asyncio.Task[None]] = {}

    def close(self) -> None:
        for task in self._under_way.values():
            task.cancel()

    def require(self, tenant_id: bytes, pieces: Pieces, batch: Batch, index: int) -> None:
        """Returns if the batch knows what each rule is for that message; else raises Pending, and
        finds out meanwhile."""
        if all((rule.text, index) in batch.apart for rule in pieces.rules):
            return
        key = id(batch), index
        if key not in self._under_way:
            work = self.prepare(tenant_id, pieces, batch, index)
            task = self._under_way[key] = asyncio.create_task(work)
            task.add_done_callback(lambda _: self._under_way.pop(key))
        raise Pending

    async def prepare(self, tenant_id: bytes, pieces: Pieces, batch: Batch, index: int) -> None:
        """Returns once the batch knows it."""
        message = record_batch.encode([batch.messages()[index]], batch.log_time_us)
        for rule in pieces.rules:
            while (rule.text, index) not in batch.apart:
                try:
                    found = await self._workshop.run(
                        tenant_id,
                        evaluated,
                        *(rule.text, message, batch.base + index),
                        *(batch.log_time_us, batch.partition),
                    )
                    batch.apart[rule.text, index] = (found[0], found[1])
                except (TookTooLong, CallFailed):
                    batch.apart[rule.text, index] = (False, TOO_LONG)
                except Problem as refused:  # The tenant has used up its share for now.
                    await asyncio.sleep(refused.retry_after_s or 1.0)
