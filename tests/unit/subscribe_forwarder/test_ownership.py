"""The lease, claims, takeovers, and what happens when Postgres does not answer."""

from __future__ import annotations

import asyncio

import pytest

from metadata.errors import MetadataUnavailable, OutcomeUnknown
from metadata.lease import LEASE_S
from metadata.types import ChangeKind, Claim, Counters, Epoch, Unit
from subscribe_forwarder.delivery.owner import Owner
from subscribe_forwarder.delivery.state.lanes import Lane
from tests.unit.subscribe_forwarder.subscribe_support import (
    ACK_KEY,
    SUBSCRIPTION_UID,
    TENANT,
    TOPIC_UID,
    FakeMetadata,
    FakeStore,
    World,
    subscription,
    topic,
    world,
)

KEY = Unit(TENANT, TOPIC_UID, 0)
DOWN = MetadataUnavailable("down")


async def eventually(condition: object, limit_s: float = 5.0) -> None:
    assert callable(condition)
    async with asyncio.timeout(limit_s):
        while not condition():
            await asyncio.sleep(0.005)


def owner_of(w: World) -> Owner:
    owner = w.forwarder.owners.get(KEY)
    assert owner is not None
    return owner


def others_lease(metadata: FakeMetadata) -> None:
    """Another forwarder takes over, as if our lease had run out."""
    metadata.owners[KEY] = b"other"
    metadata.taken(KEY)
    metadata.leases[b"other"] = metadata.clock() + 1000


def test_nothing_goes_on_under_an_epoch_that_was_there_before() -> None:
    owner = Owner(Claim(KEY, Epoch(1, 3), ()), {}, ACK_KEY)
    for before in (Epoch(1, 3), Epoch(1, 2), Epoch(0, 9)):
        with pytest.raises(AssertionError, match="claimed under"):
            owner.adopt(Claim(KEY, before, ()), lambda _: None)
    owner.adopt(Claim(KEY, Epoch(2, 0), ()), lambda _: None)
    assert owner.epoch == Epoch(2, 0)


async def test_a_restart_loses_no_ack_and_delivers_again_what_was_leased() -> None:
    store, metadata = FakeStore(), FakeMetadata(topic(), subscription())
    async with world(store, metadata) as w:
        await w.ready()
        store.publish(*[b"%d" % i for i in range(6)])
        messages = await w.pulled()
        await w.ack(messages[0], messages[3])
    assert metadata.row().read_to == 6
    async with world(store, metadata) as w:
        await w.ready()
        assert [m["data"] for m in await w.pulled()] == ["1", "2", "4", "5"]
        ids = {"ack_ids": [m["ack_id"] for m in messages]}
        assert (await w.post("ack", ids)).json()["acked"] == 6
        assert metadata.row().floor == 6


async def test_a_killed_forwarder_loses_no_ack_either() -> None:
    store, metadata = FakeStore(), FakeMetadata(topic(), subscription())
    async with world(store, metadata) as w:
        await w.ready()
        store.publish(*[b"%d" % i for i in range(4)])
        messages = await w.pulled()
        rows = dict(metadata.rows)
    metadata.rows = rows  # read_to was not flushed
    async with world(store, metadata) as w:
        await w.ready()
        stale = await w.ack(messages[3], by="message_id")
        assert stale.json()["acked"] == 0, "not known to have been delivered"
        assert (await w.ack(messages[3])).json()["acked"] == 1, "its token proves it was"
        assert [m["data"] for m in await w.pulled()] == ["0", "1", "2"]


async def test_a_second_forwarder_waits_until_the_first_releases() -> None:
    store, metadata = FakeStore(), FakeMetadata(topic(), subscription())
    async with world(store, metadata) as first:
        await first.ready()
        async with world(store, metadata) as second:
            await asyncio.sleep(0.05)
            assert "another" in (second.forwarder.not_ready_reason() or "")
            assert (await second.pull()).status == 503
            await first.forwarder.close()
            await eventually(lambda: second.forwarder.not_ready_reason() is None)
            assert (await second.pull()).status == 200


async def test_a_second_forwarder_takes_over_when_the_lease_ends() -> None:
    metadata = FakeMetadata(topic(), subscription())
    metadata.leases[b"dead"] = metadata.clock() + 0.1
    metadata.owners[KEY], metadata.epochs[KEY] = b"dead", 1
    async with world(metadata=metadata) as w:
        assert w.forwarder.not_ready_reason() is not None
        await eventually(lambda: w.forwarder.not_ready_reason() is None)
        assert metadata.epochs[KEY] == 2


async def test_nothing_is_handed_out_after_the_lease_by_our_own_clock() -> None:
    async with world() as w:
        w.store.publish(b"x")
        w.metadata.failure = DOWN
        w.clock.added_s += w.metadata.lease_s
        assert (await w.pull()).status == 503
        assert w.forwarder.not_ready_reason() == "lease not held"


async def test_the_lease_is_checked_again_before_the_response_leaves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with world() as w:
        w.store.publish(b"x")
        hub = await w.forwarder.hub(TENANT, "reader")
        collect = hub._collect

        def slow(*limits: int) -> object:
            delivery = collect(*limits)
            if delivery is not None:
                monkeypatch.setattr(w.forwarder, "holds_lease", lambda: False)
            return delivery

        monkeypatch.setattr(hub, "_collect", slow)
        assert (await w.pull()).status == 503
        monkeypatch.undo()
        (message,) = await w.pulled()
        assert message["attempt"] == 1, "the hand-out that never left does not count"


async def test_postgres_down_answers_503_and_all_heals() -> None:
    async with world() as w:
        w.metadata.lease_s = LEASE_S
        w.store.publish(b"a", b"b")
        (message, _) = await w.pulled()
        w.metadata.failure = DOWN
        answer = await w.ack(message)
        assert answer.status == 503
        assert answer.json()["outcome"] == "unknown"
        waiting = asyncio.create_task(w.pulled(wait_s=30))
        await asyncio.sleep(0.01)
        w.clock.added_s += 200_000
        await asyncio.sleep(0.05)
        assert (await w.pull()).status == 503
        w.metadata.failure = None
        await eventually(lambda: w.forwarder.not_ready_reason() is None)
        (again,) = await waiting
        assert (again["data"], again["attempt"]) == ("b", 2), "a was acked after all"
        assert (await w.ack(message)).json()["acked"] == 1
        assert w.metadata.row().counters == Counters(acked=1)


async def test_leased_messages_stay_leased_over_an_outage() -> None:
    async with world(ack_deadline_s=43_000) as w:
        w.metadata.lease_s = LEASE_S
        w.store.publish(b"a", b"b")
        (message,) = await w.pulled(1)
        w.clock.added_s += w.forwarder.settings.fetch_timeout_s
        w.metadata.leases.clear()  # the row is over; nobody else has claimed
        await eventually(lambda: len(w.metadata.leases) == 1, 10)
        await eventually(lambda: w.forwarder.not_ready_reason() is None)
        assert w.metadata.epochs[KEY] == 2
        assert [m["data"] for m in await w.pulled()] == ["b"]
        assert (await w.ack(message)).json()["acked"] == 1


async def test_another_owner_in_between_means_reading_the_rows_again() -> None:
    async with world() as w:
        w.store.publish(b"a", b"b")
        await w.pulled()
        w.metadata.taken(KEY)  # somebody had it for a moment
        w.metadata.leases.clear()
        await eventually(lambda: w.metadata.epochs[KEY] == 3)
        await eventually(lambda: w.forwarder.not_ready_reason() is None)
        assert [(m["data"], m["attempt"]) for m in await w.pulled()] == [("a", 1), ("b", 1)]


async def test_a_flush_under_a_lost_epoch_acks_nothing_and_drops_the_partition() -> None:
    async with world() as w:
        w.store.publish(b"a")
        (message,) = await w.pulled()
        others_lease(w.metadata)
        assert (await w.ack(message)).status == 503
        await eventually(lambda: KEY not in w.forwarder.owners)
        assert w.metadata.row().counters == Counters()
        assert (await w.pull()).status == 503
        del w.metadata.leases[b"other"]
        (again,) = await w.pulled()
        assert (await w.ack(again)).json()["acked"] == 1


async def test_nothing_is_handed_out_once_a_flush_found_its_epoch_lost() -> None:
    async with world() as w:
        w.store.publish(b"a", b"b")
        (message,) = await w.pulled(1)
        others_lease(w.metadata)
        assert (await w.ack(message)).status == 503
        assert (await w.pull()).status == 503


async def test_an_ack_that_was_not_written_and_whose_cursor_was_replaced_is_not_answered() -> None:
    async with world() as w:
        w.store.publish(b"a")
        (message,) = await w.pulled()
        await eventually(lambda: not w.forwarder.flusher._flushing)
        flushes, gate = len(w.metadata.flushes), asyncio.Event()
        w.metadata.flush_gate = gate
        ack = asyncio.create_task(w.ack(message))
        await eventually(lambda: len(w.metadata.flushes) > flushes)
        others_lease(w.metadata)
        reader = w.forwarder.reader(SUBSCRIPTION_UID, Lane(0, 0))
        assert reader is not None
        reader.reset(w.metadata.row(), reader.cursor.epoch)
        gate.set()
        assert (await ack).status == 503


@pytest.mark.parametrize("happened", [True, False])
async def test_an_unknown_commit_freezes_until_the_partition_is_claimed_again(
    happened: bool,
) -> None:
    async with world() as w:
        w.store.publish(b"a", b"b")
        (message,) = await w.pulled(1)
        w.metadata.flush_failure = OutcomeUnknown("cut")
        w.metadata.flush_happens = happened
        claim, gate = w.metadata.claim, asyncio.Event()

        async def slow_claim(*args: object, **options: object) -> object:
            await gate.wait()
            return await claim(*args, **options)  # type: ignore[arg-type]

        w.metadata.claim = slow_claim  # type: ignore[method-assign, assignment]
        answer = await w.ack(message)
        assert answer.status == 503
        assert answer.json()["outcome"] == "unknown"
        w.metadata.flush_failure = None
        assert (await w.pull()).status == 503, "frozen: no hand-outs"
        assert (await w.ack(message)).status == 503, "frozen: no acks"
        gate.set()
        await eventually(lambda: not owner_of(w).frozen)
        assert w.metadata.epochs[KEY] == 2
        assert (await w.ack(message)).json()["acked"] == 1
        assert w.metadata.row().counters == Counters(acked=1)
        assert [m["data"] for m in await w.pulled()] == ["b"], "nothing comes twice"


async def test_a_flush_that_fails_as_nobody_foresaw_is_unknown_and_not_the_last() -> None:
    async with world() as w:
        w.store.publish(b"a")
        (message,) = await w.pulled()
        w.metadata.flush_failure = ValueError("of the driver")  # type: ignore[assignment]
        assert (await w.ack(message)).status == 503
        w.metadata.flush_failure = None
        await eventually(lambda: w.metadata.epochs[KEY] == 2 and not owner_of(w).frozen)
        assert (await w.ack(message)).json()["acked"] == 1


async def test_a_flush_that_hangs_is_unknown() -> None:
    async with world(flush_timeout_s=0.05) as w:
        w.store.publish(b"a")
        (message,) = await w.pulled()
        w.metadata.flush_gate = asyncio.Event()
        assert (await w.ack(message)).status == 503
        w.metadata.flush_gate = None
        await eventually(lambda: w.metadata.epochs[KEY] == 2)
        await eventually(lambda: not owner_of(w).frozen)
        assert (await w.ack(message)).json()["acked"] == 1


async def test_a_clean_stop_flushes_and_releases() -> None:
    async with world(lazy_flush_s=60) as w:
        w.store.publish(b"a")
        await w.pulled()
        waiting = asyncio.create_task(w.pull(wait_s=30))
        await asyncio.sleep(0.01)
        await w.forwarder.close()
        assert (await waiting).json() == {"messages": []}
        assert w.metadata.row().read_to == 1
        assert w.metadata.leases == {}
        assert w.metadata.owners == {}


async def test_acks_are_taken_while_draining() -> None:
    async with world() as w:
        w.store.publish(b"a")
        (message,) = await w.pulled()
        w.forwarder.drain()
        assert (await w.pull()).status == 503
        assert (await w.ack(message)).json()["acked"] == 1


async def test_stopping_while_postgres_is_down_ends() -> None:
    async with world() as w:
        w.store.publish(b"a")
        await w.pulled()
        w.metadata.failure = DOWN
        async with asyncio.timeout(3):
            await w.forwarder.close()


async def test_a_subscription_made_later_is_served_at_once() -> None:
    async with world() as w:
        w.store.publish(b"a")
        assert len(await w.pulled()) == 1
        w.metadata.add_rows(subscription("second", b"2" * 16), topic())
        assert len((await w.pull(name="second")).json()["messages"]) == 1


async def test_a_deleted_subscription_ends_its_waits_and_its_namesake_starts_afresh() -> None:
    async with world() as w:
        w.store.publish(b"a")
        (message,) = await w.pulled()
        waiting = asyncio.create_task(w.pull(wait_s=30))
        await asyncio.sleep(0.01)
        del w.metadata.subscriptions["reader"]
        w.metadata.rows.clear()
        await w.metadata.changed(ChangeKind.SUBSCRIPTION, SUBSCRIPTION_UID, "reader")
        assert (await waiting).status == 404
        assert (await w.pull()).status == 404
        w.metadata.add_rows(subscription(uid=b"n" * 16), topic())
        (fresh,) = await w.pulled()
        answer = await w.ack(message)
        assert answer.json()["acked"] == 0
        assert (await w.ack(fresh)).json()["acked"] == 1


async def test_a_deleted_topic_is_let_go() -> None:
    async with world() as w:
        await w.pulled()
        w.metadata.topics.clear()
        w.metadata.subscriptions.clear()
        await w.metadata.changed(ChangeKind.TOPIC, TOPIC_UID)
        assert not w.forwarder.owners


async def test_a_new_topic_is_claimed_when_the_feed_tells() -> None:
    async with world() as w:
        other = topic(2, "second", b"w" * 16)
        w.metadata.topics[other.uid] = other
        await w.metadata.changed(ChangeKind.TOPIC, other.uid)
        assert len(w.forwarder.owners) == 3


async def backlog(w: World) -> dict[str, object]:
    answer = await w.call("GET", "/subscriptions/{name}/backlog", name="reader")
    return dict(answer.json())


async def test_backlog() -> None:
    async with world(partitions=2) as w:
        w.store.publish(b"a", b"b", b"c")
        w.store.publish(b"d", partition=1)
        assert (await backlog(w))["messages"] == 4
        messages = []
        while len(messages) < 3:
            messages += await w.pulled(3 - len(messages))
        await w.ack(messages[0])
        await w.post("nack", {"ack_id": messages[1]["ack_id"], "delay_seconds": 60})
        shown = await backlog(w)
        assert (shown["messages"], shown["leased"], shown["waiting_redelivery"]) == (3, 1, 1)


async def test_a_message_and_its_states() -> None:
    metadata = FakeMetadata(topic(), subscription())
    metadata.add_rows(subscription("later", b"l" * 16), topic(), floor=2)
    async with world(metadata=metadata) as w:
        await w.ready()
        w.store.publish(b"a", b"b", b"c")
        first, second, third = await w.pulled()
        await w.ack(first)
        await w.post("nack", {"ack_id": third["ack_id"]})
        path = "/topics/{topic}/messages/{id}"
        shown = await w.call("GET", path, topic="orders", id=second["message_id"])
        assert (shown.json()["data"], shown.json()["offset"]) == ("b", 1)
        states = [
            (await w.call("GET", path + "/ack", topic="orders", id=message["message_id"])).json()[
                "subscriptions"
            ]
            for message in (first, second, third)
        ]
        assert states == [
            {"reader": {"state": "acked"}},
            {"reader": {"state": "leased", "attempts": 1}},
            {
                "reader": {"state": "pending", "attempts": 1, "reason": "failed"},
                "later": {"state": "pending", "attempts": 0},
            },
        ]


@pytest.mark.parametrize("suffix", ["", "/ack"])
async def test_ids_of_no_message(suffix: str) -> None:
    from edge.message_id import MessageId

    async with world() as w:
        w.store.publish(b"a")
        path = "/topics/{topic}/messages/{id}" + suffix
        for name, status in (
            ("junk", 400),
            (str(MessageId(1, TOPIC_UID, 0, 0, 5)), 404),
            (str(MessageId(1, TOPIC_UID, 8, 0, 0)), 404),
            (str(MessageId(2, TOPIC_UID, 0, 0, 0)), 404),
            (str(MessageId(1, b"x" * 16, 0, 0, 0)), 404),
        ):
            assert (await w.call("GET", path, topic="orders", id=name)).status == status
        message = str(MessageId(1, TOPIC_UID, 0, 0, 0))
        assert (await w.call("GET", path, topic="nothing", id=message)).status == 404
