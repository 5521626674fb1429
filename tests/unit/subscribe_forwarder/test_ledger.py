"""Single rules of the ledger and of its flushes, beside the model (test_ledger_model.py)."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import pytest

from metadata.delivery.deliveries import Publication, Reason
from metadata.errors import StatementRefused
from metadata.types import CursorKey, CursorUpdate
from subscribe_forwarder.delivery.state import flushes
from subscribe_forwarder.delivery.state.cursor import Settled
from subscribe_forwarder.delivery.state.inherited import InheritedLease
from subscribe_forwarder.delivery.state.ledger import Ledger, Now, Policy
from tests.unit.subscribe_forwarder.subscribe_support import (
    SUBSCRIPTION_UID,
    FakeMetadata,
    FakeStore,
    stored,
    subscription,
    topic,
    world,
)
from tests.unit.subscribe_forwarder.test_cursor import EPOCH, state
from tests.unit.subscribe_forwarder.test_ledger_model import letter

NOW = Now(1_000, 1_700_000_000_000_000)
OTHER_UID = uuid.UUID(int=10).bytes


def leased(count: int, policy: Policy) -> Ledger:
    ledger = Ledger(state(), EPOCH, policy)
    ledger.classify(count)
    ledger.lease(list(range(count)), NOW, NOW.ms + 1_000)
    return ledger


def test_too_many_open_deliveries_pause() -> None:
    ledger = leased(3, Policy(max_exceptions=2))
    ledger.fail(0, NOW, 0, None)
    assert ledger.paused_reason() is None
    ledger.fail(1, NOW, 0, None)
    assert ledger.paused_reason() == "too_many_exceptions"
    ledger.settle([0], Settled.ACKED)
    assert ledger.paused_reason() is None


def test_back_off_doubles_has_full_jitter_and_an_end() -> None:
    policy = Policy(min_backoff_ms=100, max_backoff_ms=1_000)
    assert [policy.backoff_ms(n, lambda: 1.0) for n in range(1, 7)] == [
        100,
        200,
        400,
        800,
        1_000,
        1_000,
    ]
    assert policy.backoff_ms(3, lambda: 0.5) == 200
    assert policy.backoff_ms(10_000, lambda: 0.0) == 0


def test_a_further_failure_in_a_flush_that_never_was_is_not_taken_for_durable() -> None:
    """The failure does not change the cursor row itself, so only the open deliveries can tell."""
    ledger = leased(1, Policy(min_backoff_ms=0, max_backoff_ms=0))
    ledger.fail(0, NOW, 0, None)
    update = ledger.update()
    row = stored(state(), update)
    ledger.wrote(update)
    ledger.leases.take_ready()
    ledger.lease([0], NOW, NOW.ms + 1_000)
    ledger.fail(0, NOW, 0, None)
    ledger.update()  # its outcome is not known, and it did not happen
    assert ledger.resync(row, EPOCH)
    assert ledger.leases.peek_ready() is None
    ledger.wrote(ledger.update())
    assert ledger.leases.peek_ready() == 0


def test_what_was_settled_before_its_flush_never_had_a_row() -> None:
    ledger = leased(2, Policy())
    ledger.fail(0, NOW, 0, None)
    ledger.settle([0, 1], Settled.ACKED)
    update = ledger.update()
    assert (update.stepped_over, update.closed, update.exceptions) == ((), (), 0)
    assert update.floor == 2


def test_memory_with_an_ack_that_publishes_is_not_kept_over_a_claim() -> None:
    """The publication may be aborted by now, and then the message is to be delivered again."""
    ledger = leased(1, Policy())
    row = stored(state(), ledger.update())
    assert ledger.resync(row, EPOCH)
    ledger.publish([0], Publication(b"t" * 16, b"tag", ()))
    assert not ledger.resync(row, EPOCH)


def test_only_what_changed_since_the_last_commit_travels() -> None:
    ledger = leased(50, Policy())
    for offset in range(40):
        ledger.fail(offset, NOW, 60_000, None)
    update = ledger.update()
    assert len(update.stepped_over) == 40
    ledger.wrote(update)
    ledger.settle([45], Settled.ACKED)
    assert ledger.update().stepped_over == ()


async def test_a_commit_waits_for_as_many_flushes_as_it_takes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(flushes, "MAX_ROWS", 10)
    async with world() as w:
        w.store.publish(*[b"%d" % n for n in range(35)])
        messages = await w.pulled(35)
        ids = [message["ack_id"] for message in messages]
        answer = await w.post("nack", {"ack_ids": ids, "delay_seconds": 60})
        assert answer.json()["done"] == 35
        assert w.metadata.row().exceptions == 35
        assert (
            max(len(update.stepped_over) for flush in w.metadata.flushes for update in flush) == 10
        )


async def test_a_row_that_postgres_refuses_is_set_aside_alone() -> None:
    class Refusing(FakeMetadata):
        async def flush(self, updates: Sequence[CursorUpdate]) -> dict[CursorKey, int]:
            if any(update.key.subscription_uid == OTHER_UID for update in updates):
                raise StatementRefused("cursors_order")
            return await super().flush(updates)

    metadata = Refusing(topic(), subscription(), subscription("other", OTHER_UID))
    async with world(FakeStore(), metadata) as w:
        await w.ready()
        w.store.publish(b"a", b"b")
        good = await w.pulled()
        (bad, _) = (await w.pull(name="other")).json()["messages"]
        assert (await w.post("ack", {"ack_id": bad["ack_id"]}, name="other")).status == 503
        assert (await w.ack(*good)).json()["acked"] == 2
        assert metadata.row(uid=SUBSCRIPTION_UID).floor == 2
        assert len(w.forwarder.flusher.unbalanced) == 1


async def test_a_cursor_that_contradicts_itself_is_set_aside_alone_and_read_anew() -> None:
    metadata = FakeMetadata(topic(), subscription(), subscription("other", OTHER_UID))
    async with world(FakeStore(), metadata) as w:
        await w.ready()
        w.store.publish(b"a", b"b")
        good = await w.pulled()
        (bad, _) = (await w.pull(name="other")).json()["messages"]
        for owner in w.forwarder.owners:
            for reader in owner.readers():
                if reader.cursor.key.subscription_uid == OTHER_UID:
                    reader.cursor.floor = reader.cursor.read_to + 1
        assert (await w.post("ack", {"ack_id": bad["ack_id"]}, name="other")).status == 503
        assert (await w.ack(*good)).json()["acked"] == 2
        assert metadata.row(uid=SUBSCRIPTION_UID).floor == 2
        assert metadata.row(uid=OTHER_UID).floor == 0


def test_memory_that_contradicts_itself_is_not_gone_on_with() -> None:
    ledger = leased(3, Policy())
    row = stored(state(), ledger.update())
    ledger.cursor.floor = ledger.cursor.read_to + 1
    assert not ledger.resync(row, EPOCH)


def test_what_changed_while_its_flush_was_under_way_travels_again() -> None:
    ledger = leased(1, Policy())
    ledger.reject(0, NOW, "no")
    ledger.wrote(ledger.update())
    ledger.dead_letter_failed(0, "first")
    under_way = ledger.update()
    ledger.dead_letter_failed(0, "second")
    ledger.wrote(under_way)
    assert [row.detail for row in ledger.update().stepped_over] == ["second"]


def test_a_lease_that_is_given_back_and_the_next_have_two_ids() -> None:
    ledger = leased(1, Policy(exactly_once=True))
    first = ledger.exact.turn(0)
    ledger.give_back(0)
    ledger.leases.take_ready()
    ledger.lease([0], NOW, NOW.ms + 1_000)
    assert ledger.exact.turn(0) == first + 1
    assert not ledger.held.holds(0, EPOCH, first)


def test_nothing_is_buried_that_may_still_be_delivered() -> None:
    ledger = leased(1, Policy())
    ledger.fail(0, NOW, 0, None)
    assert not ledger.add_dead_letter(letter(0))
    assert not ledger.is_settled(0)
    assert not ledger.update().dead_letters


def test_an_old_hole_is_worth_a_flush_also_when_nothing_else_changes() -> None:
    """The floor of a quiet subscription was held by a message that was held for minutes.

    With it, the store kept all messages behind it. `benchmarks.backlog` found this.
    """
    ledger = Ledger(state(), EPOCH, Policy())
    ledger.classify(3)
    ledger.lease([0, 1, 2], NOW, NOW.ms + 600_000)
    ledger.expire(NOW)
    ledger.settle([1, 2], Settled.ACKED)
    ledger.wrote(ledger.update())
    assert not ledger.cursor.dirty
    for second in range(1, 59):
        ledger.expire(Now(NOW.ms + second * 1_000, NOW.us))
    assert not ledger.has_old_hole
    ledger.expire(Now(NOW.ms + 61_000, NOW.us))
    assert ledger.has_old_hole
    ledger.cursor.touch()
    assert ledger.cursor.dirty
    update = ledger.update()
    assert [row.offset for row in update.stepped_over] == [0]
    assert update.floor == 3
    ledger.wrote(update)
    assert not ledger.has_old_hole


def test_leases_that_were_handed_and_never_looked_at_are_handed_on() -> None:
    """The unit moves twice, with no pull between."""
    ledger = leased(2, Policy())
    row = stored(state(), ledger.update())
    between = Ledger(row, EPOCH, Policy(), handed=ledger.to_hand())
    assert sorted(between.to_hand()) == sorted(ledger.to_hand())
    between.expire(NOW)
    assert sorted(between.to_hand()) == sorted(ledger.to_hand())


def test_a_handed_lease_of_a_settled_message_is_not_handed_on() -> None:
    """The previous owner has told of its leases, and then written an ack of one of them."""
    ledger = leased(3, Policy())
    handed = ledger.to_hand()
    ledger.settle([1], Settled.ACKED)
    after = Ledger(stored(state(), ledger.update()), EPOCH, Policy(), handed=handed)
    assert [lease.offset for lease in after.to_hand()] == [0, 2]


def test_an_ack_that_comes_before_the_first_pull_ends_no_lease_that_was_handed() -> None:
    """The flush carries the holes under those leases before anything asked for their time."""
    ledger = leased(3, Policy())
    handed = ledger.to_hand()
    row = stored(state(), ledger.update())
    after = Ledger(row, EPOCH, Policy(), handed=handed)
    after.settle([1], Settled.ACKED)
    update = after.update()
    assert not after.wrote(update)
    assert sorted(after.to_hand()) == sorted(handed)
    after.expire(NOW)
    assert after.leases.peek_ready() is None
    assert after.leases.leased == 2
    after.expire(Now(NOW.ms + 1_000, NOW.us + 1_000_000))
    assert after.wrote(after.update())
    assert after.attempt(0) == 2


def test_a_message_of_a_handed_lease_fails_with_its_key() -> None:
    """The hole under the lease has none. The row of the failure had none either, so the next owner
    did not know whose turn it was, and a message that failed too often was not parked.
    """
    ledger = leased(2, Policy())
    row = stored(state(), ledger.update())
    after = Ledger(row, EPOCH, Policy(), handed=ledger.to_hand())
    after.key_hash_of = {0: 7}.get
    after.expire(NOW)
    for offset in (0, 1):
        assert after.fail(offset, NOW, 0, None)
    assert {row.offset: row.key_hash for row in after.update().stepped_over} == {0: 7, 1: None}


def test_what_is_resumed_before_the_first_pull_waits_for_its_commit() -> None:
    ledger = leased(1, Policy())
    ledger.step_over([0], Reason.PARKED)
    row = stored(state(), ledger.update())
    after = Ledger(row, EPOCH, Policy())
    assert after.resume(0)
    after.expire(NOW)
    assert after.leases.peek_ready() is None
    assert after.wrote(after.update())
    assert after.leases.peek_ready() == 0


def test_what_was_given_up_is_under_no_lease_of_before() -> None:
    ledger = leased(2, Policy(max_attempts=1))
    ledger.reject(0, NOW, "bad")
    row = stored(state(), ledger.update())
    handed = [InheritedLease(NOW.ms + 1_000, 3, offset) for offset in (0, 1)]
    after = Ledger(row, EPOCH, Policy(max_attempts=1), handed=handed)
    after.expire(NOW)
    assert after.leases.grant_of(0) is None
    grant = after.leases.grant_of(1)
    assert grant is not None
    assert grant.epoch_n == 3
