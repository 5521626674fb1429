"""More actors of the command load: delays, counters, and an operator's small wishes."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import random
import time

from store_nodes.client import StoreClient
from store_nodes.commands import StageExtras
from store_nodes.errors import Conflict, NotDone, OutcomeUnknown, StoreError
from store_nodes.queue_id import QueueId
from tests.chaos.command_history import Delayed, check_counter, check_delays
from tests.chaos.command_support import (
    AGAIN,
    CANCELLED,
    CHECKPOINT,
    EARLY,
    HANDED,
    MOVED,
    RACED,
    RETRY_S,
    TIMEOUT_S,
    encoded,
    until_done,
)
from tests.chaos.history import CounterRead, CounterTry, History, Outcome
from tests.chaos.read_log import read_queue
from tests.chaos.sometimes import Sometimes

COUNTER = "torture"
RACERS = 2
SECOND_US = 1_000_000


class DelayActor:
    """Stages, releases (also early, and twice), cancels and reschedules."""

    def __init__(
        self, client: StoreClient, group: int, dice: random.Random, sometimes: Sometimes
    ) -> None:
        self.staged: list[Delayed] = []
        self.broken: list[str] = []
        self._waiting: dict[int, Delayed] = {}
        """The messages not known to be released or discarded, by stage number."""
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
            with contextlib.suppress(StoreError):
                payloads = [f"delay-{next(self._numbers)}" for _ in range(self._dice.randint(1, 3))]
                dues = tuple(self._now_us() + self._delay_us() for _ in payloads)
                held = self._dice.random() < 0.2
                receipt = await appender.append(
                    encoded(*payloads),
                    len(payloads),
                    StageExtras(None if held else dues),
                    timeout_s=TIMEOUT_S,
                )
                for index, payload in enumerate(payloads):
                    number = receipt.base_offset + index
                    message = Delayed(payload, number, [0 if held else dues[index]])
                    self.staged.append(message)
                    self._waiting[number] = message
                await self._change_some()
                await self._release_some()
            await asyncio.sleep(RETRY_S)
        appender.close()

    def _now_us(self) -> int:
        return self._client.log_time_us(self._group)

    def _delay_us(self) -> int:
        return self._dice.randint(SECOND_US // 5, 3 * SECOND_US)

    async def _change_some(self) -> None:
        if not self._waiting or self._dice.random() < 0.6:
            return
        number = self._dice.choice(list(self._waiting))
        message = self._waiting[number]
        if self._dice.random() < 0.5:
            message.discard_asked = True
            await self._client.discard(self._group, self._queue, [number], timeout_s=TIMEOUT_S)
            del self._waiting[number]
            self._sometimes.hit(CANCELLED)
            return
        due_us = self._now_us() + self._delay_us()
        message.dues_us.append(due_us)
        found = await self._client.reschedule(
            self._group, self._queue, [number], [due_us], timeout_s=TIMEOUT_S
        )
        # The due times before this one count no more, unless one may still be under way.
        if found and len(message.dues_us) == 2:
            message.dues_us = [due_us]
            self._sometimes.hit(MOVED)

    async def _release_some(self) -> None:
        early_us = SECOND_US // 5
        chosen = [
            number
            for number, message in self._waiting.items()
            if max(message.dues_us) <= self._now_us() + early_us
        ]
        if self.staged and self._dice.random() < 0.3:
            again = self._dice.choice(self.staged).stage_number
            chosen += [again] if again not in self._waiting else []
        if chosen:
            await self._release(chosen)

    async def _release(self, numbers: list[int]) -> None:
        offsets = await self._client.release(self._group, self._queue, numbers, timeout_s=TIMEOUT_S)
        by_number = {message.stage_number: message for message in self.staged}
        for number, offset in zip(numbers, offsets, strict=True):
            message = by_number[number]
            if offset == -1:
                self._sometimes.hit(EARLY)
                continue
            self._waiting.pop(number, None)
            if offset is None:
                if not message.discard_asked:
                    self.broken.append(f"{message} is gone")
            elif message.offset in (-1, offset):
                self._sometimes.hit(AGAIN, message.offset == offset)
                message.offset = offset
            else:
                self.broken.append(f"{message} was released again, to {offset}")

    async def check(self) -> list[str]:
        while page := (await self._client.staged(self._group, self._queue)).staged:
            # Stages without an answer are among them: they are released like the others.
            numbers = [message.stage_number for message in page]
            await self._client.release(self._group, self._queue, numbers)
            await asyncio.sleep(RETRY_S)
        states = {}
        for message in self.staged:
            found = await self._client.locate(self._group, self._queue, message.stage_number)
            states[message.stage_number] = (found.state, found.offset)
        log = await read_queue(self._client, self._group, self._queue)
        return self.broken + check_delays(self.staged, states, log)


class CounterActor:
    """Callers that race to set one counter, each to numbers that nobody else uses."""

    def __init__(
        self,
        client: StoreClient,
        group: int,
        dice: random.Random,
        sometimes: Sometimes,
        history: History,
    ) -> None:
        self.tries: list[CounterTry] = []
        self._history = history
        self._client = client
        self._group = group
        self._dice = dice
        self._sometimes = sometimes
        self._numbers = itertools.count(1)

    async def run(self, stopping: asyncio.Event) -> None:
        await asyncio.gather(*(self._race(stopping) for _ in range(RACERS)))

    async def _race(self, stopping: asyncio.Event) -> None:
        current = 0
        while not stopping.is_set():
            step = CounterTry(current, next(self._numbers), time.monotonic(), counter=COUNTER)
            self.tries.append(step)
            self._history.add(step)
            try:
                await self._client.compare_and_set(
                    self._group, COUNTER, step.expected, step.new, timeout_s=TIMEOUT_S
                )
            except Conflict as conflict:
                step.outcome, current = Outcome.NOT_DONE, conflict.current
                step.current = current
                self._sometimes.hit(RACED)
            except NotDone:
                step.outcome = Outcome.NOT_DONE
            except OutcomeUnknown:
                pass
            else:
                step.outcome, current = Outcome.ACKED, step.new
            step.answered_s = time.monotonic()
            await asyncio.sleep(self._dice.uniform(0.0, 0.1))

    async def check(self) -> list[str]:
        sent_s = time.monotonic()
        final = await self._client.counter(self._group, COUNTER)
        self._history.add(CounterRead(COUNTER, sent_s, time.monotonic(), final))
        return check_counter(self.tries, final)


class Operating:
    """Wishes for leaders and asks for checkpoints, in any group; nothing to check but that it
    disturbs nobody."""

    def __init__(self, client: StoreClient, dice: random.Random, sometimes: Sometimes) -> None:
        self._client = client
        self._dice = dice
        self._sometimes = sometimes

    async def run(self, stopping: asyncio.Event) -> None:
        while not stopping.is_set():
            await asyncio.sleep(self._dice.uniform(0.2, 1.5))
            group = self._dice.choice(self._client.groups)
            with contextlib.suppress(StoreError):
                if self._dice.random() < 0.7:
                    node = self._dice.choice([0, *self._client.nodes])
                    await self._client.transfer(group, node, timeout_s=TIMEOUT_S)
                    self._sometimes.hit(HANDED, node != 0)
                else:
                    await self._client.take_checkpoint(group, "torture", timeout_s=TIMEOUT_S)
                    self._sometimes.hit(CHECKPOINT)

    async def check(self) -> list[str]:
        return []
