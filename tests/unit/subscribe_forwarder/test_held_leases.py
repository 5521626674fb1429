"""Exactly-once leases as rows: whose ack counts, what a repeat finds, and how little is kept."""

from __future__ import annotations

from metadata.delivery.deliveries import DeliveryLease
from metadata.types import Epoch
from subscribe_forwarder.delivery.state.held_leases import KEPT_US, HeldLeases

EPOCH = Epoch(0, 3)
SECOND_US = 1_000_000
NOW_US = 1_700_000_000 * SECOND_US


def flushed(held: HeldLeases, rows: dict[int, DeliveryLease]) -> dict[int, DeliveryLease]:
    """Return the rows after a flush that commits."""
    put, ended = held.changes()
    held.wrote()
    kept = {number: row for number, row in rows.items() if number not in ended}
    return kept | {row.number: row for row in put}


def test_only_the_lease_that_holds_it_acks_it() -> None:
    held = HeldLeases()
    held.grant([1, 2], EPOCH, 1, NOW_US)
    assert held.holds(1, EPOCH, 1)
    assert not held.holds(1, EPOCH, 2)
    assert not held.holds(1, Epoch(1, 3), 1)
    held.drop(1, NOW_US)
    held.grant([1], EPOCH, 2, NOW_US)
    assert not held.holds(1, EPOCH, 1)
    assert held.holds(1, EPOCH, 2)


def test_a_repeat_is_known_while_the_lease_lives_and_after() -> None:
    held = HeldLeases()
    held.grant([1, 2], EPOCH, 1, NOW_US)
    held.acked(1, NOW_US)
    assert held.acked_under(1, EPOCH, 1)
    assert not held.acked_under(1, EPOCH, 2)
    assert not held.acked_under(2, EPOCH, 1)
    held.acked(2, NOW_US)
    assert held.acked_under(1, EPOCH, 1)
    assert held.acked_under(2, EPOCH, 1)
    assert not held.acked_under(1, Epoch(EPOCH.era, EPOCH.n + 1), 1), "an ack of another owner's"
    assert not held.prune(NOW_US + KEPT_US)
    assert held.prune(NOW_US + 2 * KEPT_US)
    assert not held.acked_under(1, EPOCH, 1)


def test_a_reload_knows_what_the_rows_say() -> None:
    held = HeldLeases()
    held.grant([1, 2, 3], EPOCH, 1, NOW_US)
    held.acked(2, NOW_US)
    held.grant([7], EPOCH, 1, NOW_US)
    held.acked(7, NOW_US)
    again = HeldLeases(flushed(held, {}).values())
    assert sorted(again.offsets()) == [(1, NOW_US), (3, NOW_US)]
    assert again.holds(1, EPOCH, 1)
    assert again.acked_under(2, EPOCH, 1)
    assert again.acked_under(7, EPOCH, 1)
    again.resync(flushed(held, {}).values() or ())
    numbers = {row.number for row in again.changes()[0]}
    again.grant([9], EPOCH, 1, NOW_US)
    assert all(row.number not in numbers for row in again.changes()[0] if row.offsets == ((9, 10),))


def test_acking_in_order_keeps_one_row_of_one_range() -> None:
    held = HeldLeases()
    rows: dict[int, DeliveryLease] = {}
    for low in range(0, 5000, 10):
        held.grant(list(range(low, low + 10)), EPOCH, 1, NOW_US)
        rows = flushed(held, rows)
        for offset in range(low, low + 10):
            held.acked(offset, NOW_US)
        rows = flushed(held, rows)
    (row,) = rows.values()
    assert (row.offsets, row.acked) == (((0, 5000),), ((0, 5000),))
    assert held.changes() == ((), ())


def test_what_is_extended_together_shares_a_row() -> None:
    held = HeldLeases()
    held.grant(list(range(100)), EPOCH, 1, NOW_US)
    rows = flushed(held, {})
    for offset in range(100):
        held.extend(offset, NOW_US + 60 * SECOND_US, NOW_US)
    rows = flushed(held, rows)
    (row,) = rows.values()
    assert (row.offsets, row.expires_us) == (((0, 100),), NOW_US + 60 * SECOND_US)
    assert all(held.holds(offset, EPOCH, 1) for offset in range(100))


def test_a_lease_that_ended_unacked_leaves_nothing() -> None:
    held = HeldLeases()
    held.grant([1, 2], EPOCH, 1, NOW_US)
    rows = flushed(held, {})
    held.drop(1, NOW_US)
    held.drop(2, NOW_US)
    assert flushed(held, rows) == {}
    assert not held


def test_what_is_given_back_is_held_again_under_another_turn() -> None:
    held = HeldLeases()
    held.grant([0], EPOCH, 1, 1_000)
    held.drop(0, 0)
    held.grant([0], EPOCH, 2, 1_000)
    assert held.holds(0, EPOCH, 2)
    assert not held.holds(0, EPOCH, 1)


def test_a_lost_flush_is_written_again() -> None:
    held = HeldLeases()
    held.grant([1], EPOCH, 1, NOW_US)
    first = held.changes()
    assert held.changes() == first
    held.wrote()
    assert held.changes() == ((), ())
    held.resync(())
    assert held.changes() == first
