"""Runs of exports as runners hold them, of all tenants: claimed, planned, renewed and finished.

A runner may do nothing but this, and read the topics that the token of its run reads. Nothing is
done under a lease that is over: another runner may have the run by then.
"""

from __future__ import annotations

import contextlib
from functools import partial
from typing import cast

import msgspec

from auth.run_tokens import Attempt, RunToken, RunTokens
from auth.signing_keys import NoSigningKey
from edge.asgi import Receive, Route, Scope, Send, path_param, read_body, respond
from edge.bodies import OF_OPERATORS, read
from edge.departure import unless_gone
from edge.problem import unavailable
from edge.shares import TooManyWaiting
from gateway.exports import metrics
from gateway.exports.lanes import ranges_for_runner, stored
from gateway.exports.planning import Offsets
from gateway.exports.refusals import lease_lost, leased
from gateway.exports.runner_bodies import MAX_BODY_BYTES, ending_of, log_bytes, progress_of
from gateway.exports.views import spec_for_runner
from gateway.exports.waits import RunClaims, Runner
from gateway.http.decoding import read_json
from gateway.wait_list import too_many_claim_waits
from metadata.errors import LeaseLost
from metadata.exports.exports import ExportRepository
from metadata.exports.leases import ExportLeaseRepository, Finished
from metadata.exports.types import (
    EXPORT,
    SUCCEEDED,
    BadRunId,
    ClaimedRun,
    ExportSpec,
    LaneEnd,
    RunId,
)
from openapi import export_runners as contract
from openapi.export_runs import Kind

NO_STORE = [(b"cache-control", b"no-store")]
LEASE_BYTES = 16
LOG_LEASE_S = 60.0
"""Seconds of a lease from the last line of the log to the end, which follows at once."""


class RunnerRoutes:
    """The routes of runners; `max_messages` is the limit of one manifest."""

    def __init__(
        self,
        exports: ExportRepository,
        leases: ExportLeaseRepository,
        claims: RunClaims,
        offsets: Offsets,
        tokens: RunTokens,
        max_messages: int,
    ) -> None:
        self._exports = exports
        self._leases = leases
        self._claims = claims
        self._offsets = offsets
        self._tokens = tokens
        self._max_messages = max_messages

    def routes(self) -> list[Route]:
        return [
            Route(contract.OPERATIONS["claimExportRun"], self.claim),
            Route(contract.OPERATIONS["planExportRun"], self.plan),
            Route(contract.OPERATIONS["renewExportRun"], self.renew),
            Route(contract.OPERATIONS["finishExportRun"], self.finish),
        ]

    async def claim(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a run, or none. A runner that goes away while it waits gets none."""
        body = await read_json(scope, receive, contract.ExportRunClaim)
        lakes = tuple(sorted(set(body.lakes)))
        runner = Runner(body.runner, body.lease_seconds)
        claiming = self._claims.claim(lakes, runner.name, runner, body.wait_seconds)
        try:
            run = await unless_gone(receive, claiming, partial(self._claims.undo, lakes))
        except TooManyWaiting as error:
            raise too_many_claim_waits("runs") from error
        try:
            claimed = None if run is None else await self._claimed(run)
            answer = msgspec.json.encode(contract.ExportRunClaimed(claimed))
            await respond(send, 200, answer, headers=NO_STORE)
        except BaseException:
            self._claims.undo(lakes, run)
            raise
        if run is not None:
            metrics.claimed.labels(run.kind).inc()

    async def plan(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the ranges of a run. The ends are read first, so the ranges have every message
        that was published before the call, up to the limit."""
        run_id = _run_id(scope)
        text = await read_body(scope, receive, MAX_BODY_BYTES)
        body = read(text, contract.ExportRunPositions, OF_OPERATORS)
        lease = _lease(body.lease)
        async with leased():
            held = await self._leases.held(run_id, lease)
            ends: list[LaneEnd] = []
            if held.kind == EXPORT:
                topics = await self._exports.topics(run_id.tenant_id, held.spec.topic)
                ends = await self._offsets.ends(topics)
            ranges = await self._leases.plan(
                run_id, lease, stored(body.positions), ends, self._max_messages
            )
        metrics.planned.inc(sum(each.end - each.start for each in ranges))
        answer = contract.ExportRunPlan(ranges_for_runner(ranges))
        await respond(send, 200, msgspec.json.encode(answer))

    async def renew(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Renew a lease; each renewal has a new token."""
        run_id, body = _run_id(scope), await read_json(scope, receive, contract.ExportRunRenew)
        progress = progress_of(body)
        async with leased():
            renewed = await self._leases.renew(
                run_id, _lease(body.lease), body.lease_seconds, progress, log_bytes(body.log)
            )
        attempt = Attempt(run_id.tenant_id, run_id.uid, renewed.attempt)
        token = await self._token(attempt, renewed.spec)
        answer = contract.ExportRunRenewed(
            renewed.lease_until, renewed.cancelled, token.text, token.expires_at
        )
        await respond(send, 200, msgspec.json.encode(answer), headers=NO_STORE)

    async def finish(self, scope: Scope, receive: Receive, send: Send) -> None:
        """End a run. The same request gets the same answer again."""
        run_id = _run_id(scope)
        text = await read_body(scope, receive, MAX_BODY_BYTES)
        body = read(text, contract.ExportRunFinish, OF_OPERATORS)
        lease, ending = _lease(body.lease), ending_of(body)
        if body.log:
            with contextlib.suppress(LeaseLost):  # it may have ended under this lease already
                await self._leases.renew(run_id, lease, LOG_LEASE_S, None, log_bytes(body.log))
        async with leased():
            finished = await self._leases.finish(run_id, lease, ending)
        await self._tokens.end(Attempt(run_id.tenant_id, run_id.uid, finished.attempt))
        _count(finished, body)
        await respond(send, 200, msgspec.json.encode(contract.ExportRunFinished()))

    async def _claimed(self, run: ClaimedRun) -> contract.ExportRunLease:
        tenant_id, uid = run.id
        if run.attempt > 1:
            # The runner that had it before may not know that its lease is over.
            await self._tokens.end(Attempt(tenant_id, uid, run.attempt - 1))
        token = await self._token(Attempt(tenant_id, uid, run.attempt), run.spec)
        return contract.ExportRunLease(
            uid=str(run.id),
            lease=run.lease.hex(),
            lease_until=run.lease_until,
            tenant=run.tenant,
            export=spec_for_runner(run.spec),
            number=run.number,
            kind=cast(Kind, run.kind),
            attempt=run.attempt,
            ranges=None if run.ranges is None else ranges_for_runner(run.ranges),
            token=token.text,
            token_expires_at=token.expires_at,
        )

    async def _token(self, attempt: Attempt, spec: ExportSpec) -> RunToken:
        """Return the token of a run; it also reads the schemas of topics whose bodies are Avro."""
        schemas: set[str] = set()
        if spec.body == "avro":
            topics = await self._exports.topics(attempt.tenant_id, spec.topic)
            schemas = {topic.schema for topic in topics if topic.schema is not None}
        try:
            return self._tokens.issue(attempt, spec.name, spec.topic, sorted(schemas))
        except NoSigningKey as error:
            raise unavailable("auth", "There is no key to sign a token with yet.") from error


def _count(finished: Finished, body: contract.ExportRunFinish) -> None:
    """Count an end; one that is repeated counts twice."""
    metrics.finished.labels(finished.kind, finished.state).inc()
    result = body.result
    if result is not None and finished.kind == EXPORT and finished.state == SUCCEEDED:
        for where in ("rows", "rejected", "filtered"):
            metrics.rows.labels(where).inc(getattr(result, where))
        metrics.body_bytes.inc(result.bytes)
        metrics.file_bytes.inc(result.file_bytes)


def _run_id(scope: Scope) -> RunId:
    """Return the id of a run. Raise the problem of a lost lease for another text."""
    try:
        return RunId.parse(path_param(scope, "uid"))
    except BadRunId as error:
        raise lease_lost() from error


def _lease(text: str) -> bytes:
    try:
        lease = bytes.fromhex(text)
    except ValueError:
        lease = b""
    if len(lease) != LEASE_BYTES:
        raise lease_lost()
    return lease
