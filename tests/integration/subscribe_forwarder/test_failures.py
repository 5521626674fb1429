"""Failures on a real Postgres: durable before the next attempt, known after a takeover."""

from __future__ import annotations

import pytest

from metadata.database import Database
from metadata.delivery.cursors import CursorRepository
from metadata.delivery.deliveries import Reason
from metadata.types import Counters, RetryPolicy
from subscribe_forwarder.delivery.state import ages, holes
from tests.integration.subscribe_forwarder.forwarder_support import Site, kill
from tests.unit.subscribe_forwarder.subscribe_support import NO_OUTBOX, Consumer, doomed

AT_ONCE = RetryPolicy(min_backoff_s=0.0)
USED_UP = [(0, Reason.EXHAUSTED), (1, Reason.REJECTED)]


async def test_attempts_and_reasons_survive_the_owner(database: Database) -> None:
    site = await Site.open(database, retry=AT_ONCE)
    async with site.forwarder() as first:
        site.store.publish(b"a", b"b", b"c")
        a, b, _ = await first.pulled()
        await first.post("nack", {"ack_id": a["ack_id"], "delay_seconds": 0, "reason": "no"})
        (again,) = await first.pulled(1, wait_s=5)
        assert again["attempt"] == 2
        await first.post("nack", {"ack_id": again["ack_id"], "delay_seconds": 600})
        await first.ack(b)
        row = await site.row()
        assert (row.floor, row.exceptions, row.acked) == (2, 1, ())
        await kill(first)
    async with site.forwarder() as second:
        (c,) = await second.pulled()
        assert (c["data"], c["attempt"]) == ("c", 1), "a is in its back-off"
        answer = await second.call("GET", "/subscriptions/{name}/reconciliation", name="reader")
        (books,) = answer.json()["partitions"]
        assert answer.json()["balanced"]
        assert (books["exceptions"], books["open_deliveries"], books["pending"]) == (1, 1, 1)
        reader = next(iter((await second.forwarder.hub(site.tenant_id, "reader")).readers.values()))
        (open_,) = reader.ledger.exceptions.values()
        assert (open_.attempts, open_.reason, open_.detail) == (2, Reason.FAILED, "no")
        assert (await second.ack(a)).json()["acked"] == 1
        row = await site.row()
        assert (row.exceptions, row.counters) == (0, Counters(acked=2))
        assert await CursorRepository(database).unbalanced() == []


async def test_an_expired_lease_is_a_failure_that_is_written_before_the_next_attempt(
    database: Database,
) -> None:
    site = await Site.open(database, retry=AT_ONCE, ack_deadline_s=0.05)
    async with site.forwarder() as consumer:
        site.store.publish(b"a")
        await consumer.pulled()
        (again,) = await consumer.pulled(wait_s=20)
        assert again["attempt"] == 2
        (row,) = await CursorRepository(database).load(
            [reader.partition for reader in consumer.forwarder.owners.readers()]
        )
        assert [one.attempts for one in row.stepped_over] == [1]


async def test_what_is_used_up_waits_for_its_burial_also_at_the_next_owner(
    database: Database,
) -> None:
    site = await Site.open(
        database,
        retry=RetryPolicy(min_backoff_s=0.0, max_attempts=2),
        dead_letter_topic="letters",
    )
    with doomed() as told:
        async with site.forwarder(outbox=NO_OUTBOX) as first:
            await _use_up(site, first)
            assert [(dead.offset, dead.reason) for _, dead in told] == USED_UP
            assert await first.pulled() == []
        told.clear()
        async with site.forwarder(outbox=NO_OUTBOX) as second:
            assert await second.pulled() == []
            assert sorted((dead.offset, dead.reason) for _, dead in told) == USED_UP


async def _use_up(site: Site, first: Consumer) -> None:
    """Use up the two attempts of one message, and reject another."""
    site.store.publish(b"a", b"b")
    a, b = await first.pulled()
    await first.post("nack", {"ack_id": a["ack_id"]})
    (a,) = await first.pulled(wait_s=5)
    await first.post("nack", {"ack_id": a["ack_id"]})
    await first.post("reject", {"ack_id": b["ack_id"], "reason": "bad"})


async def test_one_message_unacked_holds_neither_floor_nor_row(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(holes, "OLD_MS", 0)
    monkeypatch.setattr(ages, "_EVERY_MS", 0)
    site = await Site.open(database)
    async with site.forwarder() as consumer:
        sizes = []
        stuck = None
        for _ in range(20):
            site.store.publish(*[b"%d" % n for n in range(500)])
            messages = await consumer.pulled(500)
            assert len(messages) == 500
            if stuck is None:
                stuck = messages.pop(3)
            await consumer.ack(*messages)
            row = await site.row()
            sizes.append((len(row.acked), row.exceptions))
        assert sizes[1:] == [(0, 1)] * 19
        assert (await site.row()).floor == 10_000
        assert stuck is not None
        assert (await consumer.ack(stuck)).json()["acked"] == 1
        row = await site.row()
        assert (row.exceptions, row.counters) == (0, Counters(acked=10_000))
        assert await CursorRepository(database).unbalanced() == []


async def test_acks_in_any_order_make_no_rows(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 10,000 leased messages, 1,429 ranges stay ranges as long as their holes are young."""
    monkeypatch.setattr(holes, "YOUNG_MS", 3_600_000)
    site = await Site.open(database)
    async with site.forwarder() as consumer:
        for _ in range(10):
            site.store.publish(*[b"x" for _ in range(1000)])
        messages = []
        while batch := await consumer.pulled(1000):
            messages += batch
        offsets = list(range(0, 10_000, 7)) + [n for n in range(10_000) if n % 7]
        flushed = 0
        for at in range(0, 10_000, 1000):
            await consumer.ack(*[messages[n] for n in offsets[at : at + 1000]])
            flushed = max(flushed, (await site.row()).exceptions)
        assert flushed == 0
        row = await site.row()
        assert (row.floor, row.exceptions) == (10_000, 0)


async def test_books_gone_wrong_are_told(database: Database) -> None:
    """A range lacks its counter, and a row is missing: the flush and a recount find it."""
    site = await Site.open(database)
    async with site.forwarder() as consumer:
        site.store.publish(*[b"%d" % n for n in range(6)])
        messages = await consumer.pulled()
        await consumer.ack(messages[0])
        books = consumer.forwarder.flusher.unbalanced
        assert len(books) == 0
        (reader,) = consumer.forwarder.owners.readers()
        reader.cursor._counts[0] -= 1
        assert (await consumer.ack(messages[1])).status == 200
        assert len(books) == 1
        answer = await consumer.call("GET", "/subscriptions/{name}/reconciliation", name="reader")
        assert not answer.json()["balanced"]
        assert [each["difference"] for each in answer.json()["partitions"]] == [1]
        reader.cursor._counts[0] += 1
        await consumer.ack(messages[2])
        await consumer.forwarder.reconciler.sweep()
        assert len(books) == 0
        await consumer.post("nack", {"ack_id": messages[3]["ack_id"]})

        async def lose(connection: object) -> None:
            await connection.execute("DELETE FROM deliveries")  # type: ignore[attr-defined]

        await database.statement(lose, writes=True)
        await consumer.forwarder.reconciler.sweep()
        assert len(books) == 1


async def test_a_row_that_goes_wrong_by_itself_is_found_among_all(database: Database) -> None:
    async def change(by: int) -> None:
        async def work(connection: object) -> None:
            await connection.execute(  # type: ignore[attr-defined]
                "UPDATE cursors SET acked_total = acked_total + $1", by
            )

        await database.statement(work, writes=True)

    site = await Site.open(database)
    async with site.forwarder() as consumer:
        site.store.publish(b"one")
        (message,) = await consumer.pulled()
        assert (await consumer.ack(message)).status == 200
        books, reconciler = consumer.forwarder.flusher.unbalanced, consumer.forwarder.reconciler
        await reconciler.sweep()
        await change(-1)
        await reconciler.sweep()
        assert len(books) == 0
        await reconciler.count_all()
        assert len(books) == 1
        await change(+1)
        await reconciler.count_all()
        assert len(books) == 0
