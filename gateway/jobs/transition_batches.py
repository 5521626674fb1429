"""Gathers transitions of tasks: those that come while a transaction runs go with the next one.

Every transition of a task needs the row of its job, so of one tenant one transaction runs at a
time: as many connections would only wait for each other. A transaction that is refused is tried for
each caller by itself, so nobody pays for what another sent.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from metadata.errors import StatementRefused
from metadata.jobs.claims import JobLeaseRepository
from metadata.jobs.machine import Complete, Verdict
from metadata.jobs.transaction import Allowed, TaskTransition

MAX_ITEMS = 500
MAX_BYTES = 32 * 1024 * 1024
"""Bytes of outputs in one transaction, as MAX_ITEMS is of items; one caller's are never parted."""


@dataclass(slots=True, eq=False)
class _Call:
    items: Sequence[TaskTransition]
    allowed: Allowed
    verdicts: asyncio.Future[list[Verdict]]

    @property
    def size_bytes(self) -> int:
        outputs = (item.what.output for item in self.items if isinstance(item.what, Complete))
        return sum(map(len, outputs))


class TransitionBatches:
    """The transitions of one process; how many wait is bounded by how many requests run."""

    def __init__(self, leases: JobLeaseRepository) -> None:
        self._leases = leases
        self._calls: dict[bytes, deque[_Call]] = {}
        self._owned: set[asyncio.Task[None]] = set()

    async def apply(
        self, tenant_id: bytes, items: Sequence[TaskTransition], allowed: Allowed
    ) -> list[Verdict]:
        """Return the verdict on each item once it is committed; nothing of pools that are not
        `allowed`.

        Raises MetadataError. If a caller goes away, the work is done all the same.
        """
        call = _Call(items, allowed, asyncio.get_running_loop().create_future())
        calls = self._calls.get(tenant_id)
        if calls is None:
            calls = self._calls[tenant_id] = deque()
            task = asyncio.ensure_future(self._run(tenant_id, calls))
            self._owned.add(task)
            task.add_done_callback(self._owned.discard)
        calls.append(call)
        return await call.verdicts

    async def close(self) -> None:
        """End the batches, after the last caller has gone."""
        while self._owned:
            await asyncio.gather(*self._owned, return_exceptions=True)

    async def _run(self, tenant_id: bytes, calls: deque[_Call]) -> None:
        await asyncio.sleep(0)  # calls of this turn of the loop go together
        while calls:
            await self._apply(tenant_id, _together(calls))
        del self._calls[tenant_id]

    async def _apply(self, tenant_id: bytes, calls: Sequence[_Call]) -> None:
        items = [item for call in calls for item in call.items]
        places = [(call.allowed, at) for call in calls for at in range(len(call.items))]

        async def allowed(place: int, pool: str) -> bool:
            of_call, at = places[place]
            return await of_call(at, pool)

        try:
            verdicts = await self._leases.apply(tenant_id, items, allowed)
        except StatementRefused as error:
            if len(calls) == 1:
                _fail(calls, error)
                return
            for call in calls:
                await self._apply(tenant_id, [call])
        except Exception as error:
            _fail(calls, error)
        else:
            _answer(calls, verdicts)


def _together(calls: deque[_Call]) -> list[_Call]:
    """Take the calls of one transaction from the front."""
    taken = [calls.popleft()]
    count, size_bytes = len(taken[0].items), taken[0].size_bytes
    while calls:
        count += len(calls[0].items)
        size_bytes += calls[0].size_bytes
        if count > MAX_ITEMS or size_bytes > MAX_BYTES:
            break
        taken.append(calls.popleft())
    return taken


def _answer(calls: Sequence[_Call], verdicts: Sequence[Verdict]) -> None:
    at = 0
    for call in calls:
        if not call.verdicts.done():
            call.verdicts.set_result(list(verdicts[at : at + len(call.items)]))
        at += len(call.items)


def _fail(calls: Sequence[_Call], error: Exception) -> None:
    for call in calls:
        if not call.verdicts.done():
            call.verdicts.set_exception(error)
