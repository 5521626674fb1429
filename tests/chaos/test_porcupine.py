"""The public checker accepts what is promised and refuses each breach of it, by the models in
tests/checker. Most of these histories are a few records long; each is written and read as those
of the torture are."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.chaos.history import (
    Act,
    CounterRead,
    CounterTry,
    Delivery,
    Drained,
    History,
    Lapse,
    Outcome,
    Publish,
    Read,
    Record,
    Seal,
    Stored,
    Subscription,
)
from tests.chaos.porcupine import UNDECIDED, UNREADABLE, NotHere, checker, judge, refusal, verdict

ACKED, NOT_DONE, UNKNOWN = Outcome.ACKED, Outcome.NOT_DONE, Outcome.UNKNOWN
Refusal = Callable[..., str]


@pytest.fixture
def refused(tmp_path: Path) -> Refusal:
    """Says why the records are refused; a skip where there is no checker."""
    try:
        checker()
    except NotHere as error:
        pytest.skip(str(error))
    return lambda *records: refusal(History("made-up", records), tmp_path)


def acked(payload: str, sent_s: float, offset: int, **more: Any) -> Publish:
    return Publish(payload, more.pop("key", None), sent_s, sent_s + 1, ACKED, 0, offset, **more)


def lost(
    payload: str, sent_s: float, key: str | None = None, outcome: Outcome = UNKNOWN
) -> Publish:
    return Publish(payload, key, sent_s, sent_s + 1, outcome)


def whole(*payloads: str, at_s: float = 90.0, partition: int = 0) -> Read:
    return Read("", partition, at_s, at_s + 1, 0, list(payloads), len(payloads))


# The log.


def test_a_log_with_unknown_and_refused_publishes_is_accepted(refused: Refusal) -> None:
    assert not refused(
        acked("a", 0, 0),
        lost("b", 1),
        lost("never stored", 1),
        lost("refused", 1, outcome=NOT_DONE),
        acked("c", 1.5, 2, key="k"),
        acked("d", 3, 3, key="k"),
        Read("", 0, 2.7, 4, 1, ["b", "c"], 3),
        whole("a", "b", "c", "d"),
    )


def test_publishes_at_the_same_time_may_be_in_any_order(refused: Refusal) -> None:
    assert not refused(acked("a", 0, 1), acked("b", 0.5, 0), whole("b", "a"))


@pytest.mark.parametrize(
    "records",
    [
        pytest.param([acked("a", 0, 0), acked("b", 2, 1), whole("a")], id="lost at the end"),
        pytest.param(
            [acked("a", 0, 0), acked("b", 2, 1), acked("c", 4, 2), whole("a", "c")],
            id="lost in the middle",
        ),
        pytest.param([acked("a", 0, 0), lost("b", 0), whole("b")], id="overwritten"),
        pytest.param([acked("a", 0, 0)], id="a partition that nobody found"),
        pytest.param([acked("a", 0, 1), whole("a")], id="elsewhere than the answer said"),
    ],
)
def test_a_lost_acknowledged_append_is_refused(refused: Refusal, records: list[Record]) -> None:
    other = [whole("x", partition=1), Publish("x", None, 0, 1, ACKED, 1, 0)]
    assert "refused: log /0" in refused(*records, *other)


@pytest.mark.parametrize(
    "records",
    [
        [acked("a", 0, 0), whole("a", "a")],
        [lost("a", 0), whole("a", "a")],
        [acked("a", 0, 0), whole("a"), whole("a", partition=1)],
        [lost("a", 0), whole("a"), whole("a", partition=1)],
        [acked("a", 0, 0), whole("a", at_s=5), acked("b", 8, 1), whole("a", "b", "a")],
    ],
    ids=["acknowledged", "unknown", "two partitions", "unknown, two partitions", "later"],
)
def test_a_duplicate_is_refused(refused: Refusal, records: list[Record]) -> None:
    assert "refused: log" in refused(*records)


@pytest.mark.parametrize(
    "records",
    [
        [acked("a", 0, 1), acked("b", 2, 0), whole("b", "a")],
        [lost("a", 2), acked("b", 0, 1), whole("a", "b")],
        [lost("a", 0, "k"), acked("b", 2, 0, key="k"), whole("b", "a")],
    ],
    ids=["acknowledged before it was sent", "sent after the next was acknowledged", "of a key"],
)
def test_a_reordering_is_refused(refused: Refusal, records: list[Record]) -> None:
    assert "refused: log" in refused(*records)


@pytest.mark.parametrize(
    ("read", "stale"),
    [
        (Read("", 0, 4, 5, 0, ["a"], 1), True),
        (Read("", 0, 2.5, 5, 0, ["a"], 1), False),
        (Read("", 0, 4, 5, 1, [], 1), True),
        (Read("", 0, 4, 5, 0, ["b"], 2), True),
        (Read("", 0, 0, 1.5, 1, ["b"]), True),
    ],
    ids=["an earlier end", "at the same time", "nothing new", "something else", "not sent yet"],
)
def test_a_stale_read_is_refused(refused: Refusal, read: Read, stale: bool) -> None:
    said = refused(acked("a", 0, 0), acked("b", 2, 1), read, whole("a", "b"))
    assert ("refused: log" in said) == stale


def test_a_refused_or_invented_message_in_the_log_is_refused(refused: Refusal) -> None:
    assert "refused: log" in refused(lost("a", 0, outcome=NOT_DONE), whole("a"))
    assert "refused: log" in refused(acked("a", 0, 0), whole("a", "x"))


def test_a_gap_is_refused(refused: Refusal) -> None:
    history = History("gap", [acked("a", 0, 0), acked("b", 0, 2)])
    history.add_logs("", {0: [Stored(0, "a", None), Stored(2, "b", None)]}, 90, 91)
    assert "no read of the whole log" in refused(*history.records)


def test_a_message_with_an_id_is_stored_once(refused: Refusal) -> None:
    first = Publish("a", None, 0, id="i")
    again = acked("a", 2, 0, id="i")
    known = acked("a", 4, 0, id="i", duplicate=True)
    assert not refused(first, again, known, whole("a"))
    assert not refused(first, known, whole("a"))
    twice = acked("a", 2, 1, id="i")
    assert "refused: log" in refused(first, twice, whole("a", "a"))
    elsewhere = acked("a", 4, 1, id="i", duplicate=True)
    assert "refused: log" in refused(again, acked("b", 2, 1), elsewhere, whole("a", "b"))


def test_nothing_is_stored_after_a_seal(refused: Refusal) -> None:
    seal = Seal("", 0, 2, 3, ACKED, 1)
    assert not refused(acked("a", 0, 0), seal, whole("a"))
    assert not refused(acked("a", 0, 0), acked("b", 2.5, 1), Seal("", 0, 2), whole("a", "b"))
    assert "refused: log" in refused(acked("a", 0, 0), seal, lost("b", 1), whole("a", "b"))
    quiet = [acked("a", 0, 0), seal, whole("a", at_s=5)]
    assert "refused: log" in refused(*quiet, acked("b", 8, 1), whole("a", "b"))


def test_a_log_is_judged_from_one_quiet_read_to_the_next(refused: Refusal) -> None:
    """Find a breach after such a read too, also in requests sent before it."""
    before = [acked("a", 0, 0, key="k"), lost("late", 1, "k"), whole("a", at_s=5)]
    assert not refused(*before, acked("b", 8, 1), whole("a", "b"))
    assert not refused(*before, acked("b", 8, 2), whole("a", "late", "b"))
    after = [acked("b", 8, 1, key="k"), whole("a", "b", "late")]
    assert "refused: log /0 from offset 1" in refused(*before, *after)
    overtaken = [lost("late", 0, "k"), acked("a", 2, 0, key="k"), whole("a", at_s=5)]
    assert "refused: log /0 from offset 1" in refused(*overtaken, whole("a", "late"))
    given_up = [msgspec.structs.replace(lost("late", 0, "k"), abandoned=True), *overtaken[1:]]
    assert not refused(*given_up, whole("a", "late")), "nobody waited for its answer"
    repeated = [acked("a", 0, 0, id="i"), whole("a", at_s=5), acked("a", 8, 1, id="i")]
    assert "refused: log /0 from offset 1" in refused(*repeated, whole("a", "a"))


def test_a_read_of_all_cuts_nothing_that_is_under_way(refused: Refusal) -> None:
    """The publish is answered after the read, which shows it, and the next is sent meanwhile."""
    slow = Publish("a", None, 0, 9, ACKED, 0, 0)
    assert not refused(slow, whole("a", at_s=5), acked("b", 7, 1), whole("a", "b"))


# Deliveries.

AT_LEAST, EXACTLY, AT_MOST = (
    Subscription("worker", "", kind, 5.0)
    for kind in ("at_least_once", "exactly_once", "at_most_once")
)


def given(
    pulled_s: float, acked_s: float = 0.0, outcome: Outcome = ACKED, what: str = "ack"
) -> Delivery:
    """Make a delivery that takes a tenth of a second, and an ack that takes another."""
    act = Act(what, acked_s - 0.1, acked_s, outcome)  # type: ignore[arg-type]
    return Delivery("worker", 0, 0, "a", pulled_s, pulled_s + 0.1, acts=[act] if acked_s else [])


@pytest.mark.parametrize(
    "records",
    [
        [AT_LEAST, given(2, 3), Drained("worker", 9)],
        [AT_LEAST, given(2, 3, UNKNOWN), given(7.1, 8)],
        [AT_LEAST, given(2, 3, UNKNOWN, "nack"), given(3.1, 4)],
        [AT_LEAST, given(2), given(7, 8), Drained("worker", 9)],
        [AT_LEAST, given(2, 3, ACKED, "nack"), given(3, 4), Drained("worker", 9)],
        [AT_LEAST, given(2), Lapse(3), given(3, 4), Drained("worker", 9)],
        [AT_LEAST, given(2, 2.5, UNKNOWN), Lapse(1), Lapse(3), given(2.6, 8)],
        [AT_LEAST, given(2, 8), given(7.2)],
        [AT_LEAST, given(2, 8, UNKNOWN), given(2, 9, ACKED, "found_acked"), Lapse(2)],
        [EXACTLY, given(2), given(7.2, 8), Drained("worker", 9)],
        [EXACTLY, given(2, 9, NOT_DONE), given(7.2, 8), Drained("worker", 9)],
        [EXACTLY, given(2, 9, UNKNOWN), given(7.2, 8), Drained("worker", 9)],
        [AT_MOST, given(2), Drained("worker", 9)],
    ],
)
def test_promised_deliveries_are_accepted(refused: Refusal, records: list[Record]) -> None:
    assert not refused(acked("a", 0, 0), *records)


def test_an_ack_that_is_sent_again_and_again_is_judged_as_one(refused: Refusal) -> None:
    """Two minutes were not enough for 87 of them, whose outcomes nobody knew."""
    many = Delivery("worker", 0, 0, "a", 2, 2.1)
    many.acts += [Act("ack", 3 + n / 10, 3.1 + n / 10, UNKNOWN) for n in range(80)]
    many.acts.append(Act("ack", 20, 20.1, ACKED))
    assert not refused(acked("a", 0, 0), AT_LEAST, many, Drained("worker", 30))
    assert "refused: message" in refused(acked("a", 0, 0), AT_LEAST, many, given(25))


@pytest.mark.parametrize(
    "records",
    [
        pytest.param([AT_LEAST, given(2, 3), given(3.1)], id="after an answered ack"),
        pytest.param([EXACTLY, given(2, 3), given(3.1)], id="after an answered exactly-once ack"),
        pytest.param([AT_LEAST, given(2, 3, ACKED, "found_acked"), given(3.1)], id="known acked"),
        pytest.param([AT_LEAST, given(2), given(4)], id="while a lease runs"),
        pytest.param([AT_LEAST, given(2), given(4), Lapse(5)], id="before the lapse"),
        pytest.param([AT_LEAST, given(40), Lapse(3), given(42)], id="long after a lapse"),
        pytest.param([AT_LEAST, given(2, 3, NOT_DONE, "nack"), given(4)], id="a refused nack"),
        pytest.param([AT_LEAST, given(2, 3, UNKNOWN), Drained("worker", 2.5)], id="not acked yet"),
        pytest.param([AT_LEAST, given(2), Drained("worker", 9)], id="never acked"),
        pytest.param([AT_LEAST, Drained("worker", 9)], id="never delivered"),
        pytest.param([EXACTLY, given(2, 9), given(7.2, 8)], id="acked by two leases"),
        pytest.param([AT_MOST, given(2), given(9)], id="at most once, and twice"),
    ],
)
def test_a_breach_of_what_is_promised_of_deliveries_is_refused(
    refused: Refusal, records: list[Record]
) -> None:
    assert "refused: message 0/0 of worker" in refused(acked("a", 0, 0), *records)


def test_a_delivery_of_what_nobody_published_is_refused(refused: Refusal) -> None:
    assert "refused: message" in refused(AT_LEAST, given(2, 3))
    assert "refused: message" in refused(AT_LEAST, acked("b", 0, 0), given(2, 3))
    assert "refused: message" in refused(AT_LEAST, acked("a", 5, 0), given(2, 3))


def test_a_repeat_of_a_winning_ack_is_never_refused(refused: Refusal) -> None:
    again = given(2, 3)
    again.acts.append(Act("ack", 4, 5, ACKED))
    assert not refused(EXACTLY, acked("a", 0, 0), again)
    again.acts.append(Act("ack", 6, 7, NOT_DONE))
    assert "refused: message" in refused(EXACTLY, acked("a", 0, 0), again)
    assert not refused(AT_LEAST, acked("a", 0, 0), again)


# Counters.


def step(expected: int, new: int, sent_s: float, outcome: Outcome = ACKED) -> CounterTry:
    return CounterTry(expected, new, sent_s, sent_s + 1, outcome)


def test_counters_are_judged(refused: Refusal) -> None:
    def final(value: int) -> CounterRead:
        return CounterRead("counter", 90, 91, value)

    raced = CounterTry(0, 9, 2, 3, NOT_DONE, current=1)
    assert not refused(step(0, 1, 0), raced, step(1, 2, 4, UNKNOWN), step(2, 3, 6), final(3))
    assert not refused(step(0, 1, 0), step(1, 2, 4, UNKNOWN), final(1))
    assert not refused(step(0, 1, 0, UNKNOWN), raced)
    for records in (
        [step(0, 1, 0), step(1, 2, 2), final(1)],
        [step(0, 1, 0), step(1, 2, 2, NOT_DONE), final(2)],
        [step(1, 2, 0), step(0, 1, 2), final(2)],
        [step(0, 1, 0), step(0, 2, 2), final(2)],
        [step(0, 1, 4), raced, final(1)],
        [CounterTry(0, 9, 2, 3, NOT_DONE, current=0), final(0)],
        [step(0, 1, 0), final(7)],
    ):
        assert "refused: counter" in refused(*records)


# The format and the program.


def test_a_history_is_read_as_it_was_written(tmp_path: Path) -> None:
    records = [
        acked("a", 0, 0, key="k", id="i"),
        whole("a"),
        Seal("", 0, 2, 3, ACKED, 1),
        EXACTLY,
        given(2, 3),
        Lapse(3),
        Drained("worker", 9),
        step(0, 1, 0),
        CounterRead("counter", 90, 91, 1),
    ]
    History("all-kinds", records).write(tmp_path / "history.jsonl")
    loaded = History.load(tmp_path / "history.jsonl")
    assert (loaded.name, loaded.records) == ("all-kinds", records)


@pytest.mark.parametrize(
    "lines",
    [
        '{"kind":"history","version":2,"name":"later"}',
        '{"kind":"history","version":1,"name":"x"}\n{"kind":"dream"}',
        '{"kind":"history","version":1,"name":"x"}\n{"kind":"lapse","at_s":1.0,"why":"?"}',
    ],
    ids=["a later version", "an unknown kind", "an unknown field"],
)
def test_what_the_checker_does_not_know_is_not_passed_over(
    refused: Refusal, tmp_path: Path, lines: str
) -> None:
    path = tmp_path / "history.jsonl"
    path.write_text(lines + "\n")
    assert verdict(path)[0] == UNREADABLE
    if "why" not in lines:
        with pytest.raises(msgspec.ValidationError):
            History.load(path)


def test_a_picture_shows_what_was_refused(refused: Refusal, tmp_path: Path) -> None:
    """Draw only the part of a long log around the fault."""
    many = [acked(f"m{number}", number, number) for number in range(500)]
    said = refused(*many, whole(*(f"m{number}" for number in range(499)), at_s=600.0))
    assert "none of these fits" in said
    (picture,) = (path.read_text() for path in tmp_path.glob("*.html"))
    assert "read 0 to 499" in picture
    assert "publish m10:" not in picture


def test_a_history_without_a_verdict_fails(refused: Refusal, tmp_path: Path) -> None:
    path = tmp_path / "history.jsonl"
    many = [acked(f"m{number}", number, number) for number in range(3000)]
    History("long", [*many, whole(*(each.payload for each in many), at_s=4000.0)]).write(path)
    done = subprocess.run(
        [checker(), "-timeout", "1ns", path], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.split(":")[0]) == (UNDECIDED, "undecided")


def test_a_run_without_go_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    checker.cache_clear()
    monkeypatch.setattr(shutil, "which", lambda _: None)
    judge(tmp_path / "history.jsonl")
    checker.cache_clear()
    assert "SKIPPED" in capsys.readouterr().out
