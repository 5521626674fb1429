"""Messages that are judged in a worker process, each expression by itself; the batch keeps what
came out.

These are single messages that may take longer to judge than the event loop has for it: a large
body, or a loop over many elements. The messages of a preview are judged here too, since its
expression is one that nobody has created yet.

An evaluation that takes too long is one that failed: it is true for nothing.
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from msgspec.structs import replace

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
    """A batch of a few messages, as workers read it."""

    base_offset: int
    log_time_us: int
    batch: bytes
    stage: int | None = None
    indices: tuple[int, ...] | None = None


def evaluated(
    text: str, messages: bytes, offset: int, log_time_us: int, partition: int
) -> list[tuple[bool, str | None]]:
    """Return whether the expression is true for each message of a batch, and why it failed."""
    batch = Batch(_Alone(offset, log_time_us, messages), 0, partition)
    found = []
    for index in range(len(batch.messages())):
        rule = Rule(text, Bodies())
        found.append((bool(rule.matches(batch, [index])), rule.first_error))
    return found


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
            work = self.prepare(tenant_id, pieces, batch, index, index + 1)
            task = self._under_way[key] = asyncio.create_task(work)
            task.add_done_callback(lambda _: self._under_way.pop(key))
        raise Pending

    async def prepare(
        self, tenant_id: bytes, pieces: Pieces, batch: Batch, low: int, high: int
    ) -> None:
        """Returns once the batch knows it for the messages with the indices `low` … `high` − 1."""
        judged = batch.messages()[low:high]
        if not pieces.looks_at_data:
            judged = [replace(message, data=b"") for message in judged]
        messages = record_batch.encode(judged, batch.log_time_us)
        for rule in pieces.rules:
            while (rule.text, low) not in batch.apart:
                try:
                    found = await self._workshop.run(
                        tenant_id,
                        evaluated,
                        *(rule.text, messages, batch.base + low),
                        *(batch.log_time_us, batch.partition),
                    )
                except (TookTooLong, CallFailed):
                    found = [(False, TOO_LONG)] * (high - low)
                except Problem as refused:  # The tenant has used up its share for now.
                    await asyncio.sleep(refused.retry_after_s or 1.0)
                    continue
                for index, (matched, reason) in enumerate(found, low):
                    batch.apart[rule.text, index] = matched, reason
