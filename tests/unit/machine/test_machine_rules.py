"""One test per rule of the state machine."""

from __future__ import annotations

import pytest

from store_nodes import commands as c
from store_nodes import errors
from store_nodes.machine.machine import Machine
from store_nodes.machine.outcomes import (
    AppendDone,
    CommandRefused,
    CreateDone,
    DeleteDone,
    SealDone,
    TruncateDone,
)
from store_nodes.machine.queues import MAX_OFFSET, QueueOffsets
from store_nodes.machine.sessions import FORGET_AFTER_US, MAX_DEADLINE_AHEAD_US, RECEIPTS
from tests.unit.machine.driver import (
    Q2,
    S2,
    SECOND,
    START,
    Driver,
    Q,
    S,
    base,
    expected_seq,
    refusal,
    with_queue,
)


@pytest.fixture
def d() -> Driver:
    return with_queue()


# Instances, log time, digest.


def test_instances_apply_in_order_only(d: Driver) -> None:
    noop = c.encode_noop(0)
    for wrong in (0, 2, 7):
        with pytest.raises(AssertionError):
            d.machine.apply(wrong, noop)
    d.machine.apply(1, noop)
    assert d.machine.applied == 2


def test_log_time_never_goes_back_and_never_stands(d: Driver) -> None:
    assert d.machine.log_time_us == START
    d.machine.apply(1, c.encode_noop(5))
    assert d.machine.log_time_us == START + 1
    d.machine.apply(2, c.encode_noop(START + 1))
    assert d.machine.log_time_us == START + 2
    d.machine.apply(3, c.encode_noop(START + 50))
    assert d.machine.log_time_us == START + 50


def test_digest_golden() -> None:
    machine = Machine(3)
    machine.apply(0, c.encode_noop(77))
    machine.apply(1, c.encode_value([c.encode(c.Create(Q, 5, b"m"))], 78))
    assert machine.digest.hex() == "482997ac6958bac0f819f29ceb85a9d2"


def test_a_value_that_does_not_decode_changes_nothing(d: Driver) -> None:
    before = d.machine.state_snapshot()
    value = c.encode_value([c.encode(c.Create(Q2, 0, b""))], d.now)
    for bad in (value[:-1], value + b"x", b"\x09" + value[1:], b""):
        with pytest.raises(c.BadCommand):
            d.machine.apply(1, bad)
    assert d.machine.state_snapshot() == before


# Queues.


def test_create_is_idempotent_for_the_same_fields(d: Driver) -> None:
    d.append(1, count=4)
    assert d.one(c.Create(Q, 0, b"meta")) == CreateDone(Q, 4)
    for other in (c.Create(Q, 1, b"meta"), c.Create(Q, 0, b"x")):
        assert isinstance(refusal(d.one(other)), errors.QueueExists)


def test_create_starts_at_its_base(d: Driver) -> None:
    assert d.one(c.Create(Q2, 100, b"")) == CreateDone(Q2, 100)
    assert base(d.append(1, queue=Q2, count=3)) == 100
    assert d.machine.offsets(Q2) == QueueOffsets(100, 103, 0, False, ())


def test_create_limits(d: Driver) -> None:
    for command in (
        c.Create(Q2, 0, b"m" * (c.MAX_META_BYTES + 1)),
        c.Create(Q2, -1, b""),
        c.Create(Q2, MAX_OFFSET + 1, b""),
    ):
        assert isinstance(refusal(d.one(command)), errors.TooLarge)
    assert isinstance(d.one(c.Create(Q2, 0, b"m" * c.MAX_META_BYTES)), CreateDone)


def test_append_never_creates(d: Driver) -> None:
    assert isinstance(refusal(d.append(1, queue=Q2)), errors.QueueNotFound)
    with pytest.raises(errors.QueueNotFound):
        d.machine.offsets(Q2)


def test_seal(d: Driver) -> None:
    d.append(1, count=3)
    successors = ((2, Q2), (4, Q))
    assert d.one(c.Seal(Q, successors)) == SealDone(Q, 3)
    error = refusal(d.append(2))
    assert isinstance(error, errors.QueueSealed)
    assert (error.offset, error.successors) == (3, successors)
    assert d.machine.offsets(Q) == QueueOffsets(0, 3, 0, True, successors)
    assert d.one(c.Seal(Q, successors)) == SealDone(Q, 3)
    assert isinstance(refusal(d.one(c.Seal(Q, ()))), errors.QueueSealed)
    assert isinstance(refusal(d.one(c.Seal(Q2, ()))), errors.QueueNotFound)


def test_a_repeat_after_the_seal_still_gets_its_receipt(d: Driver) -> None:
    first = d.append(1, count=3)
    d.one(c.Seal(Q, ()))
    again = d.append(1, count=3)
    assert base(again) == base(first)
    assert isinstance(again, AppendDone)
    assert again.duplicate


def test_sealed_consumes_no_sequence(d: Driver) -> None:
    d.append(1)
    d.one(c.Seal(Q, ()))
    for seq in (2, 2, 3):
        error = refusal(d.append(seq))
        assert isinstance(error, errors.QueueSealed)
    assert isinstance(refusal(d.append(1, session=S2)), errors.QueueSealed)


def test_delete_leaves_a_tombstone(d: Driver) -> None:
    d.append(1)
    assert d.one(c.Delete(Q)) == DeleteDone(Q)
    assert d.one(c.Delete(Q)) == DeleteDone(Q)
    assert d.machine.is_deleted(Q)
    assert d.machine.queues() == []
    assert isinstance(refusal(d.append(2)), errors.QueueNotFound)
    assert isinstance(refusal(d.one(c.Create(Q, 0, b"meta"))), errors.QueueExists)


def test_delete_before_a_late_create(d: Driver) -> None:
    assert d.one(c.Delete(Q2)) == DeleteDone(Q2)
    assert isinstance(refusal(d.one(c.Create(Q2, 0, b""))), errors.QueueExists)


def test_listing_is_in_order_of_creation(d: Driver) -> None:
    d.one(c.Create(bytes(25), 7, b"z"))
    assert [(q.queue, q.base, q.meta) for q in d.machine.queues()] == [
        (Q, 0, b"meta"),
        (bytes(25), 7, b"z"),
    ]


# Truncation.


def test_truncate_moves_up_only(d: Driver) -> None:
    d.append(1, count=10)
    assert d.one(c.Truncate(Q, 4)) == TruncateDone(Q, 4)
    assert d.one(c.Truncate(Q, 2)) == TruncateDone(Q, 4)
    assert d.one(c.Truncate(Q, 99)) == TruncateDone(Q, 10)
    assert isinstance(refusal(d.one(c.Truncate(Q2, 1))), errors.QueueNotFound)
    assert base(d.append(2)) == 10


def test_the_kept_set_is_replaced_and_revives_nothing(d: Driver) -> None:
    d.append(1, count=10)
    assert d.one(c.Truncate(Q, 5, (3, 1, 1, 7))) == TruncateDone(Q, 5, (1, 3))
    assert [d.machine.readable(Q, n) for n in range(11)] == [
        *(False, True, False, True, False),
        *([True] * 5),
        False,
    ]
    assert d.one(c.Truncate(Q, 8, (0, 2, 3, 6))) == TruncateDone(Q, 8, (3, 6))
    assert d.one(c.Truncate(Q, 5, (1, 3, 6))) == TruncateDone(Q, 8, (3, 6))
    assert d.one(c.Truncate(Q, 8)) == TruncateDone(Q, 8)
    assert d.machine.kept(Q) == ()


# Sessions.


def test_offsets_are_dense(d: Driver) -> None:
    assert [base(d.append(n, count=n)) for n in (1, 2, 3)] == [0, 1, 3]
    assert base(d.append(1, session=S2)) == 6


def test_append_done_says_where_the_batch_is(d: Driver) -> None:
    raw = c.encode_append(Q, S, 1, d.now + 1, 2, b"the batch")
    value = c.encode_value([c.encode(c.Delete(Q2)), raw], d.now)
    done = d.machine.apply(1, value)[1]
    assert isinstance(done, AppendDone)
    assert value[done.batch_at :][: done.batch_bytes] == b"the batch"
    assert (done.count, done.log_time_us, done.duplicate) == (2, d.now + 1, False)


def test_a_repeat_gets_its_old_receipt(d: Driver) -> None:
    first = d.append(1, count=3)
    d.now += SECOND
    d.append(2)
    assert isinstance(first, AppendDone)
    assert d.append(1, count=3) == AppendDone(Q, 0, 3, START + 1, duplicate=True)
    assert first.log_time_us == START + 1
    assert d.machine.offsets(Q).end == 4


def test_receipts_of_the_last_64_are_kept(d: Driver) -> None:
    for seq in range(1, RECEIPTS + 11):
        assert base(d.append(seq)) == seq - 1
    for seq in range(11, RECEIPTS + 11):
        assert base(d.append(seq)) == seq - 1
    for seq in (0, 1, 10):
        assert isinstance(refusal(d.append(seq)), errors.OutcomeUnknown)
    assert d.machine.offsets(Q).end == RECEIPTS + 10


def test_a_gap_consumes_nothing(d: Driver) -> None:
    d.append(1)
    assert expected_seq(d.append(3)) == 2
    assert expected_seq(d.append(9)) == 2
    assert base(d.append(2)) == 1


def test_an_unknown_session_starts_at_1(d: Driver) -> None:
    for seq in (0, 2, 5):
        assert expected_seq(d.append(seq)) == 1
    assert base(d.append(1)) == 0


def test_a_refusal_for_the_deadline_consumes_and_repeats(d: Driver) -> None:
    late = d.append(1, deadline=d.now - 1)
    assert isinstance(refusal(late), errors.DeadlinePassed)
    again = d.append(1, deadline=d.now + SECOND)
    assert isinstance(again, CommandRefused)
    assert isinstance(again.error, errors.DeadlinePassed)
    assert again.duplicate
    assert base(d.append(2)) == 0


def test_the_deadline_itself_is_in_time(d: Driver) -> None:
    assert base(d.append(1, deadline=d.now + 1)) == 0  # log time is START + 1 by now
    d.now += SECOND
    assert base(d.append(2, deadline=d.now)) == 1
    assert isinstance(refusal(d.append(3, deadline=d.now)), errors.DeadlinePassed)


def test_a_refusal_for_size_consumes_and_repeats(d: Driver) -> None:
    d.one(c.Create(Q2, MAX_OFFSET - 5, b""))
    assert isinstance(refusal(d.append(1, queue=Q2, count=6)), errors.TooLarge)
    assert isinstance(refusal(d.append(1, queue=Q2, count=6)), errors.TooLarge)
    assert base(d.append(2, queue=Q2, count=5)) == MAX_OFFSET - 5


def test_a_deadline_too_far_ahead(d: Driver) -> None:
    far = d.now + MAX_DEADLINE_AHEAD_US + SECOND
    assert isinstance(refusal(d.append(1, deadline=far)), errors.TooLarge)
    assert base(d.append(2)) == 0


def test_a_session_is_forgotten_60_s_after_its_last_deadline(d: Driver) -> None:
    d.append(1, deadline=d.now + 30 * SECOND)
    d.append(2, deadline=d.now + 10 * SECOND)
    d.now = START + 30 * SECOND + FORGET_AFTER_US
    assert base(d.append(2)) == 1
    d.now += 1
    assert expected_seq(d.append(3)) == 1


def test_use_keeps_a_session(d: Driver) -> None:
    for seq in range(1, 10):
        assert base(d.append(seq)) == seq - 1
        d.now += 50 * SECOND


def test_forgetting_makes_no_duplicate(d: Driver) -> None:
    """A copy of an append that turns up after its session is forgotten meets its own deadline."""
    raw = c.encode_append(Q, S, 1, d.now + SECOND, 1, b"x")
    assert base(d.do(raw)[0]) == 0
    d.now += SECOND + FORGET_AFTER_US + 2
    assert isinstance(refusal(d.do(raw)[0]), errors.DeadlinePassed)
    assert d.machine.offsets(Q).end == 1


def test_sessions_are_of_one_queue(d: Driver) -> None:
    d.one(c.Create(Q2, 0, b""))
    assert base(d.append(1)) == 0
    assert base(d.append(1, queue=Q2)) == 0
    assert base(d.append(2)) == 1


def test_one_value_with_many_commands(d: Driver) -> None:
    """The effects of each command are visible to the later commands of the same value."""
    until = d.now + SECOND
    outcomes = d.do(
        c.encode(c.Create(Q2, 0, b"")),
        c.encode_append(Q2, S, 1, until, 2, b"a"),
        c.encode_append(Q2, S, 3, until, 1, b"gap"),
        c.encode_append(Q2, S, 2, until, 1, b"b"),
        c.encode_append(Q2, S, 1, until, 2, b"a"),
        c.encode(c.Seal(Q2)),
        c.encode_append(Q2, S, 3, until, 1, b"c"),
    )
    kinds = [type(o.error if isinstance(o, CommandRefused) else o).__name__ for o in outcomes]
    assert kinds == [
        "CreateDone",
        "AppendDone",
        "SequenceGap",
        "AppendDone",
        "AppendDone",
        "SealDone",
        "QueueSealed",
    ]
    assert outcomes[5] == SealDone(Q2, 3)
