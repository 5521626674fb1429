"""A subscription in memory, as the server keeps one, with faults that a seed decides."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import msgspec
from packetboat.errors import (
    ConnectionFailed,
    PacketboatError,
    Problem,
    UnknownOutcome,
    error_of,
)
from packetboat.models import ItemFailure, Message, Settled
from packetboat.worker.emit import Emit
from packetboat.worker.engine import Engine
from packetboat.worker.events import WorkerEvents
from packetboat.worker.handlers import Handler, Handling
from packetboat.worker.running import Stopping
from packetboat.worker.settings import WorkerSettings

PATIENCE_S = 30.0


def problem(status: int, slug: str) -> PacketboatError:
    return error_of(Problem(type=f"https://x/{slug}", status=status, title=slug))


def ids_of(messages: Sequence[Message]) -> list[str]:
    return [message.ack_id or "" for message in messages]


@dataclass
class Lease:
    delivery: str = "at_least_once"
    ack_deadline_seconds: float = 30.0


@dataclass
class Stored:
    """One message, and what was said of it."""

    number: int
    key: str | None
    data: Any
    attempt: int = 0
    ack_id: str | None = None
    lease_end_s: float = 0.0
    settled: bool = False


@dataclass
class FakeSubscription:
    """Calls of a worker; `log` has (verb, message numbers, more)."""

    lease: Lease = field(default_factory=Lease)
    dice: random.Random = field(default_factory=lambda: random.Random(1))
    lost_answers: float = 0.0
    refusals: float = 0.0
    slow_s: float = 0.0
    down: bool = False
    refuse: dict[str, PacketboatError] = field(default_factory=dict)
    dead_letter_topic: bool = True
    attributes: dict[str, str] = field(default_factory=dict)
    busy_acks: int = 0
    """The number of acks that still answer 503 for each of their items."""

    def __post_init__(self) -> None:
        self.stored: list[Stored] = []
        self.log: list[tuple[str, list[int], Any]] = []
        self.outputs: list[Emit] = []
        self.most_leased = 0
        self._ids = itertools.count(1)
        self._came = asyncio.Event()
        self.acks_pass = asyncio.Event()
        self.acks_pass.set()

    def add(self, *data: Any, key: str | None = None) -> None:
        for each in data:
            self.stored.append(Stored(len(self.stored), key, each))
        self._came.set()

    def said(self, verb: str) -> list[int]:
        """Return the numbers of the messages for which `verb` was called, in order."""
        return [number for said, numbers, _ in self.log if said == verb for number in numbers]

    def open(self) -> list[int]:
        return [each.number for each in self.stored if not each.settled]

    def leased(self) -> list[Stored]:
        now_s = self._now()
        return [s for s in self.stored if not s.settled and s.ack_id and s.lease_end_s > now_s]

    def end_lease(self, number: int) -> None:
        """As after a takeover: it is handed out again at once."""
        self.stored[number].lease_end_s = 0.0
        self._came.set()

    async def describe(self) -> Lease:
        await self._fault("describe")
        return self.lease

    async def pull(self, max_messages: int, max_bytes: int, wait_seconds: float) -> list[Message]:
        await self._fault("pull")
        deadline_s = self._now() + wait_seconds
        while not (found := self._hand_out(max_messages, max_bytes)) and self._now() < deadline_s:
            self._came.clear()
            with suppress(TimeoutError):
                async with asyncio.timeout(0.02):
                    await self._came.wait()
            if self.down or "pull" in self.refuse:
                raise UnknownOutcome("cut off")
        self._lose_answer()
        return found

    @asynccontextmanager
    async def stream(
        self, max_messages: int, max_bytes: int, max_seconds: float
    ) -> AsyncIterator[AsyncIterator[list[Message]]]:
        await self._fault("stream")
        yield self._stream(max_messages, max_bytes, max_seconds)

    async def _stream(
        self, most: int, most_bytes: int, max_seconds: float
    ) -> AsyncIterator[list[Message]]:
        end_s = self._now() + max_seconds
        given: list[Stored] = []
        while self._now() < end_s:
            now_s = self._now()
            given = [s for s in given if not s.settled and s.ack_id and s.lease_end_s > now_s]
            if found := self._hand_out(most - len(given), most_bytes):
                given += [self.stored[int(message.message_id)] for message in found]
                yield found
            await asyncio.sleep(0.002)
            if self.down:
                raise UnknownOutcome("cut off")

    async def ack(self, messages: Sequence[Message], publish: Sequence[Emit] = ()) -> Settled:
        ids = ids_of(messages)
        await self._fault("ack")
        await self.acks_pass.wait()
        if self.busy_acks:
            self.busy_acks -= 1
            kind = "https://x/store-unavailable"
            return Settled(0, tuple(ItemFailure(i, 503, kind) for i in range(len(ids))))
        known = [self._by_ack_id(ack_id) for ack_id in ids]
        if self.lease.delivery == "exactly_once":
            failures = [i for i, s in enumerate(known) if not s.settled and s.ack_id != ids[i]]
        else:
            failures = []
        if publish and failures:
            raise problem(409, "lease-expired")
        done = [s for i, s in enumerate(known) if i not in failures]
        if publish and not done[0].settled:
            self.outputs += publish
        return self._done("ack", done, failures, settle=True)

    async def nack(
        self, messages: Sequence[Message], delay_s: float | None, reason: str | None
    ) -> Settled:
        return await self._give_back("nack", messages, reason if delay_s is None else delay_s)

    async def reject(self, messages: Sequence[Message], reason: str | None) -> Settled:
        if not self.dead_letter_topic:
            raise problem(409, "no-dead-letter-topic")
        return await self._give_back("reject", messages, reason, settle=True)

    async def release(self, messages: Sequence[Message]) -> Settled:
        return await self._give_back("release", messages, None)

    async def extend(self, messages: Sequence[Message], seconds: float) -> Settled:
        await self._fault("extend")
        good, bad = self._present(ids_of(messages))
        for stored in good:
            stored.lease_end_s = self._now() + seconds
        return self._done("extend", good, bad, seconds)

    async def _give_back(
        self, verb: str, messages: Sequence[Message], more: Any, *, settle: bool = False
    ) -> Settled:
        await self._fault(verb)
        good, bad = self._present(ids_of(messages))
        for stored in good:
            stored.ack_id = None
            stored.attempt -= verb == "release"
        self._came.set()
        return self._done(verb, good, bad, more, settle=settle)

    def _present(self, ids: Sequence[str]) -> tuple[list[Stored], list[int]]:
        good, bad = [], []
        for index, ack_id in enumerate(ids):
            stored = self._by_ack_id(ack_id)
            over = stored.settled or stored.lease_end_s <= self._now() or stored.ack_id != ack_id
            bad.append(index) if over else good.append(stored)
        return good, bad

    def _done(
        self,
        verb: str,
        done: list[Stored],
        failed: list[int],
        more: Any = None,
        *,
        settle: bool = False,
    ) -> Settled:
        for stored in done:
            stored.settled = stored.settled or settle
        self.log.append((verb, [stored.number for stored in done], more))
        self._lose_answer()
        kind = "https://x/lease-expired"
        return Settled(len(done), tuple(ItemFailure(index, 409, kind) for index in failed))

    def _hand_out(self, most: int, most_bytes: int) -> list[Message]:
        """One is always given."""
        now_s = self._now()
        found = []
        for stored in self.stored:
            if len(found) >= most or (found and most_bytes <= 0):
                break
            if not stored.settled and (not stored.ack_id or stored.lease_end_s <= now_s):
                found.append(self._leased(stored, now_s))
                most_bytes -= len(bytes(found[-1].data))
        self.most_leased = max(self.most_leased, len(self.leased()))
        return found

    def _leased(self, stored: Stored, now_s: float) -> Message:
        stored.attempt += 1
        stored.ack_id = f"{stored.number}/{next(self._ids)}"
        stored.lease_end_s = now_s + self.lease.ack_deadline_seconds
        at_most_once = self.lease.delivery == "at_most_once"
        stored.settled = at_most_once
        return Message(
            message_id=str(stored.number),
            ack_id=None if at_most_once else stored.ack_id,
            publish_time=datetime.now(UTC),
            partition=0,
            offset=stored.number,
            data=msgspec.Raw(msgspec.json.encode(stored.data)),
            content_type="application/json",
            key=stored.key,
            attempt=stored.attempt,
            attributes=self.attributes,
        )

    def _by_ack_id(self, ack_id: str) -> Stored:
        return self.stored[int(ack_id.partition("/")[0])]

    async def _fault(self, call: str) -> None:
        if self.slow_s:
            await asyncio.sleep(self.dice.uniform(0, self.slow_s))
        if self.down:
            raise ConnectionFailed("nobody listens")
        if call in self.refuse:
            raise self.refuse[call]
        if self.dice.random() < self.refusals:
            raise problem(503, "store-unavailable")

    def _lose_answer(self) -> None:
        if self.dice.random() < self.lost_answers:
            raise UnknownOutcome("the answer did not come")

    def _now(self) -> float:
        return asyncio.get_running_loop().time()


class Running:
    """A worker at work on a fake subscription. A context manager, which stops it at its end."""

    def __init__(
        self,
        fake: FakeSubscription,
        handler: Handler,
        *,
        body: Any = None,
        middleware: Sequence[Any] = (),
        events: WorkerEvents | None = None,
        **options: Any,
    ) -> None:
        self.fake = fake
        settings = WorkerSettings(**options)
        handling = Handling(
            handler,
            batches=settings.batch_size > 1,
            body=body,
            middleware=middleware,
            threads=settings.concurrency,
        )
        self.stopping = Stopping()
        self._engine = Engine(
            fake, "orders", settings, handling, events or WorkerEvents(), self.stopping
        )
        self.task: asyncio.Task[None]

    async def __aenter__(self) -> Running:
        self.task = asyncio.create_task(self._engine.run())
        return self

    async def __aexit__(self, *_: object) -> None:
        if not self.task.done():
            await self.stop()

    async def stop(self) -> None:
        """Stop the worker, and raise the error that it raises; call this once."""
        self.stopping.ask()
        async with asyncio.timeout(PATIENCE_S):
            await self.task

    async def until(self, done: Callable[[], Any]) -> None:
        """Only a test that fails waits for the end."""
        async with asyncio.timeout(PATIENCE_S):
            while not done():
                if self.task.done():
                    self.task.result()
                await asyncio.sleep(0.002)

    async def until_settled(self) -> None:
        await self.until(lambda: not self.fake.open())
