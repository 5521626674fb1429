"""Tasks as workers see them: claimed, extended, completed, failed and released, in batches.

A worker needs `consume` on the pool. A lease of another pool, or an invented one, counts as lost,
like any lease that is over.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec

from edge.asgi import Receive, Route, Scope, Send, caller_of, path_param, respond, tenant_of
from edge.departure import unless_gone
from edge.problem import TYPE_BASE, Problem, invalid
from edge.process_pool import ProcessPool
from edge.shares import TooManyWaiting
from gateway.http.decoding import read_json
from gateway.jobs import metrics
from gateway.jobs.bodies import MAX_COMPLETE_BODY_BYTES, MAX_FAIL_BODY_BYTES
from gateway.jobs.payload import Completion, completions_of, failures_of, read
from gateway.jobs.transition_batches import TransitionBatches
from gateway.jobs.views import leased_view
from gateway.jobs.waits import TaskClaims, Tasks
from gateway.names import name_errors
from gateway.wait_list import too_many_claim_waits
from metadata.jobs.claims import JobLeaseRepository, Wanted
from metadata.jobs.machine import Complete, Fail, Release, Transition, Verdict
from metadata.jobs.transaction import Allowed, TaskTransition
from metadata.jobs.types import BadLeaseId, Lease
from openapi import jobs as contract

NO_STORE = [(b"cache-control", b"no-store")]
Failures = list[contract.LeaseFailure]


class WorkRoutes:
    """Answers are told once what they tell of is committed."""

    def __init__(
        self,
        leases: JobLeaseRepository,
        claims: TaskClaims,
        transitions: TransitionBatches,
        process_pool: ProcessPool | None = None,
    ) -> None:
        """Create the handlers; `process_pool` is where large bodies are read."""
        self._process_pool = process_pool
        self._leases = leases
        self._claims = claims
        self._transitions = transitions

    def routes(self) -> list[Route]:
        return [
            Route(contract.OPERATIONS["claimTasks"], self.claim),
            Route(contract.OPERATIONS["completeTasks"], self.complete),
            Route(contract.OPERATIONS["failTasks"], self.fail),
            Route(contract.OPERATIONS["extendTasks"], self.extend),
            Route(contract.OPERATIONS["releaseTasks"], self.release),
        ]

    async def claim(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Claim tasks; a caller that goes away while it waits gets none."""
        body = await read_json(scope, receive, contract.TasksClaim)
        pool, tenant_id = path_param(scope, "pool"), tenant_of(scope)
        errors = name_errors(pool, "pool")
        if errors:
            raise invalid("The request does not fit.", errors)
        kinds = tuple(sorted(set(body.kinds)))
        key = Tasks(tenant_id, pool, kinds)
        wanted = Wanted(pool, kinds, body.max_tasks, body.lease_seconds, body.worker)
        claiming = self._claims.claim(key, tenant_id, wanted, body.wait_seconds)
        try:
            tasks = await unless_gone(receive, claiming, partial(self._claims.undo, key)) or []
        except TooManyWaiting as error:
            raise too_many_claim_waits("tasks") from error
        try:
            answer = msgspec.json.encode(contract.Claimed([leased_view(task) for task in tasks]))
            await respond(send, 200, answer, headers=NO_STORE)
        except BaseException:
            self._claims.undo(key, tasks)
            raise
        metrics.claimed.inc(len(tasks))

    async def complete(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = await read(
            self._process_pool,
            *(scope, receive, MAX_COMPLETE_BODY_BYTES, list[Completion], completions_of),
        )
        items = [(each.lease_id, Complete(each.output, each.wait_for)) for each in given]
        await self._apply(scope, send, "completed", items)

    async def fail(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await read(
            self._process_pool, scope, receive, MAX_FAIL_BODY_BYTES, contract.TasksFail, failures_of
        )
        items = [
            (each.lease_id, Fail(each.error.replace("\0", ""), each.retry, each.delay_seconds))
            for each in body.tasks
        ]
        await self._apply(scope, send, "failed", items)

    async def release(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_json(scope, receive, contract.TasksRelease)
        await self._apply(scope, send, "released", [(each, Release()) for each in body.lease_ids])

    async def extend(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_json(scope, receive, contract.TasksExtend)
        failures: Failures = []
        leases = _leases(body.lease_ids, failures)
        found = await self._leases.extend(
            tenant_of(scope), list(leases.values()), body.lease_seconds, _allowed(scope)
        )
        cancelled = []
        for at, extension in zip(leases, found, strict=True):
            if extension.until is not None:
                continue
            failures.append(_failure(at, body.lease_ids[at], lease_lost()))
            if extension.cancelled:
                cancelled.append(body.lease_ids[at])
        done = len(body.lease_ids) - len(failures)
        metrics.lost.inc(len(failures))
        await _answer(send, contract.TasksExtended(done, _in_order(failures), cancelled))

    async def _apply(
        self, scope: Scope, send: Send, how: str, given: Sequence[tuple[str, Transition]]
    ) -> None:
        failures: Failures = []
        texts = [text for text, _ in given]
        leases = _leases(texts, failures)
        items = [TaskTransition(lease, given[at][1]) for at, lease in leases.items()]
        verdicts = await self._transitions.apply(tenant_of(scope), items, _allowed(scope))
        for at, verdict in zip(leases, verdicts, strict=True):
            if verdict is not Verdict.DONE:
                problem = lease_lost() if verdict is Verdict.LOST else no_child()
                failures.append(_failure(at, texts[at], problem))
        done = len(given) - len(failures)
        metrics.settled.labels(how).inc(done)
        metrics.lost.inc(len(failures))
        await _answer(send, contract.TasksSettled(done, _in_order(failures)))


def lease_lost() -> Problem:
    detail = "The lease is over, or its job has ended; nothing was done."
    return Problem.of("lease-lost", detail)


def no_child() -> Problem:
    detail = "The task cannot wait for that job: there is none of that name whose parent it is."
    return Problem.of("no-child", detail)


def _leases(texts: Sequence[str], failures: Failures) -> dict[int, Lease]:
    """Return the leases by their index; texts that are no lease id go to `failures`."""
    leases = {}
    for at, text in enumerate(texts):
        try:
            leases[at] = Lease.parse(text)
        except BadLeaseId:
            failures.append(_failure(at, text, lease_lost()))
    return leases


def _allowed(scope: Scope) -> Allowed:
    caller = caller_of(scope)
    return lambda at, pool: caller.allows("consume", "pool", pool)


def _failure(at: int, lease_id: str, problem: Problem) -> contract.LeaseFailure:
    kind = TYPE_BASE + problem.slug
    return contract.LeaseFailure(at, lease_id, problem.status, kind, problem.detail)


def _in_order(failures: Failures) -> Failures:
    return sorted(failures, key=lambda failure: failure.index)


async def _answer(send: Send, answer: contract.TasksSettled | contract.TasksExtended) -> None:
    await respond(send, 200, msgspec.json.encode(answer))
