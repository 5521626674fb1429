"""Finishes acks that publish after their process died: the sweep of `ack_publications`.

    committed and not released      its messages are released; if their queue was sealed since,
                                    they are copied to its successor like delayed ones
    open for longer than an ack     aborted first, which makes its commit impossible; only then are
    can take                        the messages staged under its tag discarded

Every step can be repeated, and by several schedulers at once: the log and the row decide. A
publication that fails waits for the next sweep. So do, untried, the others in a group that does not
answer, so that publications in other groups do not wait for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from metadata.delivery.deliveries import Publication, StagedOutputs
from metadata.delivery.due import Progress, QueueKey
from metadata.delivery.publications import PublicationRepository
from scheduler import metrics
from scheduler.forwarding import Forwarding
from scheduler.pending import StagedQueue
from scheduler.term import put_off
from store_nodes.client import StoreClient
from store_nodes.errors import OutcomeUnknown, QueueNotFound, QueueSealed, StoreError, Unavailable
from store_nodes.queue_id import QueueId

SWEEP_EVERY_S = 2.0
COMMITTED_AFTER_S = 2.0
"""Seconds after the commit: the process that committed releases at once, unless it died."""
OPEN_AFTER_S = 30.0
"""Seconds that are longer than staging and a flush may take."""
ABORTED_FOR_S = 600.0
SWEEP_AT_ONCE = 100
"""Rows that are read together."""
LIST_AT_ONCE = 1000
_NO_ANSWER = (Unavailable, OutcomeUnknown)
_log = structlog.get_logger("packetboat.scheduler")


class PublicationSweep:
    """The sweep; one at a time is enough, and two do no harm."""

    def __init__(
        self,
        store: StoreClient,
        publications: PublicationRepository,
        forwarding: Forwarding,
        *,
        timeout_s: float,
        open_after_s: float = OPEN_AFTER_S,
        committed_after_s: float = COMMITTED_AFTER_S,
    ) -> None:
        self._store = store
        self._publications = publications
        self._forwarding = forwarding
        self._timeout_s = timeout_s
        self._after_s = {
            "committed": committed_after_s,
            "open": open_after_s,
            "aborted": ABORTED_FOR_S,
        }
        self._down: set[int] = set()  # groups that did not answer in this sweep

    async def run(self) -> None:
        """Run the sweep regularly for the life of the term."""
        while True:
            await asyncio.sleep(SWEEP_EVERY_S)
            await put_off("publications", self.sweep())

    async def sweep(self) -> None:
        """Go over all rows once. Raises StoreError, MetadataError if some of it was not done."""
        self._down.clear()
        acts = {"committed": self._release, "open": self._abort, "aborted": self._forget}
        states = await self._publications.with_some(self._after_s)
        if "open" in states:
            states.add("aborted")  # by then
        failed = [await self._each(state, act) for state, act in acts.items() if state in states]
        for error in failed:
            if error is not None:
                raise error

    async def _each(
        self, state: str, act: Callable[[Publication], Awaitable[None]]
    ) -> StoreError | None:
        """Act on all rows of a state, which leave that state on success; return a failure, if any.

        Raises MetadataError.
        """
        failed: StoreError | None = None
        left = 0
        while page := await self._publications.left(
            state, older_than_s=self._after_s[state], limit=SWEEP_AT_ONCE, skip=left
        ):
            for publication in page:
                if any(output.group in self._down for output in publication.outputs):
                    left += 1
                    continue
                try:
                    await act(publication)
                except StoreError as error:
                    failed = error
                    left += 1
        return failed

    async def _abort(self, publication: Publication) -> None:
        """Mark a publication as aborted and discard its messages, now or in a later sweep."""
        if await self._publications.abort(publication.tenant_id, publication.tag):
            metrics.publications.labels("aborted").inc()
            try:
                await self._discard(publication)
            except StoreError as error:
                _log.info("discard put off", error=f"{error.code}: {error}")

    async def _forget(self, publication: Publication) -> None:
        await self._discard(publication)
        await self._publications.discarded([publication])

    async def _release(self, publication: Publication) -> None:
        for output in publication.outputs:
            await self._release_in(publication.tenant_id, output)
        await self._publications.released([publication])
        metrics.publications.labels("released").inc()

    async def _release_in(self, tenant_id: bytes, output: StagedOutputs) -> None:
        queue = QueueId.unpack(output.queue)
        try:
            await self._store.release(
                output.group, queue, output.numbers, timeout_s=self._timeout_s
            )
        except QueueNotFound:
            return  # its topic is gone
        except _NO_ANSWER:
            self._down.add(output.group)
            raise
        except QueueSealed as sealed:
            left = list(output.numbers)
            staged = StagedQueue(QueueKey(tenant_id, *queue), output.group, Progress())
            while left:
                handed = await self._forwarding.forward(staged, left, sealed.successors)
                left = [number for number in left if number not in handed.done]

    async def _discard(self, publication: Publication) -> None:
        """Discard the messages staged under its tag, in all of its queues."""
        for output in publication.outputs:
            queue = QueueId.unpack(output.queue)
            try:
                numbers = await self._tagged(output.group, queue, publication.tag)
                if numbers:
                    await self._store.discard(
                        output.group, queue, numbers, timeout_s=self._timeout_s
                    )
            except QueueNotFound:
                continue
            except _NO_ANSWER:
                self._down.add(output.group)
                raise

    async def _tagged(self, group: int, queue: QueueId, tag: bytes) -> list[int]:
        found: list[int] = []
        after = -1
        while True:
            page = await self._store.staged(
                group, queue, after, LIST_AT_ONCE, timeout_s=self._timeout_s
            )
            found += [info.stage_number for info in page.staged if info.tag == tag]
            if len(page.staged) < LIST_AT_ONCE:
                return found
            after = page.staged[-1].stage_number
