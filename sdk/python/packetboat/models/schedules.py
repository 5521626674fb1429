# Generated from openapi/: `make generate`. Do not edit.
"""Messages that are published by the clock."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Literal, TypedDict

import msgspec

from packetboat.models.data import Data
from packetboat.models.messages import Content

MissedRuns = Literal["skip", "latest", "all"]


class ScheduleMessage(msgspec.Struct, frozen=True, kw_only=True):
    """The message of each run. Runs add the attributes `packetboat-schedule` and
    `packetboat-scheduled-time`."""

    data: Data
    """Bytes are sent as they are, text as UTF-8, anything else as JSON."""
    content_type: str | None = None
    key: str | None = None
    """The key of the message."""
    attributes: Mapping[str, str] | None = None
    ttl_seconds: float | None = None
    priority: int = 0
    """A number from 0 to 9; messages of priority 9 are the most urgent."""


class ScheduleChanges(TypedDict, total=False):
    """Fields of a schedule that may be changed; the others stay."""

    topic: str
    """The topic that its messages are published to."""
    cron: str
    """A plan of minute, hour, day of month, month and day of week; or @hourly, @daily, @weekly,
    @monthly or @yearly."""
    message: ScheduleMessage
    time_zone: str
    """A name of the IANA time zone database."""
    missed_runs: MissedRuns
    """The rule for runs that could not be made in their minute."""
    paused: bool
    labels: Mapping[str, str]


class ScheduleSettings(TypedDict, total=False):
    """Fields of a new schedule beside its topic, cron and message; the others get the server's
    defaults."""

    time_zone: str
    """A name of the IANA time zone database."""
    missed_runs: MissedRuns
    """The rule for runs that could not be made in their minute."""
    paused: bool
    labels: Mapping[str, str]


class ScheduledMessage(Content, frozen=True, kw_only=True):
    """The message of each run."""

    ttl_seconds: float | None = None


class Schedule(msgspec.Struct, frozen=True):
    """A message that is published by the clock."""

    name: str
    topic: str
    """The topic that its messages are published to."""
    cron: str
    """A plan of minute, hour, day of month, month and day of week; or @hourly, @daily, @weekly,
    @monthly or @yearly."""
    message: ScheduledMessage
    time_zone: str
    """A name of the IANA time zone database."""
    missed_runs: str
    """The rule for runs that could not be made in their minute."""
    paused: bool
    created_at: datetime
    updated_at: datetime
    labels: dict[str, str] = {}
    next_runs: tuple[datetime, ...] = ()
    last_run: datetime | None = None
    last_message_id: str | None = None
    runs: int = 0
    """The number of runs that were made since the schedule was created."""
    missed: int = 0
    """The number of runs that were passed over."""
    failure: str | None = None
    """The reason that the run that is due cannot be made now."""
    etag: str | None = None
    """For `if_match`; None in a listing."""


class ScheduleRun(msgspec.Struct, frozen=True):
    """The message that a run published."""

    message_id: str
    partition: int
    offset: int
