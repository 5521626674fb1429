"""The runs of cron expressions, and the choice of those to make now. Pure.

Expressions have five fields (minute, hour, day of month, month, day of week) or are a nickname such
as `@hourly`, and are read in a time zone. In the night when clocks go forward, a run in the hour
that is left out is made when that hour is over. When they go back, a run in the hour that comes
twice is made once, the first time. An expression whose minute or hour starts with `*` follows the
passing time instead: it leaves nothing out and runs in both hours.

A run is missed if it is more than `GRACE_S` late before it was made, or if another one follows that
is late, too:

    skip      missed runs are not made
    latest    only the latest of the runs that are due is made
    all       every run is made, and if there are more than `MAX_RUNS`, the latest of them
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice, takewhile
from typing import NamedTuple
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from openapi.common import MAX_CRON_CHARS

NICKNAMES = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
_FIELDS = {
    "minute": ("minute", "0 to 59"),
    "hour": ("hour", "0 to 23"),
    "day-of-month": ("day of month", "1 to 31 and `L`"),
    "month": ("month", "1 to 12 and `jan` to `dec`"),
    "day-of-week": ("day of week", "0 to 7, `sun` to `sat`, `#` and `L`"),
}
"""The name of each field and its values, by the library's name of the field."""
ATTRIBUTE_SCHEDULE = "packetboat-schedule"
ATTRIBUTE_TIME = "packetboat-scheduled-time"
"""The attributes that a run of a schedule adds to its message: the schedule, and the time."""
GRACE_S = 60
MAX_RUNS = 1000
"""Runs of one schedule that are made after a time in which none could be."""
MAX_COUNTED = 10_000
"""Runs of one schedule that a plan counts; earlier ones are neither made nor counted."""
MINUTE = timedelta(minutes=1)
_ANY_TIME = datetime(2026, 1, 1, tzinfo=UTC)
_NEVER = "never runs: no month of the field month has a day of the field day of month"


class BadSchedule(ValueError):
    """The expression or the time zone is wrong; `field` is `cron` or `time_zone`."""

    def __init__(self, field: str, detail: str) -> None:
        super().__init__(detail)
        self.field = field


class Plan(NamedTuple):
    """The runs to `make` in order, the number of `missed` ones, and the first run after now, if
    any.
    """

    make: tuple[datetime, ...]
    missed: int
    then: datetime | None


def check(cron: str, time_zone: str) -> None:
    """Check an expression and a time zone; raises BadSchedule."""
    expression = _expression(cron)
    try:
        _zone(time_zone)
    except (KeyError, ValueError, OSError) as error:
        detail = "a name of the IANA time zone database, such as Europe/Berlin"
        raise BadSchedule("time_zone", detail) from error
    try:
        CronSim(expression, _ANY_TIME)
    except CronSimError as error:
        detail = _NEVER if _is_of_no_month(expression) else _fault(str(error))
        raise BadSchedule("cron", detail) from error


def _is_of_no_month(expression: str) -> bool:
    """Return whether an expression would run in other months.

    Its fields are right then, and its days never come.
    """
    minute, hour, day, month, weekday = expression.split()
    try:
        CronSim(" ".join((minute, hour, day, "*", weekday)), _ANY_TIME)
        CronSim(" ".join((minute, hour, "*", month, weekday)), _ANY_TIME)
    except CronSimError:
        return False
    return True


def _fault(reason: str) -> str:
    """Return the text about the wrong field of an expression, from the library's message."""
    for name, (field, takes) in _FIELDS.items():
        if name in reason.lower():
            return f"the field {field} is wrong: it takes {takes}, with `,`, `-`, `/` and `*`"
    return "is no cron expression, or one that never runs"


def runs_after(cron: str, time_zone: str, after: datetime) -> Iterator[datetime]:
    """Yield runs in UTC, ascending, until no run comes in 50 years.

    Raises BadSchedule.

    The runs do not depend on where it begins: the first of the repeated hour, say, is not given
    again from within that hour.
    """
    for run in CronSim(_expression(cron), after.astimezone(_zone(time_zone))):
        moment = run.astimezone(UTC)
        if moment > after:
            yield moment


def next_run(cron: str, time_zone: str, after: datetime) -> datetime | None:
    """Return the first run after a moment, in UTC."""
    return next(runs_after(cron, time_zone, after), None)


def plan(cron: str, time_zone: str, missed_runs: str, next_at: datetime, now: datetime) -> Plan:
    """Return what to do about the runs from `next_at` (which is one of them) up to now."""
    if next_at > now:
        return Plan((), 0, next_at)
    due = _due(cron, time_zone, next_at, now)
    make = _chosen(missed_runs, due, now)
    return Plan(make, len(due) - len(make), next_run(cron, time_zone, now))


def _due(cron: str, time_zone: str, next_at: datetime, now: datetime) -> list[datetime]:
    """Return the runs from `next_at` to now.

    If there are more than `MAX_COUNTED`, the latest of them are returned, at least `MAX_RUNS`.
    """
    runs = takewhile(lambda run: run <= now, runs_after(cron, time_zone, next_at))
    due = list(islice(runs, MAX_COUNTED))
    if len(due) < MAX_COUNTED:
        return [next_at, *due]
    latest: deque[datetime] = deque(maxlen=MAX_COUNTED)
    window = MAX_COUNTED * MINUTE  # a run is at least a minute from the next
    while len(latest) < MAX_RUNS:
        start = max(next_at, now - window)
        latest.clear()
        latest.extend(takewhile(lambda run: run <= now, runs_after(cron, time_zone, start)))
        window *= 4
    return list(latest)


def _chosen(missed_runs: str, due: list[datetime], now: datetime) -> tuple[datetime, ...]:
    match missed_runs:
        case "all":
            return tuple(due[-MAX_RUNS:])
        case "latest":
            return (due[-1],)
    return (due[-1],) if now - due[-1] <= timedelta(seconds=GRACE_S) else ()


def _expression(cron: str) -> str:
    if len(cron) > MAX_CRON_CHARS:
        raise BadSchedule("cron", f"at most {MAX_CRON_CHARS} characters")
    expression = NICKNAMES.get(cron.strip().lower(), cron)
    if len(expression.split()) != 5:
        names = ", ".join(NICKNAMES)
        raise BadSchedule("cron", f"five fields (minute hour day month weekday), or one of {names}")
    return expression


@lru_cache(maxsize=1000)
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)
