"""A platform of one process: runs to claim, and all that a runner said of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from packetboat.errors import Conflict, ConnectionFailed, Problem
from packetboat.models.export_runs import (
    ClaimedExportRun,
    ExportLease,
    LaneKey,
    LanePosition,
    LaneRange,
)
from packetboat.models.exports import ExportFailure, ExportResult

from harness.export_specs import spec_of
from spark_exports.order import Progress
from spark_exports.runner.platform import EndState

TOKEN = "the-token-of-a-run"
NEVER = datetime(2100, 1, 1, tzinfo=UTC)


def lease_lost() -> Conflict:
    return Conflict(Problem(type="https://…/lease-lost", title="The lease is lost", status=409))


@dataclass
class Finished:
    """The arguments of a finish."""

    state: EndState
    result: ExportResult | None
    positions: Sequence[LanePosition] | None
    failure: ExportFailure | None
    retry: bool
    log: str | None


@dataclass
class FakePlatform:
    """`fault` is asked before each call but claims, and may raise."""

    waiting: list[ClaimedExportRun] = field(default_factory=list)
    finished: dict[str, Finished] = field(default_factory=dict)
    progress: list[Progress] = field(default_factory=list)
    log: str = ""
    cancelled: set[str] = field(default_factory=set)
    renewed: asyncio.Event = field(default_factory=asyncio.Event)
    planned: asyncio.Event = field(default_factory=asyncio.Event)
    finishes: int = 0
    claims: int = 0
    fault: Callable[[str], None] = lambda call: None
    token: str = TOKEN

    def add(self, name: str) -> str:
        uid = f"{name}-{len(self.waiting)}"
        self.waiting.append(
            ClaimedExportRun(
                uid=uid,
                lease="l",
                lease_until=NEVER,
                tenant="acme",
                export=spec_of(name=name, topic="t", table="t"),
                number=1,
                kind="export",
                attempt=1,
                token=TOKEN,
                token_expires_at=NEVER,
            )
        )
        return uid

    async def claim(
        self, runner: str, lakes: Sequence[str], *, lease_seconds: float, wait_seconds: float
    ) -> ClaimedExportRun | None:
        self.claims += 1
        self.fault("claim")
        if self.waiting:
            return self.waiting.pop(0)
        await asyncio.sleep(0.05)
        return None

    async def plan(
        self, uid: str, lease: str, positions: Sequence[LanePosition]
    ) -> list[LaneRange]:
        self.fault("plan")
        self.planned.set()
        start = positions[0].offset
        return [LaneRange(LaneKey("t", "u", 0, 0), start, start + 10)]

    async def renew(
        self,
        uid: str,
        lease: str,
        *,
        lease_seconds: float,
        progress: Progress | None,
        log: str | None,
    ) -> ExportLease:
        self.fault("renew")
        self.renewed.set()
        if progress is not None:
            self.progress.append(progress)
        self.log += log or ""
        return ExportLease(NEVER, uid in self.cancelled, self.token, NEVER)

    async def finish(
        self,
        uid: str,
        lease: str,
        state: EndState,
        *,
        result: ExportResult | None = None,
        positions: Sequence[LanePosition] | None = None,
        failure: ExportFailure | None = None,
        retry: bool = False,
        log: str | None = None,
    ) -> None:
        self.finishes += 1
        self.fault("finish")
        self.log += log or ""
        self.finished[uid] = Finished(state, result, positions, failure, retry, log)


def unreachable() -> ConnectionFailed:
    return ConnectionFailed("nobody listens")
