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
    """What each run publishes. Runs add the attributes `packetboat-schedule` and
    `packetboat-scheduled-time`."""

    data: Data
    content_type: str | None = None
    key: str | None = None
    attributes: Mapping[str, str] | None = None
    ttl_seconds: float | None = None
    priority: int = 0


class ScheduleChanges(TypedDict, total=False):
    """What of a schedule may be changed; what is not given stays."""

    topic: str
    cron: str
    message: ScheduleMessage
    time_zone: str
    missed_runs: MissedRuns
    paused: bool
    labels: Mapping[str, str]


class ScheduleSettings(TypedDict, total=False):
    """What a schedule may be made with beside its topic, cron and message."""

    time_zone: str
    """A name of the IANA time zone database; UTC unless given."""
    missed_runs: MissedRuns
    """What becomes of runs that could not be made in their minute; `skip` unless given."""
    paused: bool
    labels: Mapping[str, str]


class ScheduledMessage(Content, frozen=True, kw_only=True):
    """What each run publishes."""

    ttl_seconds: float | None = None


class Schedule(msgspec.Struct, frozen=True):
    """A message that is published by the clock."""

    name: str
    topic: str
    cron: str
    time_zone: str
    missed_runs: str
    message: ScheduledMessage
    paused: bool
    next_runs: tuple[datetime, ...]
    created_at: datetime
    updated_at: datetime
    last_run: datetime | None = None
    last_message_id: str | None = None
    runs: int = 0
    """Made since it was created."""
    missed: int = 0
    """Passed over."""
    failure: str | None = None
    """Why the run that is due cannot be made now."""
    labels: dict[str, str] = {}
    etag: str | None = None
    """For `if_match`; None in a listing."""


class ScheduleRun(msgspec.Struct, frozen=True):
    """What a run published."""

    message_id: str
    partition: int
    offset: int
