"""Jobs: every task of a job that was not cancelled counts once, also after crashes (P14).

Owners start jobs, cancel some, retry failed ones, and check each when it has ended; workers run
their tasks (job_workers.py), two pools of them, one with a limit.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, ClassVar

from tests.chaos.delivery import job_workers
from tests.chaos.delivery.actor import DRAIN_S, Actor
from tests.chaos.delivery.caller import PAUSE_S, Caller
from tests.chaos.delivery.job_book import Book, place_of
from tests.chaos.delivery.job_calls import digest, outputs_of, start, sure, tasks_of
from tests.chaos.delivery.job_plans import (
    BEARS,
    CANCELLED,
    FAILS,
    MAX_RUNNING,
    NARROW,
    Plan,
    planned,
)
from tests.chaos.delivery.job_workers import JobWorker

ENDED = "a job ended with all of its tasks"
BORNE = "a job succeeded without tasks that had failed"
FAILED = "a job failed"
STOPPED = "a job was cancelled while it ran"
REVIVED = "a job that had ended was retried, and succeeded"
SITUATIONS = (ENDED, BORNE, FAILED, STOPPED, REVIVED, *job_workers.SITUATIONS)

OWNERS = 4
MAX_KEPT = 20
"""Jobs that stay until the end, to be looked at once more."""


class Jobs(Actor):
    name: ClassVar[str] = "jobs"
    workers: ClassVar[int] = 6

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self._book = Book(self.broke)
        self._kept: dict[str, str] = {}
        """The digest of the outputs of each job that ended."""
        self._stopping = asyncio.Event()
        """Set once no more faults come."""

    async def prepare(self, caller: Caller) -> None:
        await sure(caller, "PUT", f"/pools/{NARROW}", {"max_running": MAX_RUNNING})

    async def _publish(self, stopping: asyncio.Event) -> None:
        self._stopping = stopping
        await asyncio.gather(*(self._own(owner) for owner in range(OWNERS)))

    async def _own(self, owner: int) -> None:
        """Run one job after the other."""
        dice = random.Random(self.dice.random())
        caller = self.caller()
        while not self._stopping.is_set():
            plan = planned(f"torture-{owner}-{next(self._numbers)}", dice)
            self._book.plans[plan.name] = plan
            if not await start(caller, plan) and plan.fate != FAILS:  # that may come first
                self.broke(f"{plan.name} could not be started")
            self.published[plan.name] = 201
            await self._see_through(caller, plan, dice)
        caller.close()

    async def _work(self, finished: asyncio.Event) -> None:
        dice = random.Random(self.dice.random())
        await JobWorker(self.caller(), dice, self._book, self.sometimes).work(finished)

    async def _see_through(self, caller: Caller, plan: Plan, dice: random.Random) -> None:
        path = f"/jobs/{plan.name}"
        if plan.fate in (BEARS, CANCELLED):
            await asyncio.sleep(dice.random())
            await sure(caller, "POST", f"{path}:{'cancel' if plan.fate == CANCELLED else 'retry'}")
        job = await self._ended(caller, plan)
        self._judge_end(plan, job)
        if job["state"] != "succeeded" and (plan.fate == FAILS or dice.random() < 0.5):
            self._book.repaired.add(plan.name)
            del self._book.over[plan.name]
            await sure(caller, "POST", f"{path}:retry")
            await start(caller, plan)  # of one that ended unsealed
            job = await self._ended(caller, plan)
            self.sometimes.hit(REVIVED, job["state"] == "succeeded")
            if job["state"] != "succeeded":
                self.broke(f"{plan.name} was retried, and is {job['state']}: {job['error']}")
        await self._check_job(caller, plan, job)
        if dice.random() < 0.5 or len(self._kept) >= MAX_KEPT:
            self._book.gone.update([plan.name, *(child.name for child in plan.children())])
            self._kept.pop(plan.name, None)
            await sure(caller, "DELETE", path)

    async def _ended(self, caller: Caller, plan: Plan) -> dict[str, Any]:
        deadline_s = 0.0
        while True:
            deadline_s = self._deadline_s(deadline_s)
            reply = await sure(caller, "GET", f"/jobs/{plan.name}?wait_seconds=2")
            if not reply.ok:
                raise AssertionError(f"{plan.name} is not there: {reply}")
            if reply.body["finished_at"] is not None:
                self._book.over[plan.name] = time.monotonic()
                return reply.body
            if time.monotonic() > deadline_s:
                raise AssertionError(f"{plan.name} did not end in {DRAIN_S:g} s: {reply.body}")

    def _deadline_s(self, deadline_s: float) -> float:
        """Return the deadline of what a job does: on a slow machine, faults that still come hold
        it up for as long as they come, so it begins with the end of them.
        """
        if deadline_s and self._stopping.is_set():
            return deadline_s
        return time.monotonic() + DRAIN_S

    def _judge_end(self, plan: Plan, job: dict[str, Any]) -> None:
        state = job["state"]
        wanted = {FAILS: ("failed",), CANCELLED: ("cancelled", "succeeded")}
        if state not in wanted.get(plan.fate, ("succeeded",)):
            self.broke(f"{plan.name}, which {plan.fate}, is {state}: {job['error']}")
        self.sometimes.hit(FAILED, state == "failed")
        self.sometimes.hit(STOPPED, state == "cancelled")
        self.sometimes.hit(BORNE, state == "succeeded" and plan.fate == BEARS)
        self.sometimes.hit(ENDED, state == "succeeded" and plan.fate != BEARS)

    async def _check_job(self, caller: Caller, plan: Plan, job: dict[str, Any]) -> None:
        outputs = await outputs_of(caller, plan.name) or []
        self._check_counters(job, await tasks_of(caller, plan.name) or [])
        self._check_outputs(plan, outputs)
        if job["state"] == "succeeded":
            result, read = job["result"], digest(outputs)
            if (result["value"], result["read"]) != (plan.total(), read):
                self.broke(f"{plan.name}: {result}, not {plan.total()} of {read}")
            if [each["index"] for each in outputs] != list(range(len(plan.inputs))):
                self.broke(f"{plan.name}: its outputs are not those of its tasks")
        elif len(plan.children()) and job["state"] == "cancelled":
            await self._check_children(caller, plan)
        self._kept[plan.name] = digest(outputs)

    def _check_counters(self, job: dict[str, Any], tasks: Sequence[dict[str, Any]]) -> None:
        states = Counter(task["state"] for task in tasks if task["phase"] == "map")
        states["total"] = states.total()
        counters = {what: count for what, count in job["tasks"].items() if count}
        if counters != states:
            self.broke(f"{job['name']}: counts {counters}, has {dict(states)}")

    def _check_outputs(self, plan: Plan, outputs: Sequence[dict[str, Any]]) -> None:
        splits = {child.parent[1] for child in plan.children() if child.parent}
        for each in outputs:
            index, output = each["index"], each.get("output")
            if (None if output is None else output["value"]) != plan.value(index):
                self.broke(f"{plan.name}[{index}] gave {each}, not {plan.value(index)}")
            if output is None:
                continue
            place = place_of(output["by"])
            if self._book.completed.get(place, output["by"]) != output["by"]:
                self.broke(f"{plan.name}[{index}]: not the output that was accepted: {output}")
            if index not in splits and place[1] != index:
                self.broke(f"{plan.name}[{index}] has the output of another: {output}")

    async def _check_children(self, caller: Caller, plan: Plan) -> None:
        """Check that the children end after a job that was cancelled."""
        for child in plan.children():
            deadline_s = self._deadline_s(0.0)
            while (reply := await sure(caller, "GET", f"/jobs/{child.name}?wait_seconds=2")).ok:
                if reply.body["finished_at"] is not None:
                    break
                deadline_s = self._deadline_s(deadline_s)
                if time.monotonic() > deadline_s:
                    self.broke(f"{child.name} goes on, its parent was cancelled")
                    break

    async def check(self, caller: Caller) -> None:
        for name, was in self._kept.items():
            if digest(await outputs_of(caller, name) or []) != was:
                self.broke(f"the outputs of {name} changed after its end")
        for crowd in self._book.crowds(NARROW, MAX_RUNNING)[:3]:
            self.broke(crowd)

    async def check_books(self, caller: Caller) -> None:
        """Nothing is left of the jobs that ended."""
        deadline_s = time.monotonic() + DRAIN_S
        while time.monotonic() < deadline_s:
            pool = (await sure(caller, "GET", f"/pools/{NARROW}")).body
            if (pool["running"], pool["waiting"]) == (0, 0):
                return
            await asyncio.sleep(PAUSE_S)
        self.broke(f"the pool is not empty: {pool}")
