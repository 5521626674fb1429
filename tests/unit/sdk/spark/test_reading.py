"""Reading a split: whole, whatever happens on the way, or an error that says why not."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from packetboat.spark import reading
from packetboat.spark.errors import ReadFailed
from packetboat.spark.pace import Pace
from packetboat.spark.ranges import Lane, Split
from packetboat.spark.reading import SplitReader

from tests.unit.sdk.spark.scripted_log import (
    UID,
    ScriptedLog,
    cut_after,
    ended_after,
    refused,
    sent,
)

LANE = Lane("orders", 3, 1)


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Nobody waits."""
    waited: list[float] = []
    monkeypatch.setattr(reading, "wait", waited.append)
    return waited


def offsets_of(log: ScriptedLog, start: int, end: int, **settings: Any) -> list[int]:
    split = Split(LANE, start, end, settings.pop("topic_uid", None), settings.pop("new", False))
    reader = SplitReader(log.sender(), split, **{"retry_for_s": 60.0} | settings)
    return [offset for batch in reader.batches() for offset in batch.column("offset").to_pylist()]


def test_a_split_is_what_it_says() -> None:
    log = ScriptedLog(100)
    assert offsets_of(log, 5, 42) == list(range(5, 42))
    assert log.asked == [{"offset": "5", "end_offset": "42", "lane": "1", "max_messages": "37"}]


@pytest.mark.parametrize("filter", [None, "true"])
def test_a_server_that_does_not_know_where_to_end_is_left(filter: str | None) -> None:
    log = ScriptedLog(1000, old=True)
    wanted = [each for each in range(5, 42) if filter is None or each % 3 == 0]
    assert offsets_of(log, 5, 42, filter=filter) == wanted
    assert len(log.asked) == 1
    assert log.sent_bytes < 3000 + 300 * len(wanted)


@pytest.mark.parametrize("at", range(0, 16_000, 1_150))
@pytest.mark.parametrize("filter", [None, "true"])
def test_a_cut_connection_is_gone_on_with(at: int, filter: str | None, pauses: list[float]) -> None:
    """The connection is cut before the schema, within a batch, between two batches, or at
    the end.
    """
    log = ScriptedLog(60, cut_after(at), cut_after(at // 2))
    wanted = [each for each in range(60) if filter is None or each % 3 == 0]
    assert offsets_of(log, 0, 60, filter=filter) == wanted
    assert len(pauses) == len(log.asked) - 1


@pytest.mark.parametrize("filter", [None, "true"])
def test_an_answer_that_ends_between_batches_is_not_whole(filter: str | None) -> None:
    log = ScriptedLog(60, ended_after(1))
    wanted = [each for each in range(60) if filter is None or each % 3 == 0]
    assert offsets_of(log, 0, 60, filter=filter) == wanted
    assert len(log.asked) == 2


def test_an_answer_that_is_no_arrow_stream_is_asked_for_again() -> None:
    """A balancer may answer with such a page, and with a status that means nothing."""
    log = ScriptedLog(20, lambda answer: iter([b"<html>" + bytes(999)]))
    assert offsets_of(log, 0, 20) == list(range(20))


def test_a_refusal_is_waited_off_as_it_asks_for(pauses: list[float]) -> None:
    log = ScriptedLog(20, refused(503, after="7"), refused(429, after="3"))
    assert offsets_of(log, 0, 20) == list(range(20))
    assert [int(pause) for pause in pauses] == [7, 3]


def test_what_goes_on_for_too_long_is_an_error_that_says_where() -> None:
    log = ScriptedLog(60, ended_after(1), refused(503))
    with pytest.raises(ReadFailed, match=r"orders, partition 3, lane 1, at offset 10 of 0 to 60"):
        offsets_of(log, 0, 60, retry_for_s=0.0)


def test_time_counts_from_the_last_that_came(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each answer gives one batch; all of them together take longer than one may."""
    now = iter(range(10_000))
    monkeypatch.setattr("packetboat.spark.reading.time.monotonic", lambda: float(next(now)))
    log = ScriptedLog(400, *[ended_after(1) for _ in range(39)])
    assert offsets_of(log, 0, 400, retry_for_s=30.0) == list(range(400))
    assert len(log.asked) == 40


def test_a_log_that_ends_too_early_is_not_taken_for_whole(pauses: list[float]) -> None:
    log = ScriptedLog(30)
    with pytest.raises(ReadFailed, match="the log ends at offset 30"):
        offsets_of(log, 0, 60, retry_for_s=0.0)


@pytest.mark.parametrize(
    "batches",
    [([0, 1, 2], [4, 5]), ([0, 2, 3],), ([1, 2],), ([0, 1], [1, 2]), ([0, 0, 1],), ([0, 2, 1],)],
    ids=["between", "within", "before", "again", "twice", "order"],
)
def test_a_gap_is_never_read_over(batches: tuple[list[int], ...], pauses: list[float]) -> None:
    with pytest.raises(ReadFailed, match="nothing is given beyond a gap"):
        offsets_of(ScriptedLog(60, sent(*batches)), 0, 60)
    assert pauses == []


@pytest.mark.parametrize("batches", [([3, 6], [6, 9]), ([3, 3],), ([6, 3],)])
def test_with_a_filter_offsets_still_grow(batches: tuple[list[int], ...]) -> None:
    with pytest.raises(ReadFailed, match="nothing is given beyond a gap"):
        offsets_of(ScriptedLog(60, sent(*batches)), 0, 60, filter="true")


def test_a_full_answer_of_a_filter_is_asked_on_after(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_MESSAGES", 7)
    log = ScriptedLog(60)
    assert offsets_of(log, 0, 60, filter="true") == list(range(0, 60, 3))
    assert [each["offset"] for each in log.asked] == ["0", "19", "40"]


def test_more_than_an_answer_may_have_is_asked_for_by_and_by(
    monkeypatch: pytest.MonkeyPatch, pauses: list[float]
) -> None:
    monkeypatch.setattr(reading, "MAX_MESSAGES", 25)
    assert offsets_of(ScriptedLog(60), 0, 60) == list(range(60))
    assert pauses == []


def truncated(first: int) -> Any:
    return refused(410, "offset-truncated", first_offset=first)


def test_what_was_truncated_is_named_and_what_to_do() -> None:
    with pytest.raises(ReadFailed, match=r"offset 5 any more.*first there is, is 12.*skip"):
        offsets_of(ScriptedLog(60, truncated(12)), 5, 60)


@pytest.mark.parametrize("how", [{"skips_truncated": True}, {"new": True}])
def test_what_was_truncated_is_left_out_where_that_is_wanted(how: dict[str, bool]) -> None:
    assert offsets_of(ScriptedLog(60, truncated(12)), 5, 60, **how) == list(range(12, 60))
    assert offsets_of(ScriptedLog(60, truncated(60)), 5, 60, **how) == []
    assert offsets_of(ScriptedLog(90, truncated(70)), 5, 60, **how) == []


def test_a_server_that_contradicts_itself_is_not_asked_for_ever() -> None:
    log = ScriptedLog(60, truncated(5))
    with pytest.raises(ReadFailed, match="nothing is stored at offset 5"):
        offsets_of(log, 5, 60, skips_truncated=True)


def test_a_token_that_is_over_is_said_to_be() -> None:
    with pytest.raises(ReadFailed, match=r"^401 .*not any more.*client_id"):
        offsets_of(ScriptedLog(60, refused(401)), 0, 60)
    with pytest.raises(ReadFailed, match=r"^403 .*permission `read`"):
        offsets_of(ScriptedLog(60, refused(403)), 0, 60)


def test_a_wrong_request_is_not_sent_again(pauses: list[float]) -> None:
    with pytest.raises(ReadFailed, match="400 bad-filter"):
        offsets_of(ScriptedLog(60, refused(400, "bad-filter")), 0, 60, filter="?")
    assert pauses == []


def test_a_namesake_of_the_topic_is_refused() -> None:
    assert offsets_of(ScriptedLog(20), 0, 20, topic_uid=str(uuid.UUID(bytes=UID)))
    assert offsets_of(ScriptedLog(20), 0, 20, topic_uid=UID.hex())
    with pytest.raises(ReadFailed, match="was deleted, and another one made"):
        offsets_of(ScriptedLog(20), 0, 20, topic_uid=bytes(16).hex())


def test_a_namesake_is_noticed_after_a_cut_as_well() -> None:
    log = ScriptedLog(20, ended_after(1), sent(list(range(10, 20)), uid=bytes(16)))
    with pytest.raises(ReadFailed, match="was deleted, and another one made"):
        offsets_of(log, 0, 20, topic_uid=UID.hex())


def test_bytes_that_came_are_paid_for() -> None:
    waited: list[float] = []
    pace = Pace(1000.0, clock=lambda: 0.0, wait=waited.append)
    offsets_of(ScriptedLog(60), 0, 60, pace=pace)
    assert waited
    assert waited[-1] > 4  # nobody waits here, so it is what all of it takes
