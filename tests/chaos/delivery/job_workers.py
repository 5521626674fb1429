"""Workers of the job load.

They claim in batches and complete, fail, release, split, extend, come too late, or die over it; a
lost request is sent again under the same lease.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Mapping, Sequence
from typing import Any

from tests.chaos.delivery import job_plans
from tests.chaos.delivery.caller import PAUSE_S, Caller
from tests.chaos.delivery.job_book import MARGIN_S, Book, Held
from tests.chaos.delivery.job_calls import digest, outputs_of, start
from tests.chaos.delivery.job_plans import FLAKY, HOPELESS, NARROW, SPLIT, WIDE
from tests.chaos.sometimes import Sometimes

TWICE = "a completion was repeated with another output, which changed nothing"
SENT_AGAIN = "a completion whose answer was lost was sent again"
LATE = "a completion under a lease that was over was refused"
AGAIN = "a task came again"
RELEASED = "a task was released"
EXTENDED = "a lease was extended"
NESTED = "a task waited for a job of its own"
TOLD = "a worker was told that a job had ended"
SITUATIONS = (TWICE, SENT_AGAIN, LATE, AGAIN, RELEASED, EXTENDED, NESTED, TOLD)

LEASE_S = 1.5
SEND_AGAIN_S = 60.0


class JobWorker:
    """A worker of the job load."""

    def __init__(
        self, caller: Caller, dice: random.Random, book: Book, sometimes: Sometimes
    ) -> None:
        self._caller = caller
        self._dice = dice
        self._book = book
        self._sometimes = sometimes

    async def work(self, finished: asyncio.Event) -> None:
        while not finished.is_set():
            tasks = await self._claim()
            if tasks and self._dice.random() > 0.04:  # else it died over them
                await self._handle(tasks)
        self._caller.close()

    async def _claim(self) -> list[tuple[Held, Mapping[str, Any]]]:
        pool = self._dice.choice([NARROW, WIDE])
        wanted = {
            "kinds": [job_plans.MAP, job_plans.REDUCE],
            "max_tasks": self._dice.randint(1, 12),
            "wait_seconds": 0.3,
            "lease_seconds": LEASE_S,
        }
        reply = await self._caller.call("POST", f"/pools/{pool}:claim", wanted)
        if not reply.ok:
            await asyncio.sleep(PAUSE_S)
            return []
        got_s = time.monotonic()
        tasks = []
        for each in reply.body["tasks"]:
            held = Held(
                *(each["lease_id"], each["job"], pool),
                *(got_s, reply.sent_s + LEASE_S, got_s + LEASE_S),
            )
            self._book.granted(held, reply.sent_s)
            self._sometimes.hit(AGAIN, each["attempt"] > 1)
            tasks.append((held, each))
        return tasks

    async def _handle(self, tasks: Sequence[tuple[Held, Mapping[str, Any]]]) -> None:
        chance = self._dice.random()
        helds = [held for held, _ in tasks]
        if chance < 0.08:
            await self._release(helds)
            return
        if chance < 0.25:
            await self._extend(helds)
        elif chance < 0.3:
            await asyncio.sleep(LEASE_S + 1)  # it was too slow
        completions: list[tuple[Held, dict[str, Any]]] = []
        failures: list[tuple[Held, dict[str, Any]]] = []
        for held, each in tasks:
            if each["phase"] == "reduce":
                output = await self._reduce(held, each)
                if output is not None:
                    completions.append((held, {"output": output}))
            elif (failure := self._failure(held, each)) is not None:
                failures.append((held, failure))
            elif each["input"]["does"] == SPLIT:
                if await self._split(held):
                    completions.append((held, {"wait_for": f"{held.job}.{held.place[1]}"}))
            else:
                output = {"value": each["input"]["value"], "by": held.lease_id}
                completions.append((held, {"output": output}))
        await self._settle("fail", failures)
        await self._complete(completions)

    def _failure(self, held: Held, task: Mapping[str, Any]) -> dict[str, Any] | None:
        does = task["input"]["does"]
        if does == FLAKY and task["attempt"] < 3:
            return {"error": "flaky"}
        if does == HOPELESS and held.job not in self._book.repaired:
            return {"error": "hopeless", "retry": False}
        return None

    async def _reduce(self, held: Held, task: Mapping[str, Any]) -> dict[str, Any] | None:
        """The sum of what the tasks gave, and a digest of all that was read."""
        outputs = await outputs_of(self._caller, held.job)
        if outputs is None:
            return None
        given = [each["output"]["value"] for each in outputs if "output" in each]
        if held.pool == NARROW and len(given) != task["inputs_total"]:
            self._book.broke(f"{held.job}: {len(given)} to reduce, not {task['inputs_total']}")
        return {"value": sum(given), "by": held.lease_id, "read": digest(outputs)}

    async def _split(self, held: Held) -> bool:
        """The child is there and sealed; False: it cannot be, the job has ended."""
        child = self._book.plans[held.job].child(held.place[1])
        self._book.plans[child.name] = child
        return await start(self._caller, child)

    async def _complete(self, completions: Sequence[tuple[Held, dict[str, Any]]]) -> None:
        began_s = time.monotonic()
        done, again = await self._settle("complete", completions)
        accepted = []
        for held, body in completions:
            told = held.lease_id in done
            self._sometimes.hit(NESTED, told and "wait_for" in body)
            self._sometimes.hit(LATE, not told and held.over_s < began_s)
            self._sometimes.hit(SENT_AGAIN, told and again)
            if told and "output" in body:
                self._book.accepted(held)
                accepted.append(held)
        if accepted and self._dice.random() < 0.2:
            await self._repeat(accepted)

    async def _repeat(self, accepted: Sequence[Held]) -> None:
        """Repeat with another output, which must be told done, and change nothing."""
        other = [(held, {"output": {"value": -1, "by": held.lease_id}}) for held in accepted]
        done, _ = await self._settle("complete", other)
        for held in accepted:
            self._sometimes.hit(TWICE, held.lease_id in done)
            if held.lease_id not in done and held.job not in self._book.gone:
                self._book.broke(f"{held.text} was completed, and again under its lease: lost")

    async def _release(self, helds: Sequence[Held]) -> None:
        for held in helds:
            held.settled(time.monotonic())
        body = {"lease_ids": [held.lease_id for held in helds]}
        reply = await self._caller.call("POST", "/tasks:release", body)
        self._sometimes.hit(RELEASED, reply.ok and reply.body["done"] > 0)

    async def _extend(self, helds: Sequence[Held]) -> None:
        """Most in time, some not: what is over stays so."""
        await asyncio.sleep(LEASE_S * self._dice.choice([0.3, 0.6, 1.5]))
        body = {"lease_ids": [held.lease_id for held in helds], "lease_seconds": LEASE_S}
        reply = await self._caller.call("POST", "/tasks:extend", body)
        if not reply.ok:
            for held in helds:
                held.maybe_extended(time.monotonic(), LEASE_S)
            return
        got_s = time.monotonic()
        lost = {each["lease_id"] for each in reply.body["results"]}
        self._sometimes.hit(TOLD, bool(reply.body["cancelled"]))
        for held in helds:
            if held.lease_id in lost:
                continue
            self._sometimes.hit(EXTENDED)
            if held.over_s + MARGIN_S < reply.sent_s:
                self._book.broke(f"the lease of {held.text} was extended when it was over")
            held.extended(reply.sent_s, got_s, LEASE_S)

    async def _settle(
        self, how: str, items: Sequence[tuple[Held, dict[str, Any]]]
    ) -> tuple[set[str], bool]:
        """Return the leases that were told done, and whether the request was sent more than
        once.
        """
        if not items:
            return set(), False
        body = {"tasks": [{"lease_id": held.lease_id} | each for held, each in items]}
        for held, _ in items:
            held.settled(time.monotonic())
        deadline_s = time.monotonic() + SEND_AGAIN_S
        again = False
        while time.monotonic() < deadline_s:
            reply = await self._caller.call("POST", f"/tasks:{how}", body)
            if reply.ok:
                lost = {each["lease_id"] for each in reply.body["results"]}
                return {held.lease_id for held, _ in items} - lost, again
            if 400 <= reply.status < 500 and reply.status != 429:
                self._book.broke(f"/tasks:{how} was refused: {reply}")
                return set(), again
            again = True
            await asyncio.sleep(PAUSE_S)
        self._book.broke(f"/tasks:{how} had no answer in {SEND_AGAIN_S:g} s")
        return set(), again
