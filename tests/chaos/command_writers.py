"""Actors of the command load that append: with ids that are sent again, to queues that are
truncated, and to queues that are sealed."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import itertools
import os
import random
import time

from harness.cluster import ChaosCluster
from store_nodes.client import StoreClient
from store_nodes.commands import DEDUP_ENTRY
from store_nodes.errors import DedupKnown, NotDone, QueueSealed, QueueTruncated, StoreError
from store_nodes.queue_id import QueueId
from tests.chaos.command_history import Trimmed, check_ids, check_trims
from tests.chaos.command_support import (
    FINISH_S,
    KEPT,
    KNOWN,
    KNOWN_ELSEWHERE,
    REPEATED,
    RETRY_S,
    SEALED,
    TIMEOUT_S,
    encoded,
    until_done,
)
from tests.chaos.history import History, Outcome, Publish, Seal, Stored
from tests.chaos.read_log import messages_of, read_queue
from tests.chaos.rules import check
from tests.chaos.sometimes import Sometimes


class IdActor:
    """Sends each message with an id over a connection that it cuts at once, then again and again
    over another until it has an answer."""

    def __init__(
        self,
        cluster: ChaosCluster,
        client: StoreClient,
        group: int,
        dice: random.Random,
        sometimes: Sometimes,
        history: History,
    ) -> None:
        self.sent: list[Publish] = []
        self._history = history
        self._cluster = cluster
        self._client = client
        self._group = group
        self._queue = QueueId(os.urandom(16), 0)
        self._dice = dice
        self._sometimes = sometimes

    async def run(self, stopping: asyncio.Event) -> None:
        await until_done(lambda: self._client.create(self._group, self._queue))
        while not stopping.is_set():
            payload = f"id-{len(self.sent)}"
            batch, id_ = encoded(payload), DEDUP_ENTRY.pack(0, os.urandom(16), 1)
            self._sending(payload)  # nobody waits for the answer
            first_leader = await self._send_and_cut(batch, id_)
            await asyncio.sleep(self._dice.choice((0.0, 0.0, 0.3, 1.5)))
            await self._until_answered(self._sending(payload), batch, id_, first_leader)
            await asyncio.sleep(self._dice.uniform(0.0, 0.2))

    def _sending(self, payload: str) -> Publish:
        topic = self._queue.topic_uid.hex()
        publish = Publish(payload, None, time.monotonic(), topic=topic, id=payload)
        self.sent.append(publish)
        self._history.add(publish)
        return publish

    async def _send_and_cut(self, batch: bytes, id_: bytes) -> int | None:
        cutter = self._cluster.store_client()
        await cutter.start()
        with contextlib.suppress(StoreError, TimeoutError):
            async with asyncio.timeout(TIMEOUT_S):
                while not cutter.has_leader(self._group):
                    await asyncio.sleep(0.01)
            # A connection that is open for a while is there when its leader hangs: what is sent
            # over it then is never stored.
            await asyncio.sleep(self._dice.choice((0.0, 0.0, 0.8)))
            appender = cutter.appender(self._group, self._queue)
            future = appender.append(batch, 1, dedup=id_)
            future.add_done_callback(lambda done: done.cancelled() or done.exception())
            await asyncio.sleep(self._dice.choice((0.0, 0.001, 0.004)))
        leader = cutter.leader(self._group)
        await cutter.close()
        return leader

    async def _until_answered(
        self, publish: Publish, batch: bytes, id_: bytes, first_leader: int | None
    ) -> None:
        deadline = time.monotonic() + FINISH_S
        while time.monotonic() < deadline:
            appender = self._client.appender(self._group, self._queue)
            try:
                receipt = await appender.append(batch, 1, dedup=id_, timeout_s=TIMEOUT_S)
            except DedupKnown as error:
                known = error.known[0]
                assert known.same_body
                assert not known.staged
                _stored(publish, known.position)
                publish.duplicate = True
                leader = self._client.leader(self._group)
                self._sometimes.hit(KNOWN)
                self._sometimes.hit(
                    KNOWN_ELSEWHERE, None not in (leader, first_leader) and leader != first_leader
                )
                return
            except StoreError:
                await asyncio.sleep(RETRY_S)
            else:
                _stored(publish, receipt.base_offset)
                self._sometimes.hit(REPEATED)
                return
            finally:
                appender.close()

    async def check(self) -> list[str]:
        return check_ids(
            self.sent, await _read(self._client, self._group, self._queue, self._history)
        )


def _stored(publish: Publish, offset: int) -> None:
    publish.outcome, publish.answered_s = Outcome.ACKED, time.monotonic()
    publish.partition, publish.offset = 0, offset


async def _read(client: StoreClient, group: int, queue: QueueId, history: History) -> list[Stored]:
    """Read all of a queue, which is a topic of its own in the history."""
    sent_s = time.monotonic()
    log = await read_queue(client, group, queue)
    history.add_logs(queue.topic_uid.hex(), {0: log}, sent_s, time.monotonic())
    return log


class SealActor:
    """Two writers append to a queue, each once its last append is answered, until the queue is
    sealed; then to another."""

    def __init__(
        self,
        client: StoreClient,
        group: int,
        dice: random.Random,
        sometimes: Sometimes,
        history: History,
    ) -> None:
        self._client = client
        self._group = group
        self._dice = dice
        self._sometimes = sometimes
        self._history = history
        self._numbers = itertools.count()
        self._sealed: list[tuple[QueueId, list[Publish], int]] = []
        """Each with what was sent to it, and where it ended."""

    async def run(self, stopping: asyncio.Event) -> None:
        while not stopping.is_set():
            queue, sent = QueueId(os.urandom(16), 0), list[Publish]()
            await until_done(functools.partial(self._client.create, self._group, queue))
            async with asyncio.TaskGroup() as group:
                for _ in range(2):
                    group.create_task(self._write(queue, sent))
                await asyncio.sleep(self._dice.uniform(0.2, 2.0))
                end = await self._seal(queue)
            self._sealed.append((queue, sent, end))

    async def _seal(self, queue: QueueId) -> int:
        seal = Seal(queue.topic_uid.hex(), 0, time.monotonic())
        self._history.add(seal)
        seal.end = await until_done(
            lambda: self._client.seal(self._group, queue, timeout_s=TIMEOUT_S)
        )
        seal.answered_s, seal.outcome = time.monotonic(), Outcome.ACKED
        return seal.end

    async def _write(self, queue: QueueId, sent: list[Publish]) -> None:
        appender, topic = self._client.appender(self._group, queue), queue.topic_uid.hex()
        while True:
            payload = f"seal-{next(self._numbers)}"
            publish = Publish(payload, None, time.monotonic(), topic=topic)
            sent.append(publish)
            self._history.add(publish)
            try:
                receipt = await appender.append(encoded(payload), 1, timeout_s=TIMEOUT_S)
            except NotDone as error:
                publish.outcome, publish.answered_s = Outcome.NOT_DONE, time.monotonic()
                if isinstance(error, QueueSealed):
                    self._sometimes.hit(SEALED)
                    break
                await asyncio.sleep(RETRY_S)
            except StoreError:
                await asyncio.sleep(RETRY_S)
            else:
                _stored(publish, receipt.base_offset)
            await asyncio.sleep(self._dice.uniform(0.0, 0.05))
        appender.close()

    async def check(self) -> list[str]:
        broken = []
        for queue, sent, end in self._sealed:
            log = await _read(self._client, self._group, queue, self._history)
            broken += check(sent, {0: log}).violations
            if len(log) != end:
                broken.append(f"sealed at {end}, and it holds {len(log)}")
        return broken


class TrimActor:
    """Appends, and truncates what it appended, keeping a few."""

    def __init__(
        self, client: StoreClient, group: int, dice: random.Random, sometimes: Sometimes
    ) -> None:
        self.trimmed = Trimmed()
        self._client = client
        self._group = group
        self._queue = QueueId(os.urandom(16), 0)
        self._dice = dice
        self._sometimes = sometimes
        self._numbers = itertools.count()

    async def run(self, stopping: asyncio.Event) -> None:
        await until_done(lambda: self._client.create(self._group, self._queue))
        appender = self._client.appender(self._group, self._queue)
        while not stopping.is_set():
            payloads = [f"trim-{next(self._numbers)}" for _ in range(self._dice.randint(1, 4))]
            try:
                receipt = await appender.append(
                    encoded(*payloads), len(payloads), timeout_s=TIMEOUT_S
                )
            except StoreError:
                await asyncio.sleep(RETRY_S)
                continue
            for index, payload in enumerate(payloads):
                self.trimmed.acked[receipt.base_offset + index] = payload
            if self._dice.random() < 0.1:
                await self._truncate()
            await asyncio.sleep(0.02)
        appender.close()

    async def _truncate(self) -> None:
        trimmed = self.trimmed
        live = [o for o in trimmed.acked if o >= trimmed.first or o in trimmed.keep]
        above = [offset for offset in live if offset > trimmed.first]
        if not above:
            return
        upto = self._dice.choice(above)
        below = [offset for offset in live if offset < upto]
        keep = tuple(self._dice.sample(below, min(len(below), self._dice.randint(0, 4))))
        first = await until_done(
            lambda: self._client.truncate(self._group, self._queue, upto, keep, timeout_s=TIMEOUT_S)
        )
        assert first == upto, f"truncated to {upto}, answered {first}"
        trimmed.first, trimmed.keep = upto, keep
        self._sometimes.hit(KEPT, bool(keep))

    async def check(self) -> list[str]:
        log = await read_queue(self._client, self._group, self._queue)
        offsets = await self._client.offsets(self._group, self._queue)
        below = [offset for offset in self.trimmed.acked if offset < self.trimmed.first]
        gone = self._dice.sample(below, min(len(below), 100))
        for offset in {*self.trimmed.keep, *gone}:
            with contextlib.suppress(QueueTruncated):
                found = await self._client.fetch(self._group, self._queue, offset, 1)
                for entry in found.entries[:1]:
                    log += [one for one in messages_of(entry) if one.offset == offset]
        return check_trims(self.trimmed, offsets.first, log)
