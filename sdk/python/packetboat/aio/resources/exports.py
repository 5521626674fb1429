"""Exports: topics that are written into tables of a lake, run by run."""

from __future__ import annotations

from datetime import datetime

from packetboat.aio.operations.exports import AsyncExportsOperations
from packetboat.aio.resources.export_handles import AsyncExportHandle
from packetboat.calls import exports as calls
from packetboat.models.exports import ExportKind


class AsyncExports(AsyncExportsOperations):
    """Exports: topics that are written into tables of a lake, run by run."""

    async def run(
        self,
        name: str,
        *,
        kind: ExportKind = "export",
        from_time: datetime | None = None,
        to_time: datetime | None = None,
        from_offset: int | None = None,
        to_offset: int | None = None,
        topic: str | None = None,
        partition: int | None = None,
        timeout_s: float | None = None,
    ) -> AsyncExportHandle:
        """Ask for a run, which a runner carries out. At most one run of kind `export` waits; asking
        again returns that one. `backfill` writes a range of times or offsets anew, in place of the
        rows that the table has of it; `reconcile` compares the table with the log; `maintain`
        tidies the table. Ranges are of every partition and topic unless `topic` or `partition` is
        given; `to_time` and `to_offset` are one past the last.

        `await (await client.exports.run(name)).wait()` is the run once it is finished.
        """
        call = calls.run_export(
            name,
            kind=kind,
            from_time=from_time,
            to_time=to_time,
            from_offset=from_offset,
            to_offset=to_offset,
            topic=topic,
            partition=partition,
        )
        run = await self._sender.send(call, timeout_s)
        return AsyncExportHandle(self._sender, name, run.number)

    def handle(self, name: str, number: int) -> AsyncExportHandle:
        """Return the handle of a run that another program asked for."""
        return AsyncExportHandle(self._sender, name, number)
