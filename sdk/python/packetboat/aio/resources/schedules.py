# Generated from openapi/: `make generate`. Do not edit.
"""Schedules: they publish messages at times given by a cron expression."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import datetime
from typing import Unpack

from packetboat.aio.resources.pages import every
from packetboat.aio.sender import AsyncSender
from packetboat.calls import messaging as calls
from packetboat.models import (
    Page,
    Schedule,
    ScheduleChanges,
    ScheduleMessage,
    ScheduleRun,
    ScheduleSettings,
)


class AsyncSchedules:
    """Schedules: they publish messages at times given by a cron expression."""

    def __init__(self, sender: AsyncSender) -> None:
        self._sender = sender

    async def create(
        self,
        name: str,
        topic: str,
        cron: str,
        message: ScheduleMessage,
        *,
        timeout_s: float | None = None,
        **settings: Unpack[ScheduleSettings],
    ) -> Schedule:
        """Create a schedule. `cron` is minute, hour, day of month, month and day of week, or
        `@hourly`, `@daily`, …. Raise Conflict where the name is taken."""
        return await self._sender.send(
            calls.create_schedule(name, topic, cron, message, settings), timeout_s
        )

    async def get(self, name: str, *, timeout_s: float | None = None) -> Schedule:
        """Return the schedule with its next runs. Raise NotFound where there is none of this
        name."""
        return await self._sender.send(calls.get_schedule(name), timeout_s)

    def list(
        self, *, page_size: int = 100, timeout_s: float | None = None
    ) -> AsyncIterator[Schedule]:
        """Iterate over all of them, page by page."""
        return every(self._sender, lambda token: calls.list_schedules(page_size, token), timeout_s)

    async def page(
        self, *, page_size: int = 100, page_token: str | None = None, timeout_s: float | None = None
    ) -> Page[Schedule]:
        """Return one page; `page_token` is that of the page before."""
        return await self._sender.send(calls.list_schedules(page_size, page_token), timeout_s)

    async def put(
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
        """Create or replace the schedule; fields that are not given get their defaults."""
        return await self._sender.send(
            calls.put_schedule(name, topic, cron, message, settings, if_match), timeout_s
        )

    async def update(
        self,
        name: str,
        *,
        if_match: str | None = None,
        timeout_s: float | None = None,
        **changes: Unpack[ScheduleChanges],
    ) -> Schedule:
        """Change the fields that are given; the others stay."""
        return await self._sender.send(calls.change_schedule(name, changes, if_match), timeout_s)

    async def delete(
        self, name: str, *, if_match: str | None = None, timeout_s: float | None = None
    ) -> None:
        """Delete the schedule. Raise NotFound where there is none of this name."""
        await self._sender.send(calls.delete_schedule(name, if_match), timeout_s)

    async def next_runs(
        self, name: str, *, count: int = 10, timeout_s: float | None = None
    ) -> tuple[datetime, ...]:
        """Return the times of its next runs, up to 100."""
        return await self._sender.send(calls.next_runs(name, count), timeout_s)

    async def pause(
        self, name: str, *, if_match: str | None = None, timeout_s: float | None = None
    ) -> Schedule:
        """Publish nothing until the schedule is resumed."""
        return await self._sender.send(calls.pause_schedule(name, if_match), timeout_s)

    async def resume(
        self, name: str, *, if_match: str | None = None, timeout_s: float | None = None
    ) -> Schedule:
        """Go on with the next run; those of the pause are not made up for."""
        return await self._sender.send(calls.resume_schedule(name, if_match), timeout_s)

    async def run(self, name: str, *, timeout_s: float | None = None) -> ScheduleRun:
        """Publish its message now, besides its runs, also while it is paused. Raise UnknownOutcome
        where the message may have been published: each call publishes once more."""
        return await self._sender.send(calls.run_schedule(name), timeout_s)
