# Generated from aio/operations/exports.py: `make generate`. Do not edit.
"""Exports: topics that are written into tables of a lake, run by run."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Unpack

from packetboat.calls import exports as calls
from packetboat.models import Page
from packetboat.models.exports import Export, ExportChanges, ExportRun, ExportSettings
from packetboat.sync.resources.pages import every
from packetboat.sync.sender import Sender


class ExportsOperations:
    """Exports: topics that are written into tables of a lake, run by run."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def create(
        self,
        name: str,
        topic: str,
        *,
        timeout_s: float | None = None,
        **settings: Unpack[ExportSettings],
    ) -> Export:
        """Create an export. `topic` may be a pattern, such as `orders-*`. Raise Conflict where the
        name is taken, or the table is another export's."""
        return self._sender.send(calls.create_export(name, topic, settings), timeout_s)

    def get(self, name: str, *, timeout_s: float | None = None) -> Export:
        """Return the export with its state: rows, lag, positions, the last run, the place of the
        table. Raise NotFound where there is none of this name."""
        return self._sender.send(calls.get_export(name), timeout_s)

    def list(
        self, *, topic: str | None = None, page_size: int = 100, timeout_s: float | None = None
    ) -> Iterator[Export]:
        """Iterate over all of them, or over those that a topic is part of, page by page."""
        return every(
            self._sender, lambda token: calls.list_exports(topic, page_size, token), timeout_s
        )

    def page(
        self,
        *,
        topic: str | None = None,
        page_size: int = 100,
        page_token: str | None = None,
        timeout_s: float | None = None,
    ) -> Page[Export]:
        """Return one page; `page_token` is that of the page before."""
        return self._sender.send(calls.list_exports(topic, page_size, page_token), timeout_s)

    def put(
        self,
        name: str,
        topic: str,
        *,
        if_match: str | None = None,
        timeout_s: float | None = None,
        **settings: Unpack[ExportSettings],
    ) -> Export:
        """Create or replace the export; fields that are not given get their defaults. Raise
        Conflict for a change of what an export is made with for good."""
        return self._sender.send(calls.put_export(name, topic, settings, if_match), timeout_s)

    def update(
        self,
        name: str,
        *,
        if_match: str | None = None,
        timeout_s: float | None = None,
        **changes: Unpack[ExportChanges],
    ) -> Export:
        """Change the fields that are given; the others stay."""
        return self._sender.send(calls.patch_export(name, changes, if_match), timeout_s)

    def delete(
        self, name: str, *, if_match: str | None = None, timeout_s: float | None = None
    ) -> None:
        """Delete the export and its history of runs; the table stays. Raise NotFound where there is
        none of this name."""
        self._sender.send(calls.delete_export(name, if_match), timeout_s)

    def pause(
        self, name: str, *, if_match: str | None = None, timeout_s: float | None = None
    ) -> Export:
        """Begin no run until the export is resumed. Messages that it has not exported stay stored,
        within the limits of the topic."""
        return self._sender.send(calls.pause_export(name, if_match), timeout_s)

    def resume(
        self, name: str, *, if_match: str | None = None, timeout_s: float | None = None
    ) -> Export:
        """Begin runs again; the next one takes all messages of the pause."""
        return self._sender.send(calls.resume_export(name, if_match), timeout_s)

    def runs(
        self, name: str, *, page_size: int = 100, timeout_s: float | None = None
    ) -> Iterator[ExportRun]:
        """Iterate over the runs of one export, the newest first, page by page."""
        return every(
            self._sender, lambda token: calls.list_export_runs(name, page_size, token), timeout_s
        )

    def runs_page(
        self,
        name: str,
        *,
        page_size: int = 100,
        page_token: str | None = None,
        timeout_s: float | None = None,
    ) -> Page[ExportRun]:
        """Return one page; `page_token` is that of the page before."""
        return self._sender.send(calls.list_export_runs(name, page_size, page_token), timeout_s)

    def get_run(self, name: str, number: int, *, timeout_s: float | None = None) -> ExportRun:
        """Return one run as it stands. Raise NotFound where there is none of this number."""
        return self._sender.send(calls.get_export_run(name, number), timeout_s)

    def cancel_run(self, name: str, number: int, *, timeout_s: float | None = None) -> ExportRun:
        """Cancel a run, which commits nothing more. A finished run stays as it is."""
        return self._sender.send(calls.cancel_export_run(name, number), timeout_s)

    def log(self, name: str, number: int, *, timeout_s: float | None = None) -> str:
        """Return the log of the run, line by line."""
        return self._sender.send(calls.get_export_run_log(name, number), timeout_s)
