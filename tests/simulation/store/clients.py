"""The load: writers, readers, and a director who seals queues, moves them on and truncates them,
asks for checkpoints and wishes for leaders.

All of it is the product's client, each in a process on a machine of its own. Its answers
go to the oracle, and nothing else does.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from hashlib import blake2b
from typing import Any

from store_nodes.admin import AdminError, Operator
from store_nodes.admin.groups import add_groups
from store_nodes.admin.members import replace_node
from store_nodes.client import Appender, Entry, StoreClient
from store_nodes.commands import DEDUP_ENTRY, StageExtras
from store_nodes.errors import (
    DedupKnown,
    NotDone,
    OutcomeUnknown,
    QueueNotFound,
    QueueSealed,
    QueueTruncated,
    StoreError,
)
from store_nodes.queue_id import QueueId
from store_nodes.record_batch import Message, decode, encode
from tests.simulation.kernel.loop import run
from tests.simulation.kernel.world import Process, World
from tests.simulation.store.cluster import (
    CHECKPOINTS,
    CLUSTER_UID,
    PORT,
    SECRET,
    Cluster,
    host_of,
)
from tests.simulation.store.options import Options
from tests.simulation.store.oracle import Book, Oracle

READER = "reader"
"""The machine of the reader."""
FETCH_BYTES = 64 * 1024
GROW_S = 200.0
MAKING_US = 1_000_000
NEVER_US = 1 << 60
PAGE = 1000
STAGED_LATELY = 10
TRIES = 8
"""The number of times that a message with an id is sent anew at most."""
REMEMBERED = 50
DISCARD, RESCHEDULE = 0.3, 0.3
"""Shares of the staged batches of which one message is dropped, and whose times are moved."""
ASK_S = 4.0
KEPT = 3
"""The limit of offsets below a truncation that stay."""


class Load:
    """Runs from `start` until `stop` is asked for."""

    def __init__(self, cluster: Cluster, oracle: Oracle) -> None:
        self.cluster = cluster
        self.world: World = cluster.world
        self.options: Options = cluster.options
        self.oracle = oracle
        self.open: list[Book] = []
        """Queues that are written to."""
        self.groups = self.options.groups
        self.stopping = False
        self.processes: list[Process] = []
        self._made = 0
        self._stored: deque[tuple[Book, list[str], int, bool]] = deque(maxlen=REMEMBERED)
        """Messages with ids that are stored: where, and whether they were staged."""
        self._changed: Book | None = None
        """The queue of which a message was staged or released last, as answered."""

    def start(self) -> None:
        """The director makes the queues; the other clients begin once they are there."""
        programs = [("director", self._direct), (READER, self._read)]
        programs += [(f"client-{number}", self._write) for number in range(self.options.clients)]
        for name, work in programs:
            machine = self.world.machine(name)
            self.processes.append(
                machine.spawn(name, lambda process, work=work: run(process, work(process.name)))
            )

    @property
    def done(self) -> bool:
        return all(process.dead for process in self.processes)

    def client(self) -> StoreClient:
        return StoreClient(
            self.cluster.peers,
            groups=range(self.options.groups),
            secret=SECRET,
            cluster_uid=CLUSTER_UID,
        )

    # -- writers -------------------------------------------------------------------------------

    async def _write(self, name: str) -> int:
        client = await self._started()
        async with asyncio.TaskGroup() as tasks:
            for number in range(self.options.writers):
                tasks.create_task(self._publish(client, f"{name}.{number}"))
        await client.close()
        return 0

    async def _started(self) -> StoreClient:
        """A client, once there are queues."""
        client = self.client()
        await client.start()
        while len(self.open) < self.options.queues:
            await asyncio.sleep(0.05)
        return client

    async def _publish(self, client: StoreClient, name: str) -> None:
        rng, options = self.world.rng, self.options
        number = 0
        while not self.stopping:
            await asyncio.sleep(rng.random() * options.think_ms / 500)
            book = rng.choice(self.open)
            appender = client.appender(book.group, book.queue)
            session = f"{name}/{number}"
            under_way = []
            for _ in range(1 + self.world.below(3)):
                for _ in range(1 + self.world.below(options.window)):
                    ids = [f"{name}-{number + index}" for index in range(1 + self.world.below(3))]
                    number += len(ids)
                    identified = self.world.chance(options.dedup)
                    if self.world.chance(options.stage):
                        work = self._stage(client, appender, book, ids, identified)
                    else:
                        self.oracle.begins(book, session, ids)
                        work = self._append(client, appender, book, ids, identified)
                    under_way.append(asyncio.create_task(work))
                    await asyncio.sleep(0)
                await asyncio.sleep(rng.random() * options.think_ms / 1000)
            await asyncio.gather(*under_way)
            if self._stored:
                await self._repeat(client)
            if book.sealed_at is not None or not appender.idle:
                continue

    async def _append(
        self, client: StoreClient, appender: Appender, book: Book, ids: list[str], identified: bool
    ) -> None:
        offset = await self._store(client, appender, book, ids, identified)
        if offset is not None:
            self.oracle.acks(book, ids, offset)

    async def _store(
        self,
        client: StoreClient,
        appender: Appender,
        book: Book,
        ids: list[str],
        identified: bool,
        due_us: tuple[int, ...] | None = None,
    ) -> int | None:
        """The first offset, or stage number where there are due times; None where they are not
        stored or nobody knows. Where the messages have ids, they are sent until it is known."""
        batch, dedup = self._batch(ids, identified)
        for attempt in range(TRIES):
            try:
                receipt = await appender.append(
                    batch,
                    len(ids),
                    None if due_us is None else StageExtras(due_us),
                    timeout_s=self.options.append_timeout_s,
                    dedup=dedup,
                )
            except DedupKnown as error:
                assert attempt, f"{ids} are known, and were never sent"
                base = self._known(book, ids, error, staged=due_us is not None)
            except NotDone as error:
                if isinstance(error, QueueSealed):
                    self.oracle.sealed(book, error.offset)
                if attempt == 0:
                    self.oracle.refuses(book, ids)
                return None
            except OutcomeUnknown:
                self.world.hit("outcome unknown")
                if not identified or self.stopping:
                    return None
                # A new session: where it comes to stand is not said by the order of the first.
                appender = client.appender(book.group, book.queue)
                for order in book.order.values():
                    if ids[0] in order:
                        order[:] = [one for one in order if one not in ids]
                continue
            else:
                if attempt:
                    self.world.hit("stored at a later try")
                base = receipt.base_offset
            if identified:
                self._stored.append((book, ids, base, due_us is not None))
            return base
        return None

    async def _repeat(self, client: StoreClient) -> None:
        """Send a stored message once more, as a publisher does that does not know that it
        is stored.
        """
        book, ids, base, staged = self.world.rng.choice(self._stored)
        batch, dedup = self._batch(ids, True)
        appender = client.appender(book.group, book.queue)
        try:
            receipt = await appender.append(
                batch, len(ids), timeout_s=self.options.append_timeout_s, dedup=dedup
            )
        except DedupKnown as error:
            known = self._known(book, ids, error, staged=staged)
            if known != base:
                self.oracle.fail(f"{ids} are at {base}, and known at {known}")
        except StoreError:
            return
        else:
            self.oracle.fail(f"{ids} are at {base}, and stored again at {receipt.base_offset}")

    def _known(self, book: Book, ids: list[str], error: DedupKnown, *, staged: bool) -> int:
        """Return where the first of them is; the others follow it."""
        self.world.hit("known id refused")
        base = min(known.position for known in error.known.values())
        for index in range(len(ids)):
            known = error.known.get(index)
            place = (book.queue.pack(), base + index, staged, True)
            if (
                known is None
                or (known.queue, known.position, known.staged, known.same_body) != place
            ):
                self.oracle.fail(f"{ids} are known by halves: {error.known}")
        return base

    async def _stage(
        self, client: StoreClient, appender: Appender, book: Book, ids: list[str], identified: bool
    ) -> None:
        """Stage a message, perhaps change it, and release it after a while; until the
        outcome is known.
        """
        now_us = client.log_time_us(book.group)
        due_us = tuple(now_us + self.world.below(300_000) for _ in ids)
        base = await self._store(client, appender, book, ids, identified, due_us)
        if base is None:
            return
        self.world.hit("staged")
        book.due_us.update(zip(ids, due_us, strict=True))
        waiting = dict(enumerate(ids, base))
        book.staged |= dict.fromkeys(waiting)
        self._changed = book
        dropped = await self._discard(client, book, waiting)
        await self._reschedule(client, book, waiting, dropped)
        certain = True
        while waiting:
            await asyncio.sleep(0.1 + self.world.rng.random() / 2)
            book.asked.update(waiting)
            try:
                offsets = await client.release(book.group, book.queue, list(waiting), timeout_s=5)
            except QueueSealed as error:
                self.oracle.sealed(book, error.offset)
                return
            except StoreError:
                certain = False
                continue
            for number, offset in zip(list(waiting), offsets, strict=True):
                if offset is not None and offset >= 0:
                    self.oracle.acks(book, [waiting[number]], offset)
                    book.staged[number] = offset
                    self._changed = book
                elif offset is None and certain and number not in dropped:
                    self.oracle.fail(f"{book.queue}: {waiting[number]} is staged, and said gone")
                if offset is None or offset >= 0:
                    del waiting[number]
                    self.world.hit("released")

    async def _discard(
        self, client: StoreClient, book: Book, waiting: Mapping[int, str]
    ) -> dict[int, bool]:
        """Perhaps drop one of them; its number, and whether that is sure."""
        if not self.world.chance(DISCARD):
            return {}
        number = self.world.rng.choice(list(waiting))
        book.asked.add(number)
        try:
            # None where the answer is of its second transmission.
            await client.discard(book.group, book.queue, [number], timeout_s=5)
        except StoreError:
            return {number: False}
        self.oracle.refuses(book, [waiting[number]])
        self.world.hit("discarded")
        return {number: True}

    async def _reschedule(
        self,
        client: StoreClient,
        book: Book,
        waiting: Mapping[int, str],
        dropped: Mapping[int, bool],
    ) -> None:
        """Perhaps move the times of all, once: a repetition that comes late says the same."""
        if not self.world.chance(RESCHEDULE):
            return
        due_us = client.log_time_us(book.group) + self.world.below(1_000_000)
        try:
            moved = await client.reschedule(
                book.group, book.queue, list(waiting), [due_us] * len(waiting), timeout_s=5
            )
        except StoreError:
            for one in waiting.values():
                book.due_us[one] = min(due_us, book.due_us[one])
            return
        book.rescheduled += moved
        if all(dropped.values()) and moved != len(waiting) - len(dropped):
            self.oracle.fail(f"{book.queue}: {moved} of {waiting} rescheduled, {dropped} dropped")
        book.due_us.update(dict.fromkeys(waiting.values(), due_us))
        self.world.hit("rescheduled")

    def _batch(self, ids: list[str], identified: bool) -> tuple[bytes, bytes]:
        size = 1 + self.world.below(self.options.body_bytes)
        batch = encode([Message(one.encode().ljust(size, b" ")) for one in ids], 1)
        if not identified:
            return batch, b""
        entries = [
            DEDUP_ENTRY.pack(index, blake2b(one.encode(), digest_size=16).digest(), 1)
            for index, one in enumerate(ids)
        ]
        return batch, b"".join(entries)

    # -- readers -------------------------------------------------------------------------------

    async def _read(self, name: str) -> int:
        """A client of its own: what it knows of leaders may be older than what writers do."""
        client = await self._started()
        rng, options = self.world.rng, self.options
        for book in self.open:
            watch = client.watch(book.group, lambda queues: self.world.hit("change told"))
            watch.add(book.queue)
        confirmed = (
            self._offsets,
            self._offset_at,
            self._queues,
            self._staged,
            self._staged_changes,
            self._locate,
        )
        # Each by itself: one that waits for a confirmation keeps no other from being asked.
        asking = [asyncio.create_task(self._ask_for(client, call)) for call in confirmed]
        while not self.stopping:
            await asyncio.sleep(rng.random() * options.read_ms / 500)
            book = rng.choice(list(self.oracle.books.values()))
            node = rng.choice([None, *self.cluster.ids])
            start = self.world.below(book.end + 1)
            try:
                found = await client.fetch(
                    book.group, book.queue, start, FETCH_BYTES, node=node, timeout_s=2
                )
            except StoreError:
                continue
            self.oracle.reads_at(book, messages_of(found.entries), node)
        await asyncio.gather(*asking)
        await client.close()
        return 0

    async def _ask_for(
        self, client: StoreClient, call: Callable[[StoreClient, Book], Awaitable[None]]
    ) -> None:
        """Make one kind of confirmed read, of one queue after the other.

        It reads mostly the queue that changed last, since an answer of before shows there.
        """
        while not self.stopping:
            await asyncio.sleep(self.world.rng.random() * self.options.read_ms / 150)
            book = self._changed
            if book is None or self.world.chance(0.3):
                book = self.world.rng.choice(list(self.oracle.books.values()))
            await call(client, book)

    async def _offsets(self, client: StoreClient, book: Book) -> None:
        known = self.oracle.known(book)
        with suppress(StoreError):
            found = await client.offsets(book.group, book.queue, timeout_s=2)
            self.oracle.ends_at(book, known, found.end, "offsets")
            self.oracle.has_changed(book, known, found.stage_changes, "offsets")

    async def _offset_at(self, client: StoreClient, book: Book) -> None:
        """Ask for the offset of a time that never comes: that is the end."""
        known = self.oracle.known(book)
        with suppress(StoreError):
            end = await client.offset_at(book.group, book.queue, NEVER_US, timeout_s=2)
            self.oracle.ends_at(book, known, end, "offset_at")

    async def _queues(self, client: StoreClient, book: Book) -> None:
        books = [one for one in self.oracle.books.values() if one.group == book.group]
        known = [self.oracle.known(one) for one in books]
        with suppress(StoreError):
            found = await client.queues(book.group, timeout_s=2)
            ends = {info.queue: info.end for info in found}
            for one, before in zip(books, known, strict=True):
                end = ends.get(one.queue.pack())
                if end is None:
                    self.oracle.fail(f"{one.queue} was made, and is not listed later")
                self.oracle.ends_at(one, before, end, "queues")

    async def _staged(self, client: StoreClient, book: Book) -> None:
        known = self.oracle.known(book)
        with suppress(StoreError):
            page = await client.staged(book.group, book.queue, limit=PAGE, timeout_s=2)
            numbers = {info.stage_number for info in page.staged}
            self.oracle.lists_staged(book, known, numbers, whole=len(page.staged) < PAGE)
            self.oracle.has_changed(book, known, page.changes, "staged")

    async def _staged_changes(self, client: StoreClient, book: Book) -> None:
        known = self.oracle.known(book)
        with suppress(StoreError):
            page = await client.staged_changes(book.group, book.queue, 0, timeout_s=2)
            numbers = {info.stage_number for info in page.staged}
            self.oracle.lists_staged(book, known, numbers, whole=False)
            self.oracle.has_changed(book, known, page.changes, "staged_changes")

    async def _locate(self, client: StoreClient, book: Book) -> None:
        """Locate the latest staged message, or any."""
        known = self.oracle.known(book)
        if not known.staged:
            return
        latest = [*known.staged][-STAGED_LATELY:]
        number = self.world.rng.choice(latest)
        with suppress(StoreError):
            found = await client.locate(book.group, book.queue, number, timeout_s=2)
            self.oracle.is_located(book, known, number, found.state, found.offset)

    async def whole(self, client: StoreClient, book: Book, node: int) -> None:
        """Read all that a node has of the queue, and have it checked."""
        offset = first = book.first
        found: list[tuple[int, str]] = []
        while True:
            try:
                page = await client.fetch(
                    book.group, book.queue, offset, FETCH_BYTES, node=node, timeout_s=20
                )
            except QueueTruncated as error:
                if error.first_offset <= offset:
                    self.oracle.fail(f"{book.queue}: {offset} is not below {error.first_offset}")
                offset = first = error.first_offset
                found.clear()
                continue
            if not page.entries:
                break
            read = messages_of(page.entries)
            for entry in page.entries:
                for _, one in messages_of([entry]):
                    self.oracle.stamped(book, one, entry.log_time_us)
            found += [one for one in read if one[0] >= offset]
            offset = read[-1][0] + 1
        self.oracle.whole(book, node, first, found)
        for kept in book.kept:
            try:
                page = await client.fetch(
                    book.group, book.queue, kept, FETCH_BYTES, node=node, timeout_s=20
                )
            except QueueTruncated as error:
                self.oracle.fail(f"{book.queue}: {kept} is kept, and node {node} says {error}")
            found = [one for one in messages_of(page.entries) if one[0] == kept]
            if not found:
                self.oracle.fail(f"{book.queue}: {kept} is kept, and node {node} lacks it")
            self.oracle.reads_at(book, found, node)

    # -- the director --------------------------------------------------------------------------

    async def _direct(self, name: str) -> int:
        options = self.options
        client = self.client()
        await client.start()
        for number in range(options.queues):
            self.open.append(await self._make(client, number % options.groups))
        async with asyncio.TaskGroup() as tasks:
            if options.seal_every_s:
                tasks.create_task(self._seal(client))
            if options.truncate_every_s:
                tasks.create_task(self._truncate(client))
            if options.grow:
                tasks.create_task(self._grow(client))
            tasks.create_task(self._count(client))
            tasks.create_task(self._ask(client))
        await client.close()
        return 0

    async def _make(self, client: StoreClient, group: int) -> Book:
        self._made += 1
        queue = QueueId(os.urandom(16), self._made)
        while True:
            try:
                await client.create(group, queue, timeout_s=5)
                return self.oracle.book(group, queue)
            except StoreError:
                await asyncio.sleep(0.2)

    async def _seal(self, client: StoreClient) -> None:
        """A queue moves on: to one, or two, in other groups."""
        while not self.stopping:
            await asyncio.sleep(self.world.rng.random() * 2 * self.options.seal_every_s)
            book = self.world.rng.choice(self.open)
            group = self.world.below(self.groups)
            successors = [await self._make(client, group) for _ in range(1 + self.world.below(2))]
            named = [(one.group, one.queue) for one in successors]
            while True:
                try:
                    end = await client.seal(book.group, book.queue, named, timeout_s=5)
                except QueueSealed as error:
                    end = error.offset
                except StoreError:
                    await asyncio.sleep(0.2)
                    continue
                break
            self.oracle.sealed(book, end)
            self.world.hit("queue sealed")
            self.open.remove(book)
            self.open += successors

    async def _grow(self, client: StoreClient) -> None:
        """A group is added while everything else goes on; moves may go there afterwards."""
        await asyncio.sleep(self.world.rng.random() * self.options.safety_s)
        operator = Operator(client, timeout_s=GROW_S)

        async def draft() -> None:
            while True:
                with suppress(StoreError):
                    await client.take_checkpoint(0, "a group is added", timeout_s=2)
                await asyncio.sleep(0.3)

        drafting = asyncio.create_task(draft())
        # As long as a disk takes to make a checkpoint's file, its draft and what it copies of group
        # 0 are apart.
        for node in self.cluster.ids:
            self.cluster.machine(node).files.making_us[str(CHECKPOINTS)] = MAKING_US
        await asyncio.sleep(1 + 2 * self.world.rng.random())
        while True:
            try:
                self.groups = await add_groups(operator, self.options.groups + 1)
                break
            except (StoreError, AdminError) as error:
                self.world.note("no group added", repr(error))
                await asyncio.sleep(1)
        drafting.cancel()
        self.world.hit("group added")
        for node in self.cluster.ids:
            self.cluster.machine(node).files.making_us.clear()

    def replace(self, old: int, new: int) -> None:
        """An operator puts `new` where `old` was, in a process of its own."""

        async def work() -> int:
            client = self.client()
            await client.start()
            operator = Operator(client, timeout_s=GROW_S)
            while True:
                try:
                    await replace_node(operator, old, new, f"{host_of(new)}:{PORT}")
                    break
                except (StoreError, AdminError) as error:
                    # It looked when no node answered, or when too few did; it may be repeated.
                    self.world.note("not replaced", repr(error))
                    await asyncio.sleep(1)
            self.world.hit("node replaced")
            await client.close()
            return 0

        machine = self.world.machine("operator")
        self.processes.append(machine.spawn("operator", lambda process: run(process, work())))

    async def _truncate(self, client: StoreClient) -> None:
        while not self.stopping:
            await asyncio.sleep(self.world.rng.random() * 2 * self.options.truncate_every_s)
            book = self.world.rng.choice(list(self.oracle.books.values()))
            upto = self.world.below(book.end + 1)
            if upto <= book.first:
                continue
            keep = sorted({self.world.below(upto) for _ in range(self.world.below(KEPT + 1))})
            # At least as many of the readable messages stay, whether it takes effect or not.
            book.kept = [one for one in keep if one >= book.first or one in book.kept]
            book.first = upto
            try:
                await client.truncate(book.group, book.queue, upto, keep, timeout_s=3)
            except StoreError:
                continue
            self.world.hit("queue truncated around what is kept" if keep else "queue truncated")

    async def _ask(self, client: StoreClient) -> None:
        """Ask for checkpoints beside those that are due, and leaders elsewhere."""
        while not self.stopping:
            await asyncio.sleep(self.world.rng.random() * 2 * ASK_S)
            group = self.world.below(self.groups)
            try:
                if self.world.chance(0.5):
                    await client.take_checkpoint(group, timeout_s=3)
                    self.world.hit("checkpoint asked for")
                else:
                    node = self.world.rng.choice([0, *self.cluster.ids])
                    await client.transfer(group, node, timeout_s=3)
                    self.world.hit("leader wished for")
            except StoreError:
                continue

    async def _count(self, client: StoreClient) -> None:
        """A counter that only this client sets: it is what it was last set to, or was to be."""
        held, wanted = 0, 0
        while not self.stopping:
            await asyncio.sleep(self.world.rng.random() * 2)
            try:
                now = await client.counter(0, "simulated", timeout_s=2)
            except StoreError:
                continue
            if now not in (held, wanted):
                self.oracle.fail(f"the counter is {now}, not {held} or {wanted}")
            held, wanted = now, now + 1
            try:
                held = await client.compare_and_set(0, "simulated", now, wanted, timeout_s=2)
            except OutcomeUnknown:
                continue
            except NotDone:
                wanted = held
                continue
            if held != wanted:
                self.oracle.fail(f"the counter was set to {held}, not {wanted}")

    # -- the end -------------------------------------------------------------------------------

    def check_all(self, nodes: list[int]) -> Process:
        """A client that waits until every queue takes messages again and every node has all, and
        reads all of it, in a process of its own."""

        async def check() -> int:
            client = self.client()
            await client.start()
            while len(client.groups) < self.groups:
                await asyncio.sleep(0.1)
            for group in client.groups:
                probe = await self._make(client, group)
                appender = client.appender(group, probe.queue)
                while True:
                    ids = [f"probe-{self._made}"]
                    self._made += 1
                    batch, _ = self._batch(ids, False)
                    self.oracle.begins(probe, "probe", ids)
                    try:
                        receipt = await appender.append(batch, 1, timeout_s=5)
                    except OutcomeUnknown:
                        continue
                    except NotDone:
                        self.oracle.refuses(probe, ids)
                        await asyncio.sleep(0.2)
                        continue
                    self.oracle.acks(probe, ids, receipt.base_offset)
                    break
            for node in nodes:
                await self._until_level(client, node)
                self.world.note("level", node)
                for book in list(self.oracle.books.values()):
                    await self._whole(client, book, node)
            await client.close()
            return 0

        machine = self.world.machine("checker")
        return machine.spawn("checker", lambda process: run(process, check()))

    async def _whole(self, client: StoreClient, book: Book, node: int) -> None:
        while True:
            try:
                await self.whole(client, book, node)
                return
            except QueueNotFound:
                if not book.acked:
                    return
                raise
            except StoreError as error:
                self.world.note("not read", node, book.group, book.queue, repr(error))
                await asyncio.sleep(0.3)

    async def _until_level(self, client: StoreClient, node: int) -> None:
        """Wait until the node has repaired and installed all it lacked, and applied all
        there is.
        """
        while True:
            try:
                statuses = await client.status(timeout_s=2)
            except StoreError:
                statuses = {}
            mine = statuses.get(node, {})
            rows = mine.get("groups")
            if isinstance(rows, list) and not mine.get("damaged") and not mine.get("installing"):
                most: dict[int, int] = {}
                for status in statuses.values():
                    others = status.get("groups")
                    for row in others if isinstance(others, list) else []:
                        most[row["group"]] = max(row["applied"], most.get(row["group"], 0))
                if all(row["applied"] >= most[row["group"]] for row in rows):
                    return
            self.world.note("not level", node, _progress(statuses))
            await asyncio.sleep(0.3)


def _progress(statuses: Mapping[int, Mapping[str, Any]]) -> str:
    """Return the lacks of each node, and how far its groups are."""
    told = []
    for node, status in statuses.items():
        lacks = status.get("error") or status.get("damaged") or status.get("installing")
        rows = [(row["group"], row["leader"], row["applied"]) for row in status.get("groups", ())]
        told.append(f"{node}: {lacks} {rows}")
    return "; ".join(told)


def messages_of(entries: list[Entry]) -> list[tuple[int, str]]:
    """Return (offset, id) of each message of fetched entries."""
    found: list[tuple[int, str]] = []
    for entry in entries:
        messages = decode(entry.batch)
        if entry.indices is not None:
            messages = [messages[index] for index in entry.indices]
        found += [
            (offset, bytes(message.data).decode().rstrip())
            for offset, message in enumerate(messages, entry.base_offset)
        ]
    return found
