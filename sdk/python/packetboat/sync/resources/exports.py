# Generated from aio/resources/exports.py: `make generate`. Do not edit.
"""Exports: topics that are written into tables of a lake, run by run."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Unpack

from packetboat.calls import exports as calls
from packetboat.models.exports import (
    Export,
    ExportChanges,
    ExportKind,
    ExportRun,
    ExportSettings,
)
from packetboat.models.page import Page
from packetboat.sync.resources.export_handles import ExportHandle
from packetboat.sync.resources.pages import every
from packetboat.sync.sender import Sender


class Exports:
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
        """`topic` may be a pattern, such as `orders-*`. Raises Conflict where the name is taken,
        or the table is another export's."""
        return self._sender.send(calls.create_export(name, {"topic": topic, **settings}), timeout_s)

    def get(self, name: str, *, timeout_s: float | None = None) -> Export:
        """With its state: rows, lag, positions, the last run, where the table is. Raises
        NotFound."""
        return self._sender.send(calls.get_export(name), timeout_s)

    def list(
        self, *, topic: str | None = None, page_size: int = 100, timeout_s: float | None = None
    ) -> Iterator[Export]:
        """All of them, or those that a topic is part of, page by page."""
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
        """One page; `page_token` is that of the page before."""
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
        """Makes it, or replaces it; what is not given gets its default. Raises Conflict for what
        an export is made with for good."""
        body = {"topic": topic, **settings}
        return self._sender.send(calls.put_export(name, body, if_match), timeout_s)

    def update(
        self,
        name: str,
        *,
        if_match: str | None = None,
        timeout_s: float | None = None,
        **changes: Unpack[ExportChanges],
    ) -> Export:
        """Changes what is given; the rest stays."""
        return self._sender.send(calls.patch_export(name, changes, if_match), timeout_s)

    def delete(
        self, name: str, *, if_match: str | None = None, timeout_s: float | None = None
    ) -> None:
        """The export and its history of runs; the table stays. Raises NotFound."""
        self._sender.send(calls.delete_export(name, if_match), timeout_s)

    def pause(
        self, name: str, *, if_match: str | None = None, timeout_s: float | None = None
    ) -> Export:
        """No run begins until it is resumed; messages that it has not exported stay stored, within
        the limits of the topic."""
        return self._sender.send(calls.pause_export(name, if_match), timeout_s)

    def resume(
        self, name: str, *, if_match: str | None = None, timeout_s: float | None = None
    ) -> Export:
        """Runs begin again; the next one takes all that came meanwhile."""
        return self._sender.send(calls.resume_export(name, if_match), timeout_s)

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
        """Asks for a run; a runner does it. Of kind `export` at most one waits: asked for again it
        is that one. `backfill` writes a range of times or offsets anew, in place of what the table
        has of it; `reconcile` compares the table with the log; `maintain` tidies the table. Ranges
        are of every partition and topic unless `topic` or `partition` is given; `to_time` and
        `to_offset` are one past the last.

        `(client.exports.run(name)).wait()` is the run once it is finished.
        """
        call = calls.run_export(
            name, kind, from_time, to_time, from_offset, to_offset, topic, partition
        )
        run = self._sender.send(call, timeout_s)
        return ExportHandle(self._sender, name, run.number)

    def handle(self, name: str, number: int) -> ExportHandle:
        """Of a run that was asked for elsewhere."""
        return ExportHandle(self._sender, name, number)

    def runs(
        self, name: str, *, page_size: int = 100, timeout_s: float | None = None
    ) -> Iterator[ExportRun]:
        """Of one export, the newest first, page by page."""
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
        """One page of them."""
        return self._sender.send(calls.list_export_runs(name, page_size, page_token), timeout_s)

    def get_run(self, name: str, number: int, *, timeout_s: float | None = None) -> ExportRun:
        """One run as it stands. Raises NotFound."""
        return self._sender.send(calls.get_export_run(name, number), timeout_s)

    def cancel_run(self, name: str, number: int, *, timeout_s: float | None = None) -> ExportRun:
        """It commits nothing more. A finished run stays as it is."""
        return self._sender.send(calls.cancel_export_run(name, number), timeout_s)

    def log(self, name: str, number: int, *, timeout_s: float | None = None) -> str:
        """What the run had to say, line by line."""
        return self._sender.send(calls.get_export_run_log(name, number), timeout_s)
