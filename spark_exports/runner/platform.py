"""A runner's requests to the platform, with the values of `order.py`, through the SDK's client."""

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
    """A run that is this runner's until its lease ends.

    `token` reads the topics of the export and nothing else. `ranges` are there if an earlier
    attempt was planned, or a tenant named them.
    """

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
    """The answer to a renewal.

    `cancelled` says that nobody wants the run any more; the lease is valid until it is finished.
    """

    cancelled: bool
    token: str


class Failure(msgspec.Struct, frozen=True):
    """The failure of a run; `code` is for programs."""

    code: str
    message: str


class ExportRuns(Protocol):
    """The runner's calls.

    Each raises PacketboatError, and Conflict if the run is not ours any more.
    """

    async def claim(
        self, runner: str, lakes: Sequence[str], *, lease_seconds: float, wait_seconds: float
    ) -> Claimed | None:
        """Claim a run; return None if there was none within the wait."""

    async def plan(self, uid: str, lease: str, positions: Sequence[Position]) -> list[Range]:
        """Return the manifest that follows the table's positions; it is stored when this
        returns.
        """

    async def renew(
        self,
        uid: str,
        lease: str,
        *,
        lease_seconds: float,
        progress: Progress | None,
        log: str | None,
    ) -> Renewed:
        """Renew the lease for its full time, from now on."""

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
        """Report the end of a run; a repeated call has the same effect as one."""


class Platform:
    """The calls by a client that may act as a runner."""

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
    """Convert a value between the SDK's types and ours, whose fields have the same names."""
    return msgspec.convert(value, kind, from_attributes=True)


def _bounded(failure: Failure) -> ExportFailure:
    message = failure.message
    if len(message) > MAX_MESSAGE_CHARS:
        # The end of a long message is the most useful part: a stack trace ends in its cause.
        half = MAX_MESSAGE_CHARS // 2 - 2
        message = f"{message[:half]}\n…\n{message[-half:]}"
    return ExportFailure(failure.code[:MAX_CODE_CHARS] or "unknown", message)
