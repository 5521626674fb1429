# Generated from aio/resources/exports.py: `make generate`. Do not edit.
"""Exports: topics that are written into tables of a lake, run by run."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import datetime

from packetboat.calls import exports as calls
from packetboat.models.exports import ExportKind, ExportRun
from packetboat.sync.operations.exports import ExportsOperations
from packetboat.sync.sender import Sender
from packetboat.sync.waiting import pause

LOOK_S = 1.0
OUTAGE_S = 60.0
"""Seconds of an outage through which a wait for a run goes on."""


class Exports(ExportsOperations):
    """Exports: topics that are written into tables of a lake, run by run."""

    def run(
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
    ) -> ExportHandle:
        """Ask for a run, which a runner carries out. At most one run of kind `export` waits; asking
        again returns that one. `backfill` writes a range of times or offsets anew, in place of the
        rows that the table has of it; `reconcile` compares the table with the log; `maintain`
        tidies the table. Ranges are of every partition and topic unless `topic` or `partition` is
        given; `to_time` and `to_offset` are one past the last.

        `(client.exports.run(name)).wait()` is the run once it is finished.
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
        run = self._sender.send(call, timeout_s)
        return ExportHandle(self._sender, name, run.number)

    def handle(self, name: str, number: int) -> ExportHandle:
        """Return the handle of a run that another program asked for."""
        return ExportHandle(self._sender, name, number)


class ExportHandle:
    """One run of an export: how it goes, and what can be done about it.

    Made by `client.exports.run` and `client.exports.handle`; it holds nothing but the name of
    the export and the number of the run."""

    def __init__(self, sender: Sender, name: str, number: int) -> None:
        self.name = name
        self.number = number
        self._sender = sender

    def progress(self, *, timeout_s: float | None = None) -> ExportRun:
        """Return the run as it stands now: its state, its counts, `fraction`."""
        return self._sender.send(calls.get_export_run(self.name, self.number), timeout_s)

    def wait(
        self,
        *,
        timeout_s: float | None = None,
        progress: Callable[[ExportRun], object] | None = None,
        progress_every_s: float = LOOK_S,
    ) -> ExportRun:
        """Return the run once it is finished; its `state` says how it ended.

        `progress` is called with it about each `progress_every_s`. Raises TimeoutError after
        `timeout_s`; the run then continues.
        """
        ends_s = time.monotonic() + (float("inf") if timeout_s is None else timeout_s)
        while True:
            call = calls.get_export_run(self.name, self.number)
            run = self._sender.send(call, timeout_s=OUTAGE_S)
            if progress is not None:
                progress(run)
            if run.finished:
                return run
            left_s = ends_s - time.monotonic()
            if left_s <= 0:
                raise TimeoutError(f"run {self.number} of {self.name} goes on after {timeout_s} s")
            pause(min(progress_every_s, left_s))

    def log(self, *, timeout_s: float | None = None) -> str:
        """Return the log of the run."""
        return self._sender.send(calls.get_export_run_log(self.name, self.number), timeout_s)

    def cancel(self, *, timeout_s: float | None = None) -> ExportRun:
        """Cancel the run: it commits nothing more. A finished run stays as it is."""
        return self._sender.send(calls.cancel_export_run(self.name, self.number), timeout_s)
