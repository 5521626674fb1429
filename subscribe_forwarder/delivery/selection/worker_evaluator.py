"""Judges messages in a worker process, each expression by itself; the batch keeps the results.

These are single messages that may take longer to judge than the event loop has for it: a large
body, or a loop over many elements. The messages of a preview are judged here too, since its
expression is one that nobody has created yet.

An evaluation that takes too long is one that failed: it is true for nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from msgspec.structs import replace

from edge.problem import Problem
from edge.process_pool import CallFailed, ProcessPool, TookTooLong
from store_nodes import record_batch
from store_nodes.client import Entry
from subscribe_forwarder.delivery.reading.batch import Batch
from subscribe_forwarder.delivery.reading.judgement import Pending
from subscribe_forwarder.delivery.selection.pieces import Piece, Pieces
from subscribe_forwarder.delivery.selection.rule import Rule
from subscribe_forwarder.delivery.selection.variables import Bodies

TOO_LONG = "it takes too long to evaluate"


def evaluated(
    text: str, batches: list[tuple[bytes, int, int]], partition: int
) -> list[list[tuple[bool, str | None]]]:
    """Return whether the expression is true for each message of each batch, and why it failed.

    A batch has its messages, its first offset and its log time.
    """
    return [
        _verdicts(
            text, Batch(Entry(offset, log_time_us, None, None, memoryview(messages)), 0, partition)
        )
        for messages, offset, log_time_us in batches
    ]


def _verdicts(text: str, batch: Batch) -> list[tuple[bool, str | None]]:
    found = []
    for index in range(len(batch.messages())):
        rule = Rule(text, Bodies())
        found.append((bool(rule.matches(batch, [index])), rule.first_error))
    return found


class WorkerEvaluator:
    """Sends the judgements of one process to its worker processes."""

    def __init__(self, process_pool: ProcessPool) -> None:
        self._process_pool = process_pool
        self._under_way: dict[tuple[int, int], asyncio.Task[None]] = {}

    def close(self) -> None:
        for task in self._under_way.values():
            task.cancel()

    def require(self, tenant_id: bytes, pieces: Pieces, batch: Batch, index: int) -> None:
        """Returns if the batch knows what each rule is for that message; else raises Pending, and
        finds out meanwhile."""
        if all((rule.text, index) in batch.evaluated for rule in pieces.rules):
            return
        key = id(batch), index
        if key not in self._under_way:
            work = self.prepare(tenant_id, pieces, [Piece(batch, index, index + 1)])
            task = self._under_way[key] = asyncio.create_task(work)
            task.add_done_callback(lambda _: self._under_way.pop(key))
        raise Pending

    async def prepare(self, tenant_id: bytes, pieces: Pieces, group: Sequence[Piece]) -> None:
        """Return once the batches know it for all messages of a group of one partition."""
        batches = [_encoded(each, whole=pieces.looks_at_data) for each in group]
        partition = group[0].batch.partition
        for rule in pieces.rules:
            found = None
            while found is None:
                try:
                    found = await self._process_pool.run(
                        tenant_id, evaluated, rule.text, batches, partition
                    )
                except (TookTooLong, CallFailed):
                    found = [[(False, TOO_LONG)] * (each.high - each.low) for each in group]
                except Problem as refused:  # The tenant has used up its share for now.
                    await asyncio.sleep(refused.retry_after_s or 1.0)
            for each, verdicts in zip(group, found, strict=True):
                for index, (matched, reason) in enumerate(verdicts, each.low):
                    each.batch.evaluated[rule.text, index] = matched, reason


def _encoded(piece: Piece, *, whole: bool) -> tuple[bytes, int, int]:
    """Return a piece as workers read it; its bodies are left out unless it is `whole`."""
    batch = piece.batch
    judged = batch.messages()[piece.low : piece.high]
    if not whole:
        judged = [replace(message, data=b"") for message in judged]
    messages = record_batch.encode(judged, batch.log_time_us)
    return messages, batch.base + piece.low, batch.log_time_us
