"""Runs of exports as runners hold them, of all tenants: claimed, planned, renewed and finished.

A runner may do nothing else than this, and read what the token of the run that it holds reads.
Under a lease that is over nothing is done: by then the run may be another's.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import msgspec

from auth.run_tokens import Attempt, RunToken, RunTokens
from auth.signing_keys import NoSigningKey
from edge.asgi import ClientGone, Receive, Route, Scope, Send, path_param, read_body, respond
from edge.departure import disconnected, ended_by
from edge.problem import Problem, unavailable
from edge.shares import TooManyWaiting
from gateway.exports import metrics
from gateway.exports.claim_line import ClaimLine, Wanted
from gateway.exports.lanes import ranges_for_runner, stored
from gateway.exports.planning import Offsets
from gateway.exports.refusals import lease_lost, leased
from gateway.exports.runner_bodies import (
    MAX_BODY_BYTES,
    RunClaim,
    RunFinish,
    RunPositions,
    RunRenew,
    log_bytes,
)
from gateway.exports.views import spec_for_runner
from gateway.http.decoding import decode_json, read_json
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
from openapi.export_runs import OPERATIONS

NO_STORE = [(b"cache-control", b"no-store")]
LEASE_BYTES = 16
LOG_LEASE_S = 60.0
"""From a last line of the log to the end, which follows at once."""


class RunnerRoutes:
    """`max_messages`: the most of one manifest."""

    def __init__(
        self,
        exports: ExportRepository,
        leases: ExportLeaseRepository,
        line: ClaimLine,
        offsets: Offsets,
        tokens: RunTokens,
        max_messages: int,
    ) -> None:
        self._exports = exports
        self._leases = leases
        self._line = line
        self._offsets = offsets
        self._tokens = tokens
        self._max_messages = max_messages

    def routes(self) -> list[Route]:
        return [
            Route(OPERATIONS["claimExportRun"], self.claim),
            Route(OPERATIONS["planExportRun"], self.plan),
            Route(OPERATIONS["renewExportRun"], self.renew),
            Route(OPERATIONS["finishExportRun"], self.finish),
        ]

    async def claim(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Who goes away while it waits gets none."""
        body = await read_json(scope, receive, RunClaim)
        wanted = Wanted(tuple(sorted(set(body.lakes))), body.runner, body.lease_seconds)
        run = await self._claim(wanted, body.wait_seconds, receive)
        try:
            claimed = None if run is None else await self._claimed(run)
            answer = msgspec.json.encode({"run": claimed})
            await respond(send, 200, answer, headers=NO_STORE)
        except BaseException:
            self._line.undo(run)
            raise
        if run is not None:
            metrics.claimed.labels(run.kind).inc()

    async def plan(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Ends are looked at first, so nothing that was published before the call is left out but
        for the bound."""
        run_id = _run_id(scope)
        body = decode_json(
            await read_body(scope, receive, MAX_BODY_BYTES), RunPositions, bounded=False
        )
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
        answer = msgspec.json.encode({"ranges": ranges_for_runner(ranges)})
        await respond(send, 200, answer)

    async def renew(self, scope: Scope, receive: Receive, send: Send) -> None:
        """With a new token each time."""
        run_id, body = _run_id(scope), await read_json(scope, receive, RunRenew)
        progress = None if body.progress is None else body.progress.stored()
        async with leased():
            renewed = await self._leases.renew(
                run_id, _lease(body.lease), body.lease_seconds, progress, log_bytes(body.log)
            )
        attempt = Attempt(run_id.tenant_id, run_id.uid, renewed.attempt)
        token = await self._token(attempt, renewed.spec)
        answer = {
            "lease_until": renewed.lease_until,
            "cancelled": renewed.cancelled,
            "token": token.text,
            "token_expires_at": token.expires_at,
        }
        await respond(send, 200, msgspec.json.encode(answer), headers=NO_STORE)

    async def finish(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Again under the same lease it is answered alike."""
        run_id = _run_id(scope)
        body = decode_json(
            await read_body(scope, receive, MAX_BODY_BYTES), RunFinish, bounded=False
        )
        lease, ending = _lease(body.lease), body.ending()
        if body.log:
            with contextlib.suppress(LeaseLost):  # it may have ended under this lease already
                await self._leases.renew(run_id, lease, LOG_LEASE_S, None, log_bytes(body.log))
        async with leased():
            finished = await self._leases.finish(run_id, lease, ending)
        await self._tokens.end(Attempt(run_id.tenant_id, run_id.uid, finished.attempt))
        _count(finished, body)
        await respond(send, 200, b"{}")

    async def _claim(self, wanted: Wanted, wait_s: float, receive: Receive) -> ClaimedRun | None:
        """ClientGone when nobody is there any more to be told; the Problem when the caller may not
        wait any longer."""
        claiming = asyncio.ensure_future(self._line.claim(wanted, wait_s))
        gone = asyncio.ensure_future(disconnected(receive))
        try:
            await asyncio.wait((claiming, gone), return_when=asyncio.FIRST_COMPLETED)
            if gone.done():
                raise ended_by(gone)
            return claiming.result()
        except (ClientGone, Problem, asyncio.CancelledError):
            if claiming.done() and not claiming.cancelled() and not claiming.exception():
                self._line.undo(claiming.result())
            raise
        except TooManyWaiting as error:
            detail = "Too many wait for runs in this process."
            raise Problem(503, "too-many-claim-waits", "Busy", detail, retry_after_s=1.0) from error
        finally:
            claiming.cancel()
            gone.cancel()
            await asyncio.gather(claiming, gone, return_exceptions=True)

    async def _claimed(self, run: ClaimedRun) -> dict[str, Any]:
        tenant_id, uid = run.id
        if run.attempt > 1:
            # Who had it before may not know that it is over.
            await self._tokens.end(Attempt(tenant_id, uid, run.attempt - 1))
        token = await self._token(Attempt(tenant_id, uid, run.attempt), run.spec)
        return {
            "uid": str(run.id),
            "lease": run.lease.hex(),
            "lease_until": run.lease_until,
            "tenant": run.tenant,
            "export": spec_for_runner(run.spec),
            "number": run.number,
            "kind": run.kind,
            "attempt": run.attempt,
            "ranges": None if run.ranges is None else ranges_for_runner(run.ranges),
            "token": token.text,
            "token_expires_at": token.expires_at,
        }

    async def _token(self, attempt: Attempt, spec: ExportSpec) -> RunToken:
        """Where bodies are Avro, it reads the schemas by which they are decoded."""
        schemas: set[str] = set()
        if spec.body == "avro":
            topics = await self._exports.topics(attempt.tenant_id, spec.topic)
            schemas = {topic.schema for topic in topics if topic.schema is not None}
        try:
            return self._tokens.issue(attempt, spec.name, spec.topic, sorted(schemas))
        except NoSigningKey as error:
            raise unavailable("auth", "There is no key to sign a token with yet.") from error


def _count(finished: Finished, body: RunFinish) -> None:
    """An ending that is repeated counts twice."""
    metrics.finished.labels(finished.kind, finished.state).inc()
    result = body.result
    if result is not None and finished.kind == EXPORT and finished.state == SUCCEEDED:
        for where in ("rows", "rejected", "filtered"):
            metrics.rows.labels(where).inc(getattr(result, where))
        metrics.body_bytes.inc(result.bytes)
        metrics.file_bytes.inc(result.file_bytes)


def _run_id(scope: Scope) -> RunId:
    """What is no id of ours is nobody's to hold."""
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
