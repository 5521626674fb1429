"""Order and priorities on a real Postgres: what a takeover finds in the rows."""

from __future__ import annotations

from typing import Any

from metadata.database import Database
from metadata.delivery.deliveries import Reason
from metadata.types import Counters, RetryPolicy
from store_nodes.record_batch import Message
from subscribe_forwarder.delivery.state.lanes import Lane
from subscribe_forwarder.delivery.state.order import hash_of
from tests.integration.subscribe_forwarder.forwarder_support import Site, kill
from tests.unit.subscribe_forwarder.subscribe_support import Consumer


def keyed(*texts: str) -> list[Message]:
    return [Message(text.encode(), "text/plain", key=text[0]) for text in texts]


async def nack(consumer: Consumer, *messages: dict[str, Any], delay_s: float = 0) -> None:
    ids = [message["ack_id"] for message in messages]
    answer = await consumer.post("nack", {"ack_ids": ids, "delay_seconds": delay_s})
    assert answer.json()["done"] == len(ids), answer.body


async def test_a_killed_owner_leaves_the_order_of_every_key(database: Database) -> None:
    site = await Site.open(database, ordered=True)
    async with site.forwarder() as consumer:
        site.store.publish(*keyed("a1", "b1", "c1", "a2", "b2", "c2"))
        a1, b1, c1 = await consumer.pulled()
        await nack(consumer, a1, delay_s=600)
        await nack(consumer, b1)
        await consumer.ack(c1)
        (again, c2) = sorted(await consumer.pulled(wait_s=10), key=lambda m: str(m["data"]))
        assert (again["data"], c2["data"]) == ("b1", "c2")
        await kill(consumer)
    row = (await site.rows())[0]
    assert row.exceptions == 2
    async with site.forwarder() as consumer:
        site.store.publish(*keyed("a3", "d1"))
        got: dict[str, dict[str, Any]] = {}
        while len(got) < 3:
            got |= {m["data"]: m for m in await consumer.pulled(wait_s=10)}
        assert set(got) == {"b1", "c2", "d1"}, "a1 is in back-off, and a2 and a3 are behind it"
        assert got["b1"]["attempt"] >= 2
        await consumer.ack(got["b1"])
        assert [m["data"] for m in await consumer.pulled(wait_s=10)] == ["b2"]


async def test_a_parked_key_is_in_its_rows_and_a_clean_stop_keeps_it(database: Database) -> None:
    site = await Site.open(
        database,
        ordered=True,
        retry=RetryPolicy(0.0, 0.0, max_attempts=1),
        on_exhausted="park",
    )
    async with site.forwarder() as consumer:
        site.store.publish(*keyed("a1", "a2", "b1"))
        a1, b1 = await consumer.pulled()
        await nack(consumer, a1)
        await consumer.ack(b1)
    async with site.forwarder() as consumer:
        site.store.publish(*keyed("a3", "b2"))
        (b2,) = await consumer.pulled(wait_s=10)
        await consumer.ack(b2)
        reader = consumer.forwarder.reader(site.subscription.uid, Lane(0))
        assert reader is not None
        ((key, head, behind),) = reader.parked()
        assert (key, head.offset, head.reason, behind) == (hash_of("a"), 0, Reason.PARKED, 2)
        row = await site.row()
        assert (row.floor, row.exceptions) == (5, 3)
        assert reader.skip_head(key)
        await consumer.forwarder.flusher.commit([reader])
        for text in ("a2", "a3"):
            (message,) = await consumer.pulled(wait_s=10)
            assert message["data"] == text
            await consumer.ack(message)
        row = await site.row()
        assert (row.exceptions, row.counters) == (0, Counters(acked=4, skipped=1))
