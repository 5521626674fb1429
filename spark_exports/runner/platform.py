"""What a runner asks of the platform, in the words of `order.py`; the SDK's client asks it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol

import msgspec
from packetboat import AsyncClient
from packetboat.models.exports import ExportFailure, ExportProgress, ExportResult

from spark_exports.order import ExportSpec, Position, Progress, Range, Result, RunKind

EndState = Literal["succeeded", "failed", "cancelled"]
MAX_CODE_CHARS = 64
MAX_MESSAGE_CHARS = 4_096


class Claimed(msgspec.Struct, frozen=True, kw_only=True):
    """A run that is this runner's until its lease ends. `token` reads the topics of the export and
    nothing else; ranges are there when an earlier attempt was planned, or a tenant said them."""

    uid: str
    lease: str
    tenant: str
    export: ExportSpec
    number: int
    kind: RunKind
    attempt: int
    token: str
    ranges: list[Range] | None = None


class Renewed(msgspec.Struct, frozen=True):
    """`cancelled`: nobody wants it any more; the lease holds until it is finished."""

    cancelled: bool
    token: str


class Failure(msgspec.Struct, frozen=True):
    """`code` is for programs."""

    code: str
    message: str


class ExportRuns(Protocol):
    """Each raises PacketboatError; Conflict where the run is not ours any more."""

    async def claim(
        self, runner: str, lakes: Sequence[str], *, lease_seconds: float, wait_seconds: float
    ) -> Claimed | None:
        """None: there was none within the wait."""

    async def plan(self, uid: str, lease: str, positions: Sequence[Position]) -> list[Range]:
        """The manifest, from what the table has."""

    async def renew(
        self,
        uid: str,
        lease: str,
        *,
        lease_seconds: float,
        progress: Progress | None,
        log: str | None,
    ) -> Renewed:
        """Ours for as long again, from now."""

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
        """How it ended. Repeated it is the same as once."""


class Platform:
    """By a client that may act as a runner."""

    def __init__(self, client: AsyncClient) -> None:
        self._runs = client.export_runs

    async def claim(
        self, runner: str, lakes: Sequence[str], *, lease_seconds: float, wait_seconds: float
    ) -> Claimed | None:
        run = await self._runs.claim(
            runner, lakes, lease_seconds=lease_seconds, wait_seconds=wait_seconds
        )
        return None if run is None else _as(Claimed, run)

    async def plan(self, uid: str, lease: str, positions: Sequence[Position]) -> list[Range]:
        return list(await self._runs.plan(uid, lease, positions))

    async def renew(
        self,
        uid: str,
        lease: str,
        *,
        lease_seconds: float,
        progress: Progress | None,
        log: str | None,
    ) -> Renewed:
        renewed = await self._runs.renew(
            uid,
            lease,
            lease_seconds=lease_seconds,
            progress=_as(ExportProgress | None, progress),
            log=log,
        )
        answer: Renewed = _as(Renewed, renewed)
        return answer

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
        await self._runs.finish(
            uid,
            lease,
            state,
            result=_as(ExportResult | None, result),
            positions=positions,
            failure=None if failure is None else _bounded(failure),
            retry=retry,
            log=log,
        )


def _as(kind: Any, value: object) -> Any:
    """The same value in the words of the SDK, or in ours: fields have the same names."""
    return msgspec.convert(value, kind, from_attributes=True)


def _bounded(failure: Failure) -> ExportFailure:
    message = failure.message
    if len(message) > MAX_MESSAGE_CHARS:
        # What comes last says most of a long one: a stack trace ends in its cause.
        half = MAX_MESSAGE_CHARS // 2 - 2
        message = f"{message[:half]}\n…\n{message[-half:]}"
    return ExportFailure(failure.code[:MAX_CODE_CHARS] or "unknown", message)
