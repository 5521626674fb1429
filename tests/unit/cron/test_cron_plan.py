from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cron.plan import (
    GRACE_S,
    MAX_COUNTED,
    MAX_RUNS,
    NICKNAMES,
    BadSchedule,
    check,
    next_run,
    plan,
    runs_after,
)

BERLIN = "Europe/Berlin"
MINUTE = timedelta(minutes=1)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def runs(cron: str, after: str, count: int, zone: str = BERLIN) -> list[str]:
    """Return the times of runs on the local clock."""
    found = islice(runs_after(cron, zone, at(after)), count)
    return [run.astimezone(ZoneInfo(zone)).strftime("%d %H:%M%z") for run in found]


def test_the_night_clocks_go_forward() -> None:
    """Clocks go from 02:00 to 03:00 on 2026-03-29; runs of that hour are made after it."""
    before = "2026-03-28 12:00"
    assert runs("30 2 * * *", before, 2) == ["29 03:00+0200", "30 02:30+0200"]
    assert runs("0,30 2,3 * * *", before, 3) == ["29 03:00+0200", "29 03:30+0200", "30 02:00+0200"]
    assert runs("30 * * * *", "2026-03-29 00:00", 2) == ["29 01:30+0100", "29 03:30+0200"]


def test_the_night_clocks_go_back() -> None:
    """On 2026-10-25, 03:00 becomes 02:00: a daily run happens once, an hourly one in both hours."""
    before = "2026-10-24 12:00"
    assert runs("30 2 * * *", before, 2) == ["25 02:30+0200", "26 02:30+0100"]
    assert runs("30 * * * *", "2026-10-24 23:45", 3) == [
        "25 02:30+0200",
        "25 02:30+0100",
        "25 03:30+0100",
    ]
    assert runs("30 2 * * *", "2026-10-25 00:45", 1) == ["26 02:30+0100"], "not again"


@pytest.mark.parametrize("name", NICKNAMES)
def test_nicknames_stand_for_expressions(name: str) -> None:
    check(name.upper(), BERLIN)
    moment = at("2026-05-05 05:05")
    assert next_run(name, BERLIN, moment) == next_run(NICKNAMES[name], BERLIN, moment)


@pytest.mark.parametrize(
    ("cron", "zone", "field", "said"),
    [
        ("* * * *", "UTC", "cron", "five fields (minute hour day month weekday), or one of @"),
        ("* * * * * *", "UTC", "cron", "five fields (minute hour day month weekday), or one of @"),
        ("60 * * * *", "UTC", "cron", "the field minute is wrong: it takes 0 to 59, with"),
        ("*/0 * * * *", "UTC", "cron", "the field minute is wrong: it takes 0 to 59, with"),
        ("0 0 31 2 *", "UTC", "cron", "never runs: no month of the field month has a day of"),
        ("0 0 31 2,4 *", "UTC", "cron", "never runs: no month of the field month has a day of"),
        ("0 0 32 2 *", "UTC", "cron", "the field day of month is wrong: it takes 1 to 31 and"),
        ("0 0 31 13 *", "UTC", "cron", "the field month is wrong: it takes 1 to 12 and"),
        ("@reboot", "UTC", "cron", "five fields (minute hour day month weekday), or one of @"),
        (" ".join(["1," * 60 + "1"] * 5), "UTC", "cron", "at most 200 characters"),
        ("* * * * *", "Mars/Olympus", "time_zone", "a name of the IANA time zone database"),
        ("* * * * *", "../../etc/passwd", "time_zone", "a name of the IANA time zone database"),
        ("* * * * *", "", "time_zone", "a name of the IANA time zone database"),
        ("* * * * *", "a\0b", "time_zone", "a name of the IANA time zone database"),
    ],
)
def test_what_is_refused_is_said_in_our_own_words(
    cron: str, zone: str, field: str, said: str
) -> None:
    with pytest.raises(BadSchedule) as refused:
        check(cron, zone)
    assert refused.value.field == field
    assert str(refused.value).startswith(said)


def test_policies_of_missed_runs() -> None:
    first, now = at("2026-01-01 10:00"), at("2026-01-01 12:30")
    due = [at(f"2026-01-01 {hour}:00") for hour in (10, 11, 12)]
    then = at("2026-01-01 13:00")
    assert plan("@hourly", "UTC", "skip", first, now) == ((), 3, then)
    assert plan("@hourly", "UTC", "latest", first, now) == ((due[-1],), 2, then)
    assert plan("@hourly", "UTC", "all", first, now) == (tuple(due), 0, then)
    for policy in ("skip", "latest", "all"):
        assert plan("@hourly", "UTC", policy, first, first) == ((first,), 0, due[1])
        assert plan("@hourly", "UTC", policy, first, first - MINUTE) == ((), 0, first)


def test_after_a_long_time_the_latest_runs_are_made_and_the_rest_counted() -> None:
    first, now = at("2020-01-01 00:00"), at("2026-01-01 00:00")
    for cron, step in (("* * * * *", MINUTE), ("0 * * * *", 60 * MINUTE)):
        found = plan(cron, "UTC", "all", first, now)
        assert found.make == tuple(now - n * step for n in reversed(range(MAX_RUNS)))
        assert 0 <= found.missed <= MAX_COUNTED
        assert found.then == now + step
    found = plan("* * * 1 *", "UTC", "all", at("2024-01-01 00:00"), at("2026-02-20 00:00"))
    assert found.make[-1] == at("2026-01-31 23:59")
    assert len(found.make) == MAX_RUNS
    found = plan("0 * * * *", "UTC", "all", now - 900 * 60 * MINUTE, now)
    assert (len(found.make), found.missed) == (901, 0), "more than MAX_COUNTED minutes, not runs"


CRONS = st.sampled_from(
    ["* * * * *", "*/7 * * * *", "30 2 * * *", "0,30 1-3 * * *", "15 * * * 0", "5 0 29 2 *"]
)
ZONES = st.sampled_from(["UTC", BERLIN, "America/St_Johns", "Pacific/Chatham", "Asia/Kolkata"])
MOMENTS = st.sampled_from(["2026-03-28 20:00", "2026-10-24 20:00", "2026-06-15 12:34"]).flatmap(
    lambda text: st.integers(0, 8 * 60).map(lambda minutes: at(text) + minutes * MINUTE)
)


@settings(max_examples=60, deadline=None)
@given(CRONS, ZONES, MOMENTS, st.integers(0, 240))
def test_runs_are_the_same_wherever_one_begins_to_look(
    cron: str, zone: str, moment: datetime, minutes: int
) -> None:
    later = moment + minutes * MINUTE
    seen = list(islice((run for run in runs_after(cron, zone, moment) if run > later), 3))
    assert seen == list(islice(runs_after(cron, zone, later), 3))
    assert seen == sorted(set(seen))


@settings(max_examples=60, deadline=None)
@given(
    CRONS.filter(lambda cron: "29" not in cron),
    ZONES,
    st.sampled_from(["skip", "latest", "all"]),
    MOMENTS,
    st.lists(st.integers(1, 5000), min_size=1, max_size=12),
)
def test_each_run_is_made_or_counted_once_whenever_it_is_looked_at(
    cron: str, zone: str, policy: str, start: datetime, pauses_s: list[int]
) -> None:
    """The model has all runs up to now, in order, each made or missed.

    A run that is made is in time, or the policy makes up for it.
    """
    next_at = next_run(cron, zone, start)
    now, made, missed = start, [], 0
    for pause_s in pauses_s:
        now += timedelta(seconds=pause_s)
        assert next_at is not None
        found = plan(cron, zone, policy, next_at, now)
        if policy == "skip":
            assert all(now - run <= timedelta(seconds=GRACE_S) for run in found.make)
        assert policy == "all" or len(found.make) <= 1
        assert policy != "latest" or bool(found.make) is (next_at <= now)
        made += found.make
        missed += found.missed
        next_at = found.then
    expected = list(takewhile(lambda run: run <= now, runs_after(cron, zone, start)))
    assert len(made) + missed == len(expected)
    assert made == sorted(set(made))
    assert set(made) <= set(expected)
    if policy == "all":
        assert made == expected
