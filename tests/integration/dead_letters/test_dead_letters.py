"""Dead letters from the last failed attempt to the topic, the listing, and back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator

import pytest

from harness.cluster import ChaosCluster
from metadata.database import Database
from metadata.delivery.cursors import CursorRepository
from metadata.subscriptions.dead_letters import DeadLetterRepository
from metadata.types import RetryPolicy
from outbox.dead_letter import PREFIX
from store_nodes.client import StoreClient
from store_nodes.record_batch import Message
from subscribe_forwarder.undelivered import find_undelivered
from tests.integration.dead_letters.yard import LETTERS, REDRIVES, Yard, until
from tests.integration.store_nodes.store_cluster import ready_client, running_store

PARKED = "/subscriptions/{name}/parked_keys"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChaosCluster]:
    with running_store(tmp_path_factory.mktemp("store")) as cluster:
        yield cluster


@pytest.fixture
async def client(cluster: ChaosCluster) -> AsyncIterator[StoreClient]:
    async with ready_client(cluster) as client:
        yield client


async def test_an_exhausted_message_becomes_a_dead_letter(
    database: Database, client: StoreClient
) -> None:
    yard = await Yard.open(database, client)
    await yard.subscribe(retry=RetryPolicy(0.0, 0.0, 3))
    await yard.publish(Message(b'{"n":1}', "application/json", "k", {"own": "1"}))
    async with yard.forwarder() as reader:
        for attempt in range(3):
            await reader.fail(1, reason=f"failure {attempt}")
        (letter,) = await reader.dead(1)
        assert (letter["reason"], letter["detail"], letter["attempts"]) == (
            "exhausted",
            "failure 2",
            3,
        )
        assert letter["attributes"] == {"own": "1"}
        assert letter["first_at"] < letter["last_at"] < letter["dead_at"]
        one = (await reader.ask("GET", LETTERS + "/{letter}", letter=letter["id"])).json()
        assert one.pop("message")["data"] == {"n": 1}
        assert one == letter
        assert await reader.pulled() == []
    (written,) = await yard.stored()
    attributes = written.attributes or {}
    assert {name.removeprefix(PREFIX) for name in attributes} == {
        *("own", "reason", "detail", "attempts", "first-at", "last-at", "subscription", "topic"),
        *("message-id", "publish-time", "offset", "partition"),
    }
    assert attributes[PREFIX + "message-id"] == letter["message_id"]
    (row,) = await CursorRepository(database).of_topic(yard.tenant_id, yard.topics["orders"].uid)
    assert (row.counters.dead_lettered, row.exceptions, row.pending()) == (1, 0, 0)


async def test_a_rejected_message_goes_at_once(database: Database, client: StoreClient) -> None:
    yard = await Yard.open(database, client)
    await yard.subscribe(retry=RetryPolicy())
    await yard.publish(Message(b"a"), Message(b"b"))
    async with yard.forwarder() as reader:
        first, second = await reader.pulled()
        answer = await reader.post("reject", {"ack_ids": [first["ack_id"]], "reason": "unreadable"})
        assert answer.json()["done"] == 1
        (letter,) = await reader.dead(1)
        assert (letter["reason"], letter["detail"]) == ("rejected", "unreadable")
        assert letter["message_id"] == first["message_id"]
        assert (await reader.ack(second)).json()["acked"] == 1


async def test_a_crash_between_append_and_commit_leaves_one_dead_letter(
    database: Database, client: StoreClient
) -> None:
    yard = await Yard.open(database, client)
    await yard.subscribe()
    await yard.publish(Message(b"a"))
    async with yard.forwarder() as reader:
        # Appended dead letters are never noted, as if the process had died at that moment.
        lost = []
        reader.dead_letter_writer._note = lost.append
        await reader.fail(1)

        async def appended() -> bool:
            return bool(lost)

        await until(appended)
        for held in reader.forwarder.owners:
            held.freeze()
        assert len(await yard.stored()) == 1
    async with yard.forwarder() as reader:
        # Nobody pulls, so its next owner has to look for it.
        letters = DeadLetterRepository(database)
        looking = find_undelivered(
            letters, reader.forwarder, reader.dead_letter_writer, look_every_s=0.05
        )
        task = asyncio.create_task(looking)
        (letter,) = await reader.dead(1)
        task.cancel()
        assert letter["letter_id"]
        assert await reader.pulled() == []
    assert len(await yard.stored()) == 1


async def test_without_its_topic_it_stays_open_and_says_why(
    database: Database, client: StoreClient
) -> None:
    yard = await Yard.open(database, client, "orders")
    await yard.subscribe()
    await yard.publish(Message(b"a"))
    async with yard.forwarder() as reader:
        await reader.fail(1, reason="it said so")

        async def told() -> bool:
            page = (await reader.ask("GET", LETTERS)).json()
            expected = {"messages": 1, "reason": "there is no topic 'graves'"}
            return bool(page["undelivered"] == expected)

        await until(told)
        await yard.make_topic("graves")
        (letter,) = await reader.dead(1)
        assert letter["detail"] == "it said so"
        page = (await reader.ask("GET", LETTERS)).json()
        assert page["undelivered"] == {"messages": 0, "reason": None}


async def test_dead_letters_are_found_by_filter_page_by_page(
    database: Database, client: StoreClient
) -> None:
    yard = await Yard.open(database, client)
    await yard.subscribe()
    await yard.publish(*(Message(b"x" * n, key=f"k{n % 3}") for n in range(30)))
    async with yard.forwarder() as reader:
        await reader.fail(30)
        dead = await reader.dead(30)
        assert [letter["offset"] for letter in dead] == list(range(30))
        found, token = [], ""
        while True:
            query = f'filter=key+==+"k1"+%26%26+size_bytes+>+5&page_size=3{token}'
            page = (await reader.ask("GET", LETTERS, query=query)).json()
            found += [letter["offset"] for letter in page["dead_letters"]]
            if page["next_page_token"] is None:
                break
            token = f"&page_token={page['next_page_token']}"
        assert found == [n for n in range(30) if n % 3 == 1 and n > 5]
        answer = await reader.ask("GET", LETTERS, query="filter=key+==")
        assert (answer.status, answer.json()["errors"][0]["field"]) == (400, "filter")
        for body, counted in (({"filter": "offset < 10"}, 10), ({"ids": [dead[12]["id"]]}, 1)):
            answer = await reader.ask("POST", LETTERS + ":discard", body)
            assert answer.json() == {"discarded": counted, "complete": True}
        assert len(await reader.letters()) == 19
        assert len(await reader.letters("state=discarded")) == 11


async def test_a_redrive_reaches_its_subscription_alone_in_order(
    database: Database, client: StoreClient
) -> None:
    yard = await Yard.open(database, client)
    await yard.subscribe()
    await yard.publish(*(Message(b"%d" % n, "text/plain", "k") for n in range(1000)))
    async with yard.forwarder() as reader, yard.scheduler():
        await reader.fail(1000)
        await reader.dead(1000)
        await yard.subscribe("other", dead_letter_topic=None, retry=RetryPolicy())
        dry = (await reader.ask("POST", LETTERS + ":redrive", {"dry_run": True})).json()
        assert (dry["matched"], dry["complete"], len(dry["sample"])) == (1000, True, 5)
        redrive = await reader.ended(await reader.redrive({}))
        assert (redrive["state"], redrive["total"], redrive["redriven"]) == ("done", 1000, 1000)
        again: list[str] = []
        while len(again) < 1000:
            pulled = await reader.pulled(1000, wait_s=5)
            assert {message["attempt"] for message in pulled} == {1}
            again += [message["data"] for message in pulled]
            await reader.ack(*pulled)
        assert again == [str(n) for n in range(1000)]
        seen: list[int] = []
        while pulled := (await reader.pull(1000, name="other")).json()["messages"]:
            seen += [message["offset"] for message in pulled]
        assert sorted(seen) == list(range(1000)), "it gets none of what was redriven"
        assert len(await reader.letters("state=redriven&page_size=1000")) == 1000


async def test_a_redrive_edits_keeps_its_rate_and_is_cancelled(
    database: Database, client: StoreClient
) -> None:
    yard = await Yard.open(database, client, "orders", "graves", "fixed")
    await yard.subscribe()
    await yard.publish(*(Message(b"old", attributes={"n": str(n), "x": "1"}) for n in range(40)))
    async with yard.forwarder() as reader, yard.scheduler():
        await reader.fail(40)
        await reader.dead(40)
        edit = {"attributes": {"x": None, "fixed": "yes"}, "data": {"new": 1}, "key": "k"}
        body = {"filter": 'attributes.n == "7"', "to": "fixed", "edit": edit}
        redrive = await reader.ended(await reader.redrive(body))
        assert (redrive["state"], redrive["total"], redrive["redriven"]) == ("done", 1, 1)
        (message,) = await yard.stored("fixed")
        assert (message.data, message.content_type, message.key) == (
            b'{"new":1}',
            "application/json",
            "k",
        )
        assert message.attributes == {"n": "7", "fixed": "yes"}
        assert "only" not in (message.origin or {})
        began = time.monotonic()
        slow = await reader.redrive({"rate": 20, "to": "fixed"})

        async def some() -> bool:
            return int((await reader.redrive_is(slow))["redriven"]) >= 20

        await until(some)
        assert time.monotonic() - began >= 0.4
        path = REDRIVES + "/{redrive}:cancel"
        await reader.ask("POST", path, redrive=slow["redrive_id"])
        ended = await reader.ended(slow)
        assert ended["state"] == "cancelled"
        assert 20 <= ended["redriven"] < 39
        assert len(await reader.letters()) == 39 - ended["redriven"]
        listed = (await reader.ask("GET", REDRIVES)).json()["redrives"]
        assert [each["state"] for each in listed] == ["cancelled", "done"]


async def test_a_redrive_that_died_goes_on_and_repeats_nothing(
    database: Database, client: StoreClient
) -> None:
    yard = await Yard.open(database, client, "orders", "graves", "fixed")
    await yard.subscribe()
    await yard.publish(*(Message(b"%d" % n) for n in range(250)))
    async with yard.forwarder() as reader:
        await reader.fail(250)
        await reader.dead(250)
        redrive = await reader.redrive({"to": "fixed"})
        async with yard.scheduler() as first:
            # It appends, and dies before it has written that down.
            progress = first._redrives.progress

            async def dies(*args: object, **kwargs: object) -> None:
                raise RuntimeError("it dies here")

            first._redrives.progress = dies  # type: ignore[method-assign, assignment]

            async def some() -> bool:
                return len(await yard.stored("fixed")) == 100

            await until(some)
            assert progress is not None
        assert (await reader.redrive_is(redrive))["redriven"] == 0
        async with yard.scheduler():
            ended = await reader.ended(redrive)
        assert (ended["state"], ended["redriven"]) == ("done", 250)
        stored = [message.data for message in await yard.stored("fixed")]
        assert sorted(stored, key=int) == [b"%d" % n for n in range(250)]


async def test_a_parked_key_is_listed_resumed_and_given_up(
    database: Database, client: StoreClient
) -> None:
    yard = await Yard.open(database, client)
    await yard.subscribe(ordered=True, on_exhausted="park")
    await yard.publish(*(Message(b"%d" % n, "text/plain", "k") for n in range(4)))
    async with yard.forwarder() as reader:

        async def parked() -> bool:
            answer = await reader.ask("GET", PARKED)
            return bool(answer.json()["parked_keys"])

        await reader.fail(1, reason="poison")
        await until(parked)
        (shown,) = (await reader.ask("GET", PARKED)).json()["parked_keys"]
        assert (shown["key"], shown["attempts"], shown["detail"]) == ("k", 1, "poison")
        assert await reader.pulled() == []
        answer = await reader.ask("POST", PARKED + ":resume", {"key": "k"})
        assert answer.json() == {"done": 1}
        await reader.fail(1)
        await until(parked)
        assert (await reader.ask("POST", PARKED + ":skip", {"key": "k"})).json() == {"done": 1}
        (message,) = await reader.pulled(wait_s=5)
        assert message["data"] == "1"
        await reader.post("nack", {"ack_ids": [message["ack_id"]]})
        await until(parked)
        body = {"key": "k", "dead_letter": True}
        assert (await reader.ask("POST", PARKED + ":skip", body)).json() == {"done": 1}
        (letter,) = await reader.dead(1)
        assert (letter["key"], letter["offset"]) == ("k", 1)
        (message,) = await reader.pulled(wait_s=5)
        assert message["data"] == "2"
        answer = await reader.ask("POST", PARKED + ":resume", {"key": "none"})
        assert answer.status == 404
