"""Publishes with an ack: the messages become readable exactly if the ack becomes durable.

Order of durability:

    1. the row `open`, naming the queues          before anything is staged
    2. every output staged, under the row's tag   before the commit
    3. ack and `committed` with the numbers       in one statement (cursors.py): the commit
    4. the outputs released                       after the commit; then the row goes

A process that dies in between leaves a row, and the scheduler finishes or undoes it
(`scheduler/publications.py`). A client sends an ack again if its outcome is unknown: if it was
done, its messages are acked, and nothing is published twice.

Outputs are metered once they are committed. If the client does not hear of it (the commit was not
answered, or the client went away), the process asks for the state of the row until it knows: so a
client cannot avoid the metering by hanging up.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Generic, NamedTuple, TypeVar

import structlog

from edge import failpoints
from edge.problem import Problem, unavailable
from edge.quota import (
    NO_LIMITS,
    PUBLISHED_BYTES,
    PUBLISHED_MESSAGES,
    Quotas,
    Usage,
    rate_limited,
)
from metadata.delivery.deliveries import Publication
from metadata.delivery.publications import PublicationRepository
from metadata.errors import MetadataError
from outbox import TopicFull
from outbox.staging import Output, Plan, Staged, Staging, plan
from store_nodes.errors import QueueNotFound, QueueSealed, StoreError
from subscribe_forwarder import metrics
from subscribe_forwarder.delivery.flush import AckFlusher, ack_unavailable
from subscribe_forwarder.delivery.reader import Reader

STAGE_WITHIN_S = 10.0
"""Much less than the sweep waits before it takes an open row for abandoned."""
ASK_EVERY_S = 5.0
"""Seconds between questions about an ack whose commit was not answered."""
MAX_UNDECIDED = 10_000
"""The limit of undecided acks; beyond it, the oldest is metered as if it was committed."""
TRIES = 3
"""The limit of tries to stage, while queues are sealed meanwhile."""
_log = structlog.get_logger("packetboat.subscribe")
T = TypeVar("T")


class Published(NamedTuple):
    """`duplicate`: the messages had been acked before, and nothing was published now."""

    message_ids: list[str]
    duplicate: bool


class _Used(NamedTuple):
    """The usage of an ack that is metered."""

    publication: Publication
    messages: int
    size_bytes: int


class Gathering(Generic[T]):
    """Calls that come while one is under way go together in the next."""

    def __init__(self, call: Callable[[Sequence[T]], Awaitable[None]]) -> None:
        self._call = call
        self._next: list[T] = []
        self._done: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None

    async def add(self, item: T) -> None:
        """Return once the call that has the item returns; raise what it raises."""
        if self._done is None:
            self._done = asyncio.get_running_loop().create_future()
            self._done.add_done_callback(_looked_at)
        self._next.append(item)
        done = self._done
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())
        await asyncio.shield(done)

    async def _run(self) -> None:
        try:
            while self._done is not None:
                items, done = self._next, self._done
                self._next, self._done = [], None
                try:
                    await self._call(items)
                except Exception as error:
                    done.set_exception(error)
                else:
                    done.set_result(None)
        finally:
            self._task = None


class AckPublisher:
    """Publishes with the acks of one process, on one event loop."""

    def __init__(
        self,
        staging: Staging,
        publications: PublicationRepository,
        flusher: AckFlusher,
        clock: Callable[[], float] = time.monotonic,
        quotas: Quotas = NO_LIMITS,
        usage: Usage = NO_LIMITS,
    ) -> None:
        """`quotas` and `usage`: outputs take from the tenant's publish rates, and are counted, as
        if they had been published alone."""
        self.quotas = quotas
        self.usage = usage
        self._publications = publications
        self._undecided: dict[bytes, _Used] = {}
        self._asking: asyncio.Task[None] | None = None
        self._staging = staging
        self._flusher = flusher
        self._clock = clock
        self._opening = Gathering(publications.open)
        self._closing = Gathering(publications.released)

    async def ack(
        self,
        tenant_id: bytes,
        reader: Reader,
        offsets: Sequence[int],
        read: Callable[[], Awaitable[list[Output]]],
        check: Callable[[], None],
    ) -> Published:
        """Acks the offsets (ascending), all or none, and publishes what `read` gives; that is asked
        again when a topic turns out to have changed. `check` is called before the ack is made, and
        raises a Problem when it may not be.

        Raises Problem: 409 when some of the messages are acked already, 429 when the tenant's
        publish rate is used up, 503 when the outcome is not done or unknown; StoreError and
        MetadataError before anything was committed.
        """
        generation = reader.cursor.generation
        taken = False
        for _ in range(TRIES):
            if _settled(reader, offsets):
                await self._flusher.commit([reader])
                return Published([], duplicate=True)
            outputs = await read()
            size_bytes = sum(output.size_bytes for output in outputs)
            if not taken:
                refusal = self.quotas.take_publish(tenant_id, len(outputs), size_bytes)
                if refusal is not None:
                    raise rate_limited(refusal)
                taken = True
            tag = os.urandom(16)
            try:
                planned = plan(outputs)
                staged = await self._stage(tenant_id, tag, planned)
            except TopicFull as error:
                raise Problem.of(error.kind, str(error)) from error
            except (QueueSealed, QueueNotFound):
                continue
            named = sum(map(bool, staged.message_ids))
            assert named == len(outputs), f"{named} of {len(outputs)} outputs are staged"
            publication = Publication(tenant_id, tag, staged.places)
            failpoints.reach("publication.staged")
            # Meanwhile anything may have happened here; the sweep takes back staged messages.
            if reader.frozen or reader.cursor.generation != generation:
                raise ack_unavailable("The ownership of the partition is being checked.")
            if _settled(reader, offsets):
                await self._flusher.commit([reader])
                return Published([], duplicate=True)
            check()
            reader.ledger.publish(offsets, publication)
            used = _Used(publication, len(outputs), size_bytes)
            try:
                await self._flusher.commit([reader])
            except BaseException:  # Also of a caller that went away: it may be committed.
                self._meter_later(used)
                raise
            failpoints.reach("publication.committed")
            self._meter(used)
            await self._release(publication)
            return Published(staged.message_ids, duplicate=False)
        raise unavailable("topic", "A topic to publish to is being moved; send the ack again.")

    async def close(self) -> None:
        """Meter undecided acks: they may have been committed."""
        if self._asking is not None:
            self._asking.cancel()
            await asyncio.gather(self._asking, return_exceptions=True)
        for used in self._undecided.values():
            self._meter(used)
        self._undecided.clear()

    def _meter(self, used: _Used) -> None:
        metrics.ack_published.inc(used.messages)
        tenant_id = used.publication.tenant_id
        self.usage.count(tenant_id, PUBLISHED_MESSAGES, used.messages)
        self.usage.count(tenant_id, PUBLISHED_BYTES, used.size_bytes)

    def _meter_later(self, used: _Used) -> None:
        if len(self._undecided) >= MAX_UNDECIDED:
            self._meter(self._undecided.pop(next(iter(self._undecided))))
        self._undecided[used.publication.tag] = used
        if self._asking is None or self._asking.done():
            self._asking = asyncio.get_running_loop().create_task(self._ask())

    async def _ask(self) -> None:
        while self._undecided:
            await asyncio.sleep(ASK_EVERY_S)
            asked = list(self._undecided.values())
            try:
                fates = await self._publications.states_of([used.publication for used in asked])
            except MetadataError as error:
                _log.info("fates of acks are asked later", error=f"{error.code}: {error}")
                continue
            for used in asked:
                fate = fates.get(used.publication.tag)
                if fate == "open" or self._undecided.pop(used.publication.tag, None) is None:
                    continue
                if fate != "aborted":
                    self._meter(used)

    async def _stage(self, tenant_id: bytes, tag: bytes, planned: Plan) -> Staged:
        opened_s = self._clock()
        await self._opening.add(Publication(tenant_id, tag, planned.targets()))
        failpoints.reach("publication.opened")
        staged = await self._staging.stage(planned, tag)
        if self._clock() - opened_s > STAGE_WITHIN_S:
            raise unavailable("store", "Staging took too long; send the ack again.")
        return staged

    async def _release(self, publication: Publication) -> None:
        """Release the outputs; the sweep does it if this fails."""
        try:
            await self._staging.release(publication.outputs)
            failpoints.reach("publication.released")
            await self._closing.add(publication)
        except (StoreError, MetadataError) as error:
            _log.info("release is left to the sweep", error=f"{error.code}: {error}")


def _settled(reader: Reader, offsets: Sequence[int]) -> bool:
    """Return whether all offsets are settled; raises a 409 Problem if only some are."""
    states = {reader.ledger.is_settled(offset) for offset in offsets}
    if states == {True, False}:
        raise Problem.of(
            "already-acked",
            "Some of the messages are acked already: nothing was acked or published. Send an ack"
            " for each message that has outputs of its own.",
        )
    return states == {True}


def _looked_at(done: asyncio.Future[None]) -> None:
    if not done.cancelled():
        done.exception()
