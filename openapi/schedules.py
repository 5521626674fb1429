"""Messages that are published by the clock."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, UnsetType

from openapi.common import (
    CONFLICT,
    ETAG,
    FORBIDDEN_OR_FULL,
    IF_MATCH,
    RATE_LIMITED,
    STORAGE_FULL,
    TOO_MANY_CHANGES_OR_WORK,
    UNPROCESSABLE,
    CreatedAt,
    Cron,
    Labels,
    MessageId,
    Name,
    NextPageToken,
    Offset,
    PartitionNumber,
    TimeZone,
    UpdatedAt,
    created,
)
from openapi.contract import Answer, Body, Operation, Parameter, no_content, ok, table
from openapi.patch import patch_of
from openapi.publish import MAX_TTL_S, Key, Priority, ShortText

MissedRuns = Literal["skip", "latest", "all"]
Base64 = Annotated[str, Meta(extra_json_schema={"contentEncoding": "base64"})]
TtlSeconds = Annotated[float, Meta(ge=0.001, le=MAX_TTL_S)]


class ScheduleMessage(Body):
    """The message of each run, with either data or data_base64. Runs add the attributes
    packetboat-schedule and packetboat-scheduled-time."""

    data: Any = UNSET
    """JSON, or a string, which is text where content_type is not JSON."""
    data_base64: Base64 | None = None
    """The body in base64, instead of `data`."""
    content_type: ShortText | None = None
    """The media type of the body. Null: `text/plain` for a string as `data`, JSON for other `data`,
    and none for `data_base64`."""
    key: Key | None = None
    attributes: dict[str, str] = {}
    """The attributes of the message, up to 100; runs add theirs."""
    ttl_seconds: TtlSeconds | None = None
    """Seconds after which the message expires, if it is not delivered; null: never."""
    priority: Priority = 0
    """A number from 0 to 9; messages of priority 9 are the most urgent."""


class SchedulePut(Body, kw_only=True):
    """A schedule as a whole; its name may be left out."""

    FIXED = ("name",)
    name: Name | UnsetType = UNSET
    """The name of the schedule; that of the path, if it is given."""
    topic: str
    """The topic that its messages are published to."""
    cron: Cron
    """A plan of minute, hour, day of month, month and day of week; or @hourly, @daily, @weekly,
    @monthly or @yearly."""
    message: ScheduleMessage
    """The message that each run publishes, with either `data` or `data_base64`."""
    time_zone: TimeZone = "UTC"
    """A name of the IANA time zone database."""
    missed_runs: MissedRuns = "skip"
    """The rule for runs that could not be made in their minute."""
    paused: bool = False
    """Whether the clock makes no runs of it."""
    labels: Labels = {}


SchedulePatch = patch_of(SchedulePut)


class ScheduleCreate(SchedulePut, kw_only=True):
    """A request to create a schedule."""

    name: Name
    """The name of the schedule, unique in the tenant."""


class ScheduledMessage(ScheduleMessage, Answer, kw_only=True):
    """The message of each run, as it is kept."""

    data_base64: Base64 | UnsetType = UNSET  # type: ignore[assignment]


class Schedule(SchedulePut, Answer, kw_only=True):
    """A schedule, and its next and last runs."""

    message: ScheduledMessage
    next_runs: Annotated[list[datetime], Meta(max_length=3)]
    """The times of the next runs; empty while it is paused."""
    last_run: datetime | None
    """The time of the last run, as planned; null before the first."""
    last_message_id: str | None
    """The id of the message of the last run; null before the first."""
    runs: int
    """The number of runs that were made since the schedule was created."""
    missed: int
    """The number of runs that were passed over."""
    failure: str | None
    """The reason that the run that is due cannot be made now."""
    created_at: CreatedAt
    updated_at: UpdatedAt


class SchedulePage(Answer):
    """One page of schedules."""

    schedules: list[Schedule]
    """The schedules of this page, by name."""
    next_page_token: NextPageToken


class NextRuns(Answer):
    """The times of coming runs."""

    next_runs: list[datetime]
    """The times of coming runs, the next first."""


class ScheduleRun(Answer):
    """The message that a run published."""

    message_id: MessageId
    partition: PartitionNumber
    offset: Offset


COUNT = Parameter(
    "count",
    "count",
    "query",
    "Most runs of the answer.",
    Annotated[int, Meta(ge=1, le=100)],
    default=10,
)

OPERATIONS = table(
    "schedules",
    Operation(
        id="listSchedules",
        route="GET /schedules",
        needs="read schedule:?",
        summary="List schedules",
        paged=True,
        answers=(ok(SchedulePage, "One page, by name."),),
    ),
    Operation(
        id="createSchedule",
        route="POST /schedules",
        needs="manage schedule:?",
        summary="Create a schedule",
        body=ScheduleCreate,
        answers=(created(Schedule, "The schedule, with its next runs."),),
        problems=(
            FORBIDDEN_OR_FULL,
            CONFLICT,
            TOO_MANY_CHANGES_OR_WORK,
        ),
    ),
    Operation(
        id="getSchedule",
        route="GET /schedules/{name}",
        needs="read schedule:name",
        summary="Get a schedule",
        answers=(ok(Schedule, "The schedule.", ETAG),),
    ),
    Operation(
        id="putSchedule",
        route="PUT /schedules/{name}",
        needs="manage schedule:name",
        summary="Create or replace a schedule",
        parameters=(IF_MATCH,),
        body=SchedulePut,
        answers=(
            ok(Schedule, "The schedule as it is now.", ETAG),
            created(Schedule, "The schedule, which was not there."),
        ),
        problems=(
            FORBIDDEN_OR_FULL,
            CONFLICT,
            TOO_MANY_CHANGES_OR_WORK,
        ),
    ),
    Operation(
        id="changeSchedule",
        route="PATCH /schedules/{name}",
        needs="manage schedule:name",
        summary="Change a schedule",
        parameters=(IF_MATCH,),
        body=SchedulePatch,
        answers=(ok(Schedule, "The schedule as it is now.", ETAG),),
        problems=(
            CONFLICT,
            TOO_MANY_CHANGES_OR_WORK,
        ),
    ),
    Operation(
        id="deleteSchedule",
        route="DELETE /schedules/{name}",
        needs="manage schedule:name",
        summary="Delete a schedule",
        parameters=(IF_MATCH,),
        answers=(no_content("It is gone."),),
    ),
    Operation(
        id="nextRuns",
        route="GET /schedules/{name}/next",
        needs="read schedule:name",
        summary="When it runs next",
        parameters=(COUNT,),
        answers=(ok(NextRuns, "Its runs from now on, as if it were not paused."),),
    ),
    Operation(
        id="pauseSchedule",
        route="POST /schedules/{name}:pause",
        needs="manage schedule:name",
        summary="Pause a schedule",
        parameters=(IF_MATCH,),
        answers=(ok(Schedule, "Its runs are not made until it is resumed.", ETAG),),
        problems=(UNPROCESSABLE,),
    ),
    Operation(
        id="resumeSchedule",
        route="POST /schedules/{name}:resume",
        needs="manage schedule:name",
        summary="Resume a schedule",
        parameters=(IF_MATCH,),
        answers=(
            ok(
                Schedule,
                ("It goes on with its next run; those of the pause are not made up for."),
                ETAG,
            ),
        ),
        problems=(UNPROCESSABLE,),
    ),
    Operation(
        id="runSchedule",
        route="POST /schedules/{name}:run",
        needs="manage schedule:name",
        summary="Publish its message now",
        description="Besides its runs, also while it is paused; each call publishes once more.",
        answers=(ok(ScheduleRun, "Where the message is."),),
        problems=(
            UNPROCESSABLE,
            RATE_LIMITED,
            STORAGE_FULL,
        ),
    ),
)
