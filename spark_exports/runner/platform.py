"""A runner's requests to the platform, with the values of `order.py`, through the SDK's client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec
from packetboat import AsyncClient
from packetboat.models.export_runs import ClaimedExportRun, ExportLease, LanePosition, LaneRange
from packetboat.models.exports import ExportFailure, ExportProgress, ExportResult

from spark_exports.order import Progress

EndState = Literal["succeeded", "failed", "cancelled"]
MAX_CODE_CHARS = 64
MAX_MESSAGE_CHARS = 4_096


class ExportRuns(Protocol):
    """The runner's calls.

    Each raises PacketboatError, and Conflict if the run is not ours any more.
    """

    async def claim(
        self, runner: str, lakes: Sequence[str], *, lease_seconds: float, wait_seconds: float
    ) -> ClaimedExportRun | None:
        """Claim a run; return None if there was none within the wait."""

    async def plan(
        self, uid: str, lease: str, positions: Sequence[LanePosition]
    ) -> list[LaneRange]:
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
    ) -> ExportLease:
        """Renew the lease for its full time, from now on."""

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
        """Report the end of a run; a repeated call has the same effect as one."""


class Platform:
    """The calls by a client that may act as a runner."""

    def __init__(self, client: AsyncClient) -> None:
        self._runs = client.export_runs

    async def claim(
        self, runner: str, lakes: Sequence[str], *, lease_seconds: float, wait_seconds: float
    ) -> ClaimedExportRun | None:
        return await self._runs.claim(
            runner, lakes, lease_seconds=lease_seconds, wait_seconds=wait_seconds
        )

    async def plan(
        self, uid: str, lease: str, positions: Sequence[LanePosition]
    ) -> list[LaneRange]:
        return list(await self._runs.plan(uid, lease, positions))

    async def renew(
        self,
        uid: str,
        lease: str,
        *,
        lease_seconds: float,
        progress: Progress | None,
        log: str | None,
    ) -> ExportLease:
        return await self._runs.renew(
            uid,
            lease,
            lease_seconds=lease_seconds,
            progress=None if progress is None else _untagged(progress),
            log=log,
        )

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
        await self._runs.finish(
            uid,
            lease,
            state,
            result=result,
            positions=positions,
            failure=None if failure is None else _bounded(failure),
            retry=retry,
            log=log,
        )


def _untagged(progress: Progress) -> ExportProgress:
    """Return the progress without the tag that it has among the lines of a driver."""
    return ExportProgress(**msgspec.structs.asdict(progress))


def _bounded(failure: ExportFailure) -> ExportFailure:
    message = failure.message
    if len(message) > MAX_MESSAGE_CHARS:
        # The end of a long message is the most useful part: a stack trace ends in its cause.
        half = MAX_MESSAGE_CHARS // 2 - 2
        message = f"{message[:half]}\n…\n{message[-half:]}"
    return ExportFailure(failure.code[:MAX_CODE_CHARS] or "unknown", message)
