"""Actors of the command load that append: with ids that are sent again, and to queues that are
truncated."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import random
import time

from store_nodes.client import StoreClient
from store_nodes.commands import DEDUP_ENTRY
from store_nodes.errors import DedupKnown, QueueTruncated, StoreError
from store_nodes.queue_id import QueueId
from tests.chaos.cluster import ChaosCluster
from tests.chaos.command_history import Keyed, Trimmed, check_ids, check_trims
from tests.chaos.command_support import (
    FINISH_S,
    KEPT,
    KNOWN,
    KNOWN_ELSEWHERE,
    REPEATED,
    RETRY_S,
    TIMEOUT_S,
    encoded,
    until_done,
)
from tests.chaos.read_log import messages_of, read_queue
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
    ) -> None:
        self.sent: list[Keyed] = []
        self._cluster = cluster
        self._client = client
        self._group = group
        self._queue = QueueId(os.urandom(16), 0)
        self._dice = dice
        self._sometimes = sometimes

    async def run(self, stopping: asyncio.Event) -> None:
        await until_done(lambda: self._client.create(self._group, self._queue))
        while not stopping.is_set():
            message = Keyed(f"id-{len(self.sent)}")
            self.sent.append(message)
            batch, id_ = encoded(message.payload), DEDUP_ENTRY.pack(0, os.urandom(16), 1)
            first_leader = await self._send_and_cut(batch, id_)
            await asyncio.sleep(self._dice.choice((0.0, 0.0, 0.3, 1.5)))
            await self._until_answered(message, batch, id_, first_leader)
            await asyncio.sleep(self._dice.uniform(0.0, 0.2))

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
            future = appender.append_nowait(batch, 1, dedup=id_)
            future.add_done_callback(lambda done: done.cancelled() or done.exception())
            await asyncio.sleep(self._dice.choice((0.0, 0.001, 0.004)))
        leader = cutter.leader(self._group)
        await cutter.close()
        return leader

    async def _until_answered(
        self, message: Keyed, batch: bytes, id_: bytes, first_leader: int | None
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
                message.offset = known.position
                leader = self._client.leader(self._group)
                self._sometimes.hit(KNOWN)
                self._sometimes.hit(
                    KNOWN_ELSEWHERE, None not in (leader, first_leader) and leader != first_leader
                )
                return
            except StoreError:
                await asyncio.sleep(RETRY_S)
            else:
                message.offset = receipt.base_offset
                self._sometimes.hit(REPEATED)
                return
            finally:
                appender.close()

    async def check(self) -> list[str]:
        return check_ids(self.sent, await read_queue(self._client, self._group, self._queue))


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
