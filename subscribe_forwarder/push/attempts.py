"""Gathers the log of attempts, and writes it to Postgres once a second.

Bounded: one write has, for each subscription, its newest failures of that second, and its newest
successes, fewer of them. A process that dies takes the last second of its log with it; while
Postgres is away the newest are kept, up to the same bounds.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import NamedTuple

import structlog

from metadata.errors import MetadataError
from metadata.ids import new_uid
from metadata.subscriptions.push_attempts import KEPT, AttemptOf, PushAttempt, PushAttemptRepository
from metadata.types import Subscription
from subscribe_forwarder.push import metrics
from subscribe_forwarder.push.outcome_commits import Item
from subscribe_forwarder.push.verdict import Answer, Verdict

FLUSH_S = 1.0
MAX_SUCCESSES = 100
MAX_FAILURES = 500
TRIM_AFTER = 200
PRUNE_EVERY_S = 60.0
MAX_DETAIL_CHARS = 500
_log = structlog.get_logger("packetboat.push")


class _Noted(NamedTuple):
    wall_s: float
    item: Item
    verdict: Verdict
    answer: Answer


class _Pending:
    """The attempts of one subscription that are not written yet."""

    __slots__ = ("failures", "successes")

    def __init__(self) -> None:
        self.failures: deque[_Noted] = deque(maxlen=MAX_FAILURES)
        self.successes: deque[_Noted] = deque(maxlen=MAX_SUCCESSES)


class AttemptLog:
    """Gathers the attempts of one process, on one event loop."""

    def __init__(self, attempts: PushAttemptRepository) -> None:
        self._attempts = attempts
        self._pending: dict[tuple[bytes, bytes], _Pending] = {}
        self._written: dict[tuple[bytes, bytes], int] = {}
        """The rows that were written since the log of that subscription was trimmed."""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def close(self) -> None:
        """Writes what is left, if that is possible now."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        with suppress(MetadataError):
            await self.flush()

    def add(
        self,
        subscription: Subscription,
        items: Sequence[Item],
        verdict: Verdict,
        answer: Answer,
        wall_s: float,
    ) -> None:
        """Log the attempts of one request, which began at `wall_s`."""
        key = subscription.tenant_id, subscription.uid
        pending = self._pending.get(key)
        if pending is None:
            pending = self._pending[key] = _Pending()
        well = verdict.outcome == "delivered"
        kept = pending.successes if well else pending.failures
        assert kept.maxlen is not None
        lost = len(kept) + len(items) - kept.maxlen
        if lost > 0:
            metrics.attempts_lost.labels("rate").inc(min(lost, len(items)))
        kept.extend([_Noted(wall_s, item, verdict, answer) for item in items])

    async def flush(self) -> None:
        """Raises MetadataError; then what there was is lost."""
        if not self._pending:
            return
        pending, self._pending = self._pending, {}
        rows: list[AttemptOf] = []
        for key, of in pending.items():
            noted = sorted([*of.failures, *of.successes], key=lambda one: one.wall_s)
            ids = sorted(new_uid() for _ in noted)
            rows += [
                AttemptOf(*key, _attempt(uid, one)) for uid, one in zip(ids, noted, strict=True)
            ]
            self._written[key] = self._written.get(key, 0) + len(noted)
        try:
            await self._attempts.append(rows)
            await self._trim()
        except MetadataError:
            metrics.attempts_lost.labels("postgres").inc(len(rows))
            raise

    async def _trim(self) -> None:
        grown = [key for key, written in self._written.items() if written >= TRIM_AFTER]
        if grown:
            await self._attempts.trim(grown)
            for key in grown:
                del self._written[key]
        if len(self._written) > KEPT * 10:
            self._written.clear()

    async def _run(self) -> None:
        """Run for the life of the process; only cancellation ends it."""
        loop = asyncio.get_running_loop()
        pruned_s = loop.time()
        while True:
            await asyncio.sleep(FLUSH_S)
            try:
                await self.flush()
                if loop.time() - pruned_s >= PRUNE_EVERY_S:
                    pruned_s = loop.time()
                    await self._attempts.prune()
            except MetadataError as error:
                _log.warning("attempts not logged", error=repr(error))
            except Exception as error:
                _log.error("attempt log failed", exc_info=error)


def _attempt(uid: bytes, one: _Noted) -> PushAttempt:
    item, answer = one.item, one.answer
    renderer = item.reader.tail.renderer
    return PushAttempt(
        uid,
        datetime.fromtimestamp(one.wall_s, UTC),
        item.batch.message_id(item.at, renderer).decode("ascii"),
        item.batch.partition,
        item.offset,
        item.attempt,
        answer.status,
        one.verdict.outcome,
        round(answer.latency_s * 1000, 3),
        answer.excerpt,
        one.verdict.detail[:MAX_DETAIL_CHARS],
    )
