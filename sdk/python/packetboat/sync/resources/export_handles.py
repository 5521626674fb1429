# Generated from aio/resources/export_handles.py: `make generate`. Do not edit.
"""One run of an export: how it goes, and what can be done about it."""

from __future__ import annotations

import time
from collections.abc import Callable

from packetboat.calls import exports as calls
from packetboat.models.exports import ExportRun
from packetboat.sync.sender import Sender
from packetboat.sync.waiting import pause

LOOK_S = 1.0
OUTAGE_S = 60.0
"""A wait for a run goes on through so much."""


class ExportHandle:
    """Made by `client.exports.run` and `client.exports.handle`; it holds nothing but the name of
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
