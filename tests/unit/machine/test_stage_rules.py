"""One test per rule of staged messages."""

from __future__ import annotations

import sys
from types import FrameType

import pytest

from store_nodes import commands as c
from store_nodes import errors
from store_nodes.machine import stages
from store_nodes.machine.machine import Machine
from store_nodes.machine.outcomes import (
    AppendDone,
    CommandRefused,
    ReleaseDone,
    ReleasedRun,
    StagedChanged,
    StageDone,
)
from store_nodes.machine.queues import QueueOffsets
from store_nodes.machine.stages import StagedMessage
from tests.unit.machine.driver import (
    Q2,
    S2,
    SECOND,
    START,
    Driver,
    Q,
    S,
    base,
    base_stage,
    expected_seq,
    refusal,
    with_queue,
)


@pytest.fixture
def d() -> Driver:
    return with_queue()


def test_stage_numbers_are_dense_and_of_the_queue(d: Driver) -> None:
    d.one(c.Create(Q2, 100, b""))
    assert [base_stage(d.stage(n, count=n)) for n in (1, 2, 3)] == [0, 1, 3]
    assert base_stage(d.stage(1, queue=Q2)) == 0
    assert d.machine.offsets(Q) == QueueOffsets(0, 0, 6, False, ())
    assert d.machine.offsets(Q2) == QueueOffsets(100, 100, 1, False, ())
    assert [info.staged for info in d.machine.queues()] == [6, 1]
    assert isinstance(refusal(d.stage(1, queue=bytes(25))), errors.QueueNotFound)


def test_stages_and_appends_share_a_session(d: Driver) -> None:
    assert base(d.append(1)) == 0
    assert base_stage(d.stage(2, count=2)) == 0
    assert expected_seq(d.stage(4)) == 3
    assert base(d.append(3)) == 1


def test_a_repeat_gets_the_receipt_of_what_it_was(d: Driver) -> None:
    d.append(1, count=2)
    done = d.stage(2, count=3)
    assert isinstance(done, StageDone)
    again = d.stage(2, count=3)
    assert again == StageDone(Q, 0, 3, done.log_time_us, duplicate=True)
    d.reload()
    assert d.stage(2, count=3) == again
    assert isinstance(d.append(1, count=2), AppendDone)
    assert d.machine.offsets(Q).stage_end == 3


def test_stage_done_says_where_the_batch_is(d: Driver) -> None:
    extras = c.StageExtras((5, 6), b"tag")
    raw = c.encode_append(Q, S, 1, d.now + 1, 2, b"the batch", extras=extras)
    value = c.encode_value([raw], d.now)
    [done] = d.machine.apply(1, value)
    assert isinstance(done, StageDone)
    assert value[done.batch_at :][: done.batch_bytes] == b"the batch"


def test_a_stage_meets_deadline_and_seal_as_an_append(d: Driver) -> None:
    assert isinstance(refusal(d.stage(1, deadline=1)), errors.DeadlinePassed)
    assert base_stage(d.stage(2)) == 0
    d.one(c.Seal(Q))
    assert isinstance(refusal(d.stage(3)), errors.QueueSealed)
    again = d.stage(2)
    assert isinstance(again, StageDone)
    assert again.duplicate


def test_a_release_gives_offsets_in_the_order_named(d: Driver) -> None:
    d.append(1, count=10)
    d.stage(2, count=3)
    d.stage(3, count=3)
    done = d.release(2, 0, 3, 5, 1)
    assert done == ReleaseDone(
        Q,
        (10, 11, 12, 13, 14),
        (
            ReleasedRun(10, 0, (2, 0)),
            ReleasedRun(12, 3, (0, 2)),
            ReleasedRun(14, 0, (1,)),
        ),
        d.machine.log_time_us,
    )
    assert d.machine.offsets(Q).end == 15
    assert base(d.append(4)) == 15
    assert d.machine.locate(Q, 5) == ("offset", 13)
    assert d.machine.locate(Q, 4) == ("staged", None)


def test_a_second_release_answers_with_the_old_offsets(d: Driver) -> None:
    d.stage(1, count=3)
    assert d.release(1, 1).offsets == (0, 0)
    assert d.release(2, 1) == ReleaseDone(
        Q, (1, 0), (ReleasedRun(1, 0, (2,)),), d.machine.log_time_us
    )
    again = d.release(2, 1)
    assert (again.offsets, again.runs) == ((1, 0), ())
    assert d.machine.offsets(Q).end == 2


def test_what_is_not_due_stays(d: Driver) -> None:
    d.stage(1, count=2, due=(START + 10 * SECOND, START + 20 * SECOND))
    assert d.release(0, 1).offsets == (-1, -1)
    d.now = START + 10 * SECOND - 1
    assert d.release(0).offsets == (-1,)
    assert d.machine.log_time_us == d.now
    d.now += 1
    assert d.release(0, 1).offsets == (0, -1)
    assert d.machine.locate(Q, 1) == ("staged", None)


def test_a_held_message_is_released_by_name(d: Driver) -> None:
    d.stage(1, due=None, tag=b"tx")
    assert d.machine.staged(Q, -1, 9) == [StagedMessage(0, None, d.machine.log_time_us, b"tx")]
    assert d.release(0).offsets == (0,)


def test_what_is_discarded_or_unknown_has_no_offset(d: Driver) -> None:
    d.stage(1, count=2)
    assert d.one(c.Discard(Q, (0, 0, 7))) == StagedChanged(Q, 1)
    assert d.one(c.Discard(Q, (0,))) == StagedChanged(Q, 0)
    assert d.release(0, 7, 1).offsets == (None, None, 0)
    assert d.one(c.Discard(Q, (1,))) == StagedChanged(Q, 0)
    assert d.machine.locate(Q, 0) == ("discarded", None)
    assert d.machine.locate(Q, 7) == ("truncated", None)
    d.one(c.Create(Q2, 0, b""))
    assert d.release(0, queue=Q2).offsets == (None,)
    assert d.one(c.Discard(Q2, (0,))) == StagedChanged(Q2, 0)


def test_reschedule(d: Driver) -> None:
    d.stage(1, count=3, due=(START + SECOND,) * 3)
    late = START + 90 * SECOND
    d.one(c.Discard(Q, (2,)))
    assert d.one(c.Reschedule(Q, (0, 2, 9), (late, late, late))) == StagedChanged(Q, 1)
    assert d.machine.offsets(Q).stage_changes == 1
    assert d.machine.stage_changes_since(Q, 0) == ([0], 1)
    assert d.machine.stage_changes_since(Q, 1) == ([], 1)
    d.now = START + SECOND
    assert d.release(0, 1).offsets == (-1, 0)
    assert [row.due_us for row in d.machine.staged(Q, -1, 9)] == [late]
    d.one(c.Reschedule(Q, (0,), (0,)))
    assert d.release(0).offsets == (1,)


def test_a_held_message_that_is_rescheduled_is_held_no_longer(d: Driver) -> None:
    d.stage(1)
    d.one(c.Reschedule(Q, (0,), (START + 90 * SECOND,)))
    assert d.release(0).offsets == (-1,)


def test_only_the_last_changes_are_remembered(d: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "REMEMBERED_CHANGES", 4)
    d.stage(1, count=9)
    for number in range(6):
        d.one(c.Reschedule(Q, (number,), (1,)))
    d.reload()
    assert d.machine.stage_changes_since(Q, 2) == ([2, 3, 4, 5], 6)
    assert d.machine.stage_changes_since(Q, 1) == (None, 6)
    # A count this log never had: the reader comes from another queue or another life.
    assert d.machine.stage_changes_since(Q, 7) == (None, 6)
    d.one(c.Create(Q2, 0, b""))
    assert d.machine.stage_changes_since(Q2, 0) == ([], 0)
    assert d.machine.stage_changes_since(Q2, 3) == (None, 0)


def test_a_sealed_queue_releases_nothing_but_says_what_it_released(d: Driver) -> None:
    d.stage(1, count=4, due=(0, 0, 0, START + 90 * SECOND))
    d.release(1)
    d.one(c.Seal(Q, ((1, Q2),)))
    error = refusal(d.one(c.Release(Q, (1, 2))))
    assert isinstance(error, errors.QueueSealed)
    assert (error.offset, error.successors) == (1, ((1, Q2),))
    assert d.machine.locate(Q, 2) == ("staged", None)
    assert d.release(1, 3).offsets == (0, -1)
    assert d.one(c.Reschedule(Q, (3,), (1,))) == StagedChanged(Q, 1)
    assert d.one(c.Discard(Q, (2,))) == StagedChanged(Q, 1)
    assert isinstance(refusal(d.one(c.Release(Q, (3,)))), errors.QueueSealed)
    assert d.machine.offsets(Q).end == 1


def test_a_truncated_message_is_gone_and_a_kept_one_stays(d: Driver) -> None:
    d.stage(1, count=4)
    d.release(0, 1, 2)
    d.one(c.Truncate(Q, 2, (0,)))
    assert [d.machine.locate(Q, n) for n in range(4)] == [
        ("offset", 0),
        ("truncated", None),
        ("offset", 2),
        ("staged", None),
    ]
    d.reload()
    assert d.release(0, 1, 2).offsets == (0, None, 2)
    d.one(c.Truncate(Q, 2))
    assert d.machine.locate(Q, 0) == ("truncated", None)


def test_staged_live(d: Driver) -> None:
    """A truncation or a deletion lets the bytes of a staged batch go from disk; nothing
    else does.
    """
    d.stage(1, count=2)
    d.stage(2, count=2)
    machine = d.machine
    assert machine.staged_live(Q, 0, 2)
    assert machine.batch_of_stage(Q, 3) == (2, 2)
    d.one(c.Discard(Q, (0,)))
    d.release(1)
    assert machine.staged_live(Q, 0, 2)
    assert machine.batch_of_stage(Q, 0) == (0, 2)
    d.one(c.Truncate(Q, 1, (0,)))
    assert machine.staged_live(Q, 0, 2)
    d.one(c.Truncate(Q, 1))
    assert not machine.staged_live(Q, 0, 2)
    assert machine.batch_of_stage(Q, 1) is None
    assert machine.staged_live(Q, 2, 2)
    d.one(c.Delete(Q))
    assert not machine.staged_live(Q, 2, 2)
    assert not machine.staged_live(Q2, 0, 1)


def test_the_listing_goes_on_after_a_number(d: Driver) -> None:
    d.stage(1, count=4, due=(5, 6, 7, 8), tag=b"t")
    d.stage(2, count=2)
    d.one(c.Discard(Q, (1,)))
    rows = d.machine.staged(Q, -1, 99)
    assert [row.stage_number for row in rows] == [0, 2, 3, 4, 5]
    assert d.machine.staged(Q, -1, 2) == rows[:2]
    assert d.machine.staged(Q, 2, 2) == rows[2:4]
    assert d.machine.staged(Q, 5, 2) == []
    assert d.machine.staged(Q, -1, 0) == []
    assert (rows[1].due_us, rows[1].tag, rows[3].due_us) == (7, b"t", None)


def held_messages(machine: Machine) -> int:
    """Return how many messages have state in memory."""
    found = machine._queue(Q).stages
    assert found is not None
    return sum(len(chunk) for chunk in found._chunks)


def test_one_pending_message_keeps_no_others_in_memory(d: Driver) -> None:
    """A week's traffic behind a message that waits for a year: memory stays flat."""
    year = START + 365 * 24 * 3600 * SECOND
    d.stage(1, due=(year,))
    seq, peak, chunks = 1, 0, 0
    for _ in range(60):
        first = d.machine.offsets(Q).stage_end
        d.now += 50 * SECOND
        seq += 1
        d.stage(seq, count=1000)
        d.release(*range(first, first + 1000))
        d.one(c.Truncate(Q, d.machine.offsets(Q).end))
        peak = max(peak, held_messages(d.machine))
        found = d.machine._queue(Q).stages
        assert found is not None
        chunks = max(chunks, len(found._chunks))
    assert peak <= 5000
    assert chunks <= 4
    assert len(d.machine.state_snapshot()) < 100_000
    assert d.machine.staged(Q, -1, 9)[0].due_us == year
    assert d.machine.locate(Q, 0) == ("staged", None)
    assert d.machine.batch_of_stage(Q, 0) == (0, 1)
    assert d.machine.locate(Q, 1) == ("truncated", None)


def test_one_in_a_hundred_pending_keeps_a_bounded_part(d: Driver) -> None:
    """Chunks with few live messages shrink, and the shrunk ones join."""
    year = START + 365 * 24 * 3600 * SECOND
    for seq in range(1, 51):
        first = d.machine.offsets(Q).stage_end
        d.stage(seq, count=1000, due=tuple(year if n % 100 == 0 else 0 for n in range(1000)))
        d.release(*range(first, first + 1000))
        d.one(c.Truncate(Q, d.machine.offsets(Q).end))
    pending = d.machine.queues()[0].staged
    assert pending == 500
    assert held_messages(d.machine) <= 2 * pending + 3 * 2048
    assert len(d.machine.staged(Q, -1, 10_000)) == pending


def test_chunks_that_thin_out_later_join(d: Driver) -> None:
    """Many chunks of which little is left become few, and no message is lost.

    All is staged first.
    """
    for seq in range(1, 41):
        d.stage(seq, count=1000, tag=seq.to_bytes(1, "big"))
    left = list(range(7, 40_000, 100))
    for first in range(0, 40_000, 5000):
        d.release(*(n for n in range(first, first + 5000) if n % 100 != 7))
    for _ in range(20):
        d.one(c.Truncate(Q, d.machine.offsets(Q).end))
    rows = d.machine.staged(Q, -1, 10_000)
    assert [row.stage_number for row in rows] == left
    assert all(row.tag == (row.stage_number // 1000 + 1).to_bytes(1, "big") for row in rows)
    found = d.machine._queue(Q).stages
    assert found is not None
    assert len(found._chunks) <= 3
    assert held_messages(d.machine) <= 2 * len(left) + 2048
    d.reload()
    assert d.machine.staged(Q, -1, 10_000) == rows
    assert all(d.machine.staged_live(Q, base, 1000) for base in range(0, 40_000, 1000))
    assert d.release(*left).offsets == tuple(range(39_600, 40_000))


def test_a_big_truncation_is_done_in_parts(d: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    """The truncation holds at once for every reader; later commands free its memory bit by bit."""
    monkeypatch.setattr(stages, "TIDY_MESSAGES", 100)
    for seq in range(1, 5):
        d.stage(seq, count=1000)
    d.release(*range(4000))
    d.one(c.Truncate(Q, 3999))
    assert d.machine.locate(Q, 3998) == ("truncated", None)
    assert not d.machine.staged_live(Q, 2000, 1000)
    assert d.release(3998, 3999).offsets == (None, 3999)
    assert held_messages(d.machine) == 4000
    for _ in range(40):
        d.one(c.Discard(Q, (1,)))
    assert held_messages(d.machine) <= 1000
    assert d.machine.locate(Q, 3999) == ("offset", 3999)


def test_deleting_frees_the_stages(d: Driver) -> None:
    d.stage(1, count=1000)
    d.one(c.Delete(Q))
    assert len(d.machine.state_snapshot()) < 300
    for command in (c.Release(Q, (0,)), c.Discard(Q, (0,)), c.Reschedule(Q, (0,), (1,))):
        assert isinstance(refusal(d.one(command)), errors.QueueNotFound)
    with pytest.raises(errors.QueueNotFound):
        d.machine.locate(Q, 0)


def calls_of_a_release(pending: int) -> int:
    """Return how many calls, of Python and of C, one release costs with `pending` staged
    messages.
    """
    d = with_queue()
    for seq in range(1, pending // 1000 + 1):
        d.stage(seq, count=1000, due=(START,) * 1000)
    value = c.encode_value([c.encode(c.Release(Q, (pending // 2 + 5,)))], d.now)
    calls = 0

    def count(frame: FrameType, event: str, _: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        [outcome] = d.machine.apply(d.machine.applied, value)
    finally:
        sys.setprofile(None)
    assert isinstance(outcome, ReleaseDone)
    assert outcome.offsets == (0,)
    return calls


def test_a_release_costs_the_same_however_many_are_pending() -> None:
    assert calls_of_a_release(200_000) == calls_of_a_release(1_000)


def test_a_stage_refused_for_a_gap_has_no_number(d: Driver) -> None:
    assert isinstance(d.stage(3, session=S2), CommandRefused)
    assert base_stage(d.stage(1, session=S2)) == 0


def test_a_discarded_message_stays_discarded_when_its_chunk_goes(d: Driver) -> None:
    """A second cancel is told so; one of a released and truncated message is not."""
    for seq in (1, 2, 3):
        d.stage(seq, count=1000)
    d.release(*range(0, 3000, 3))
    d.one(c.Discard(Q, tuple(range(1, 3000, 3))))
    d.one(c.Discard(Q, tuple(range(2, 3000, 3))))
    d.one(c.Truncate(Q, 1000))
    assert held_messages(d.machine) <= 1000
    d.reload()
    states = [d.machine.locate(Q, number)[0] for number in range(3000)]
    assert states == ["truncated", "discarded", "discarded"] * 1000


def test_what_was_discarded_long_ago_is_forgotten(
    d: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stages, "MAX_DISCARDED_RANGES", 100)
    for seq in (1, 2, 3):
        d.stage(seq, count=1000)
    d.release(*range(0, 3000, 2))
    d.one(c.Discard(Q, tuple(range(1, 3000, 2))))
    d.one(c.Truncate(Q, 1500))
    states = [d.machine.locate(Q, number)[0] for number in range(3000)]
    assert states.index("discarded") > 1000
    assert states.count("discarded") == 500 + 100


def test_a_chunk_shrinks_when_it_is_full(d: Driver) -> None:
    """Also if all in it was removed before: nothing may come that would touch it again."""
    d.stage(1, count=1000)
    d.one(c.Discard(Q, tuple(range(1000))))
    d.stage(2, count=30)
    assert held_messages(d.machine) == 1030
    d.stage(3)
    assert held_messages(d.machine) == 31
    assert d.machine.locate(Q, 5) == ("discarded", None)
    assert d.machine.queues()[0].staged == 31
