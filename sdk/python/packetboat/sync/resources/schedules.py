# generated from aio/resources/schedules.py by generate_sync.py; do not edit
"""Messages that are published by the clock."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Unpack

from packetboat.calls import schedules as calls
from packetboat.models import (
    Page,
    Schedule,
    ScheduleChanges,
    ScheduleMessage,
    ScheduleRun,
    ScheduleSettings,
)
from packetboat.sync.resources.pages import every
from packetboat.sync.sender import Sender


class Schedules:
    """Messages that are published by the clock."""

    def __init__(self, sender: Sender) -> None:
        self._sender = sender

    def create(
        self,
        name: str,
        topic: str,
        cron: str,
        message: ScheduleMessage,
        *,
        timeout_s: float | None = None,
        **settings: Unpack[ScheduleSettings],
    ) -> Schedule:
        """`cron` is minute, hour, day of month, month and day of week, or `@hourly`, `@daily`, ….
        Raises Conflict where the name is taken."""
        body = {"topic": topic, "cron": cron, "message": message, **settings}
        return self._sender.send(calls.create_schedule(name, body), timeout_s)

    def get(self, name: str, *, timeout_s: float | None = None) -> Schedule:
        """Raises NotFound."""
        return self._sender.send(calls.get_schedule(name), timeout_s)

    def list(self, *, page_size: int = 100, timeout_s: float | None = None) -> Iterator[Schedule]:
        """All of them, page by page."""
        return every(self._sender, lambda token: calls.list_schedules(page_size, token), timeout_s)

    def page(
        self, *, page_size: int = 100, page_token: str | None = None, timeout_s: float | None = None
    ) -> Page[Schedule]:
        """One page; `page_token` is that of the page before."""
        return self._sender.send(calls.list_schedules(page_size, page_token), timeout_s)

    def put(
        self,
        name: str,
        topic: str,
        cron: str,
        message: ScheduleMessage,
        *,
        if_match: str | None = None,
        timeout_s: float | None = None,
        **settings: Unpack[ScheduleSettings],
    ) -> Schedule:
        """Makes it, or replaces it; what is not given gets its default."""
        body = {"topic": topic, "cron": cron, "message": message, **settings}
        return self._sender.send(calls.put_schedule(name, body, if_match), timeout_s)

    def update(
        self,
        name: str,
        *,
        if_match: str | None = None,
        timeout_s: float | None = None,
        **changes: Unpack[ScheduleChanges],
    ) -> Schedule:
        """Changes what is given; the rest stays."""
        return self._sender.send(calls.change_schedule(name, changes, if_match), timeout_s)

    def delete(
        self, name: str, *, if_match: str | None = None, timeout_s: float | None = None
    ) -> None:
        """Raises NotFound."""
        self._sender.send(calls.delete_schedule(name, if_match), timeout_s)

    def next_runs(
        self, name: str, *, count: int = 10, timeout_s: float | None = None
    ) -> tuple[datetime, ...]:
        """When it runs next, up to 100."""
        return self._sender.send(calls.next_runs(name, count), timeout_s)

    def pause(
        self, name: str, *, if_match: str | None = None, timeout_s: float | None = None
    ) -> Schedule:
        """It publishes nothing until it is resumed."""
        return self._sender.send(calls.pause_schedule(name, if_match), timeout_s)

    def resume(
        self, name: str, *, if_match: str | None = None, timeout_s: float | None = None
    ) -> Schedule:
        """Runs that it passed over meanwhile are not made up for."""
        return self._sender.send(calls.resume_schedule(name, if_match), timeout_s)

    def run(self, name: str, *, timeout_s: float | None = None) -> ScheduleRun:
        """Publishes its message now, besides its runs, also while it is paused. Raises
        UnknownOutcome where it may have been: each call publishes once more."""
        return self._sender.send(calls.run_schedule(name), timeout_s)
