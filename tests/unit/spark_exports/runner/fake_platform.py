"""A platform of one process: runs to claim, and all that a runner said of them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from packetboat.errors import Conflict, ConnectionFailed, Problem

from spark_exports.order import ExportSpec, LaneKey, Position, Progress, Range, Result
from spark_exports.runner.platform import Claimed, EndState, Failure, Renewed

TOKEN = "the-token-of-a-run"


def lease_lost() -> Conflict:
    return Conflict(Problem(type="https://…/lease-lost", title="The lease is lost", status=409))


@dataclass
class Finished:
    """The arguments of a finish."""

    state: EndState
    result: Result | None
    positions: Sequence[Position] | None
    failure: Failure | None
    retry: bool
    log: str | None


@dataclass
class FakePlatform:
    """`fault` is asked before each call but claims, and may raise."""

    waiting: list[Claimed] = field(default_factory=list)
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
            Claimed(
                uid=uid,
                lease="l",
                tenant="acme",
                export=ExportSpec(name=name, topic="t", table="t"),
                number=1,
                kind="export",
                attempt=1,
                token=TOKEN,
            )
        )
        return uid

    async def claim(
        self, runner: str, lakes: Sequence[str], *, lease_seconds: float, wait_seconds: float
    ) -> Claimed | None:
        self.claims += 1
        self.fault("claim")
        if self.waiting:
            return self.waiting.pop(0)
        await asyncio.sleep(0.05)
        return None

    async def plan(self, uid: str, lease: str, positions: Sequence[Position]) -> list[Range]:
        self.fault("plan")
        self.planned.set()
        start = positions[0].offset
        return [Range(LaneKey("t", "u", 0, 0), start, start + 10)]

    async def renew(
        self,
        uid: str,
        lease: str,
        *,
        lease_seconds: float,
        progress: Progress | None,
        log: str | None,
    ) -> Renewed:
        self.fault("renew")
        self.renewed.set()
        if progress is not None:
            self.progress.append(progress)
        self.log += log or ""
        return Renewed(uid in self.cancelled, self.token)

    async def finish(
        self,
        uid: str,
        lease: str,
        state: EndState,
        *,
        result: Result | None = None,
        positions: Sequence[Position] | None = None,
        failure: Failure | None = None,
        retry: bool = False,
        log: str | None = None,
    ) -> None:
        self.finishes += 1
        self.fault("finish")
        self.log += log or ""
        self.finished[uid] = Finished(state, result, positions, failure, retry, log)


def unreachable() -> ConnectionFailed:
    return ConnectionFailed("nobody listens")
