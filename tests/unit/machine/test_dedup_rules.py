"""One test per rule of the ids that a group remembers."""

from __future__ import annotations

import pytest

from store_nodes import commands as c
from store_nodes import errors
from store_nodes.errors import Known
from store_nodes.machine import dedup as table
from store_nodes.machine.machine import Machine
from store_nodes.machine.outcomes import AppendDone, CommandRefused
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
    dedup,
    expected_seq,
    known,
    refusal,
    with_queue,
)


@pytest.fixture
def d() -> Driver:
    return with_queue()


def test_a_known_id_refuses_the_whole_batch(d: Driver) -> None:
    d.append(1, count=3)
    assert base(d.append(2, count=2, dedup=dedup("a", "b", body=7))) == 3
    found = known(d.append(3, count=4, dedup=dedup("x", "b", "y", "a", body=7)))
    assert found == {1: Known(4, False, True, Q), 3: Known(3, False, True, Q)}
    assert d.machine.offsets(Q).end == 5
    assert d.machine.dedup_entries == 2


def test_another_body_is_told_apart(d: Driver) -> None:
    d.append(1, dedup=dedup("a", body=7))
    assert known(d.append(2, dedup=dedup("a", body=8))) == {0: Known(0, False, False, Q)}


def test_a_refused_batch_consumes_its_sequence_and_repeats(d: Driver) -> None:
    d.append(1, dedup=dedup("a"))
    first = d.append(2, count=2, dedup=dedup("b", "a"))
    again = d.append(2, count=2, dedup=dedup("b", "a"))
    assert known(first) == known(again) == {1: Known(0, False, True, Q)}
    assert isinstance(again, CommandRefused)
    assert again.duplicate
    assert base(d.append(3, dedup=dedup("b"))) == 1


def test_a_repeat_of_what_was_stored_is_no_duplicate_id(d: Driver) -> None:
    """The session is asked before the ids: its own message is known, and that is no refusal."""
    d.append(1, dedup=dedup("a"))
    again = d.append(1, dedup=dedup("a"))
    assert isinstance(again, AppendDone)
    assert again.duplicate
    assert known(d.append(1, session=S2, dedup=dedup("a"))) == {0: Known(0, False, True, Q)}


def test_a_repeated_refusal_after_the_window_names_no_id(d: Driver) -> None:
    d.append(1, dedup=dedup("a"), window_s=2)
    assert known(d.append(2, deadline=d.now + 20 * SECOND, dedup=dedup("a")))
    d.now += 3 * SECOND
    assert known(d.append(2, dedup=dedup("a"))) == {}
    assert base(d.append(3, dedup=dedup("a"))) == 1


def test_a_sealed_queue_still_knows_its_ids_and_takes_no_sequence(d: Driver) -> None:
    d.append(1, dedup=dedup("a"))
    d.one(c.Seal(Q, ((1, Q2),)))
    for session, seq in ((S, 2), (S, 9), (S2, 1), (S2, 5)):
        assert known(d.append(seq, session=session, dedup=dedup("a"))) == {
            0: Known(0, False, True, Q)
        }
        new = d.append(seq, session=session, dedup=dedup("b"))
        assert isinstance(refusal(new), errors.QueueSealed)
    assert d.machine.dedup_entries == 1


def test_a_gap_is_told_before_a_known_id(d: Driver) -> None:
    """A gap consumes nothing, so it cannot carry a refusal that does."""
    d.append(1, dedup=dedup("a"))
    assert expected_seq(d.append(3, dedup=dedup("a"))) == 2


def test_a_known_id_is_told_before_the_deadline(d: Driver) -> None:
    """The message is there: who comes late with it again wants to know where."""
    d.append(1, dedup=dedup("a"))
    assert known(d.append(2, deadline=1, dedup=dedup("a")))


def test_what_is_refused_is_not_remembered(d: Driver) -> None:
    assert isinstance(refusal(d.append(1, deadline=1, dedup=dedup("a"))), errors.DeadlinePassed)
    assert expected_seq(d.append(3, dedup=dedup("a"))) == 2
    assert isinstance(refusal(d.append(1, queue=Q2, dedup=dedup("a"))), errors.QueueNotFound)
    assert d.machine.dedup_entries == 0
    assert base(d.append(2, dedup=dedup("a"))) == 0


def test_the_first_of_two_equal_ids_of_a_batch_is_the_one(d: Driver) -> None:
    """Both messages are stored; the id is that of the first."""
    assert base(d.append(1, count=3, dedup=dedup("a", "b", "a"))) == 0
    assert d.machine.offsets(Q).end == 3
    assert d.machine.dedup_entries == 2
    assert known(d.append(2, dedup=dedup("a"))) == {0: Known(0, False, True, Q)}


def test_ids_are_of_the_group_not_of_the_queue(d: Driver) -> None:
    """The hash covers the topic: a partition that moved within the group keeps its ids."""
    d.one(c.Create(Q2, 0, b""))
    d.append(1, dedup=dedup("a"))
    assert known(d.append(1, queue=Q2, dedup=dedup("a"))) == {0: Known(0, False, True, Q)}


def test_ids_outlive_their_queue(d: Driver) -> None:
    d.one(c.Create(Q2, 0, b""))
    d.append(1, dedup=dedup("a"))
    d.one(c.Delete(Q))
    d.reload()
    assert known(d.append(1, queue=Q2, dedup=dedup("a"))) == {0: Known(0, False, True, Q)}


def test_a_staged_message_is_known_by_its_stage_number(d: Driver) -> None:
    assert base_stage(d.stage(1, count=2)) == 0
    assert base_stage(d.stage(2, count=2, dedup=dedup("a", index=1))) == 2
    expected = {0: Known(3, True, True, Q)}
    assert known(d.append(3, dedup=dedup("a"))) == expected
    assert known(d.stage(4, dedup=dedup("a"))) == expected
    d.release(3)
    assert known(d.append(5, dedup=dedup("a"))) == expected


@pytest.mark.parametrize("window_s", [2, 4, 10, 600, 3600, 131_070])
@pytest.mark.parametrize("phase", [0, 1, 777_777, 123_456_789])
def test_an_id_is_remembered_its_window_and_at_most_a_quarter_more(
    d: Driver, window_s: int, phase: int
) -> None:
    d.now += phase
    d.append(1, dedup=dedup("a"), window_s=window_s)
    stored = d.machine.log_time_us
    window_us = window_s * SECOND
    d.now = stored + window_us
    again = d.append(1, session=S2, deadline=d.now, dedup=dedup("a"))
    assert d.machine.log_time_us == stored + window_us
    assert known(again)
    d.now = stored + window_us * 5 // 4
    assert base(d.append(1, session=b"u" * 16, dedup=dedup("a"))) == 1


def test_windows_of_many_lengths_together(d: Driver) -> None:
    """The shorter ones end first, whatever was stored first."""
    for seq, window_s in enumerate((600, 4, 60, 2), 1):
        d.append(seq, dedup=dedup(f"w{window_s}"), window_s=window_s)
    for elapsed, left in ((0, 4), (3, 3), (5, 2), (75, 1), (600, 1), (751, 0)):
        d.now = START + elapsed * SECOND
        d.do(c.encode(c.Delete(Q2)))
        assert d.machine.dedup_entries == left


def test_a_full_table_refuses_and_forgets_nothing(
    d: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "MAX_DEDUP_ENTRIES", 3)
    d.append(1, count=2, dedup=dedup("a", "b"))
    full = d.append(2, count=2, dedup=dedup("c", "e"))
    assert isinstance(refusal(full), errors.Overloaded)
    again = d.append(2, count=2, dedup=dedup("c", "e"))
    assert isinstance(refusal(again), errors.Overloaded)
    assert isinstance(again, CommandRefused)
    assert again.duplicate
    assert base(d.append(3, dedup=dedup("c"))) == 2
    assert known(d.append(4, dedup=dedup("a")))
    assert base(d.append(5)) == 3
    d.now += 750 * SECOND
    assert base(d.append(1, session=S2, count=3, dedup=dedup("f", "g", "h"))) == 4


def test_the_limit_is_frozen() -> None:
    """Replicas with other limits would decide otherwise: a change is a new format."""
    assert table.MAX_DEDUP_ENTRIES == 1_250_000


def test_dedup_known_is_what_apply_would_say(d: Driver) -> None:
    d.append(1, dedup=dedup("a"))

    def asked(seq: int, *names: str, queue: bytes = Q) -> dict[int, Known]:
        raw = c.encode_append(queue, S, seq, START, 5, b"x", dedup(*names))
        command = c.parse(raw)
        assert isinstance(command, c.Append)
        return d.machine.dedup_known(command)

    expected = {1: Known(0, False, True, Q)}
    assert asked(2, "b", "a") == expected
    # Not the next sequence: those before it may be on their way.
    assert asked(5, "b", "a") == expected
    assert asked(1, "b", "a") == {}
    assert asked(2, "b") == {}
    assert asked(2) == {}
    assert asked(2, "a", queue=Q2) == {}
    d.one(c.Seal(Q))
    assert asked(9, "b", "a") == expected


def test_dedup_known_at_a_log_time_is_what_apply_would_say_then(d: Driver) -> None:
    """Also where nothing was applied since: only a value that is applied forgets."""
    for seq, (name, window_s) in enumerate((("a", 2), ("b", 8), ("c", 600)), 1):
        d.append(seq, dedup=dedup(name), window_s=window_s)
    raw = c.encode_append(Q, S, 4, START, 3, b"x", dedup("a", "b", "c"))
    command = c.parse(raw)
    assert isinstance(command, c.Append)
    for after_s in (0, 1, 2, 3, 7, 9, 11, 599, 751):
        at_us = START + after_s * SECOND
        twin = Machine.restore(3, d.machine.state_snapshot())
        twin.apply(twin.applied, c.encode_noop(at_us))
        assert d.machine.dedup_known(command, at_us) == twin.dedup_known(command)
    assert d.machine.dedup_entries == 3


def test_hashes_that_differ_only_in_one_half(d: Driver) -> None:
    one = c.DEDUP_ENTRY.pack(0, b"A" * 8 + b"1" * 8, 1)
    two = c.DEDUP_ENTRY.pack(0, b"A" * 8 + b"2" * 8, 1)
    three = c.DEDUP_ENTRY.pack(0, b"B" * 8 + b"1" * 8, 1)
    assert [base(d.append(n, dedup=raw)) for n, raw in enumerate((one, two, three), 1)] == [0, 1, 2]
    for offset, raw in enumerate((one, two, three)):
        assert known(d.append(offset + 4, dedup=raw)) == {0: Known(offset, False, True, Q)}
