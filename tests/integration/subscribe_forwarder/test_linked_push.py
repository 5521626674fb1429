"""A subscription pushed by several forwarders at once: links, Postgres and the store are real."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import msgspec
import pytest
from msgspec import structs

from edge.egress.guard import Guard
from harness.hostile_endpoint import HostileEndpoint
from metadata.database import Database
from metadata.subscriptions.push_attempts import PushAttemptRepository
from metadata.subscriptions.push_config import PushConfig
from metadata.subscriptions.push_endpoints import PushEndpointRepository
from metadata.types import CursorState, RetryPolicy
from outbox import Outbox
from store_nodes.client import StoreClient
from subscribe_forwarder.push.attempts import AttemptLog
from subscribe_forwarder.push.endpoints import Endpoints
from subscribe_forwarder.push.engine import MAX_UNCOMMITTED, Engine, Means
from subscribe_forwarder.push.events import EndpointEvents
from subscribe_forwarder.push.late import LateAcks
from subscribe_forwarder.push.pushers import Pushers
from subscribe_forwarder.push.requests import NoTokens, Requests
from subscribe_forwarder.push.sender import OneRule, Sender
from tests.integration.subscribe_forwarder.linked_site import LinkedSite, Member
from tests.unit.subscribe_forwarder.fleet_support import eventually

PATIENCE_S = 30.0
BACKLOG = "/subscriptions/{name}/backlog"


@pytest.fixture
async def endpoint() -> AsyncIterator[HostileEndpoint]:
    async with HostileEndpoint() as made:
        yield made


class Pushing:
    """The parts with which one forwarder pushes."""

    def __init__(self, site: LinkedSite, member: Member, sender: Sender) -> None:
        forwarder = member.forwarder
        self.site = site
        self.member = member
        fronts = {route.path: route.handler for route in member._routes if route.method == "POST"}
        of = "/subscriptions/{name}/"
        self.late = LateAcks(fronts[of + "ack"], fronts[of + "release"])
        self.log = AttemptLog(PushAttemptRepository(site.database))
        requests = Requests(None, NoTokens())
        means = Means(forwarder, Endpoints(), requests, sender, self.log, self.late.pass_on)
        self.endpoints = PushEndpointRepository(site.database)
        events = EndpointEvents(self.endpoints, forwarder.catalog, Outbox(site.client))
        self.pushers = Pushers(forwarder, self.endpoints, means, requests, events)
        member.push_status = self.pushers.status
        member.feed.add_listener(self.pushers.on_changes)

    @property
    def status(self) -> Any:
        shown = self.pushers.status(self.site.subscription.uid)
        return {} if shown is None else structs.asdict(shown)

    @property
    def engine(self) -> Engine:
        engine = self.pushers._pushed[self.site.subscription.uid].engine
        assert engine is not None
        return engine

    async def close(self) -> None:
        """Close the parts in the order in which a server does."""
        await self.pushers.close()
        await self.log.close()
        await self.late.close(5.0)

    async def stop(self) -> None:
        """Stop as on SIGTERM."""
        self.pushers.drain()
        self.member.forwarder.drain()
        await self.close()
        await self.member.forwarder.close()

    async def die(self) -> None:
        """As SIGKILL has it: what is out is cut, and nothing is told to anybody."""
        engine = self.engine
        tasks = [*engine._tasks, engine._outcomes._task, self.pushers._task]
        engine._over = True
        for task in [one for one in tasks if one is not None]:
            task.cancel()
        await asyncio.gather(*(one for one in tasks if one is not None), return_exceptions=True)
        await self.member.die()


class Pushed:
    """A site whose subscription is pushed to one endpoint by all of its forwarders."""

    def __init__(self, site: LinkedSite, endpoint: HostileEndpoint) -> None:
        self.site = site
        self.endpoint = endpoint
        self.all: list[Pushing] = []
        self.published = [0, 0, 0]

    @property
    def places(self) -> Counter[tuple[int, int]]:
        """Return how often each message arrived, by partition and offset."""
        found: Counter[tuple[int, int]] = Counter()
        for request in self.endpoint.received:
            messages = msgspec.json.decode(request.body)["messages"]
            found.update((one["partition"], one["offset"]) for one in messages)
        return found

    async def publish(self, count: int, *partitions: int) -> None:
        for number in partitions or range(3):
            await self.site.publish(number, *(str(at) for at in range(count)))
            self.published[number] += count

    async def acked(self) -> None:
        """Wait until every published message is acked, and the acks are committed."""
        async with asyncio.timeout(2 * PATIENCE_S):
            while not self._settled(await self.site.rows()):
                await asyncio.sleep(0.05)

    def _settled(self, rows: list[CursorState]) -> bool:
        """A floor alone steps over what is leased."""
        return [row.floor for row in rows] == self.published and not any(
            row.exceptions for row in rows
        )

    async def shown_by(self, one: Pushing) -> Any:
        """Return `push` of the backlog."""
        answer = await one.member.call("GET", BACKLOG, name="reader")
        assert answer.status == 200, answer.body
        return answer.json()["push"]


@asynccontextmanager
async def pushed(
    database: Database,
    client: StoreClient,
    endpoint: HostileEndpoint,
    path: str = "/ok",
    owners: tuple[int, ...] = (0, 1, 0),
    **push: Any,
) -> AsyncIterator[Pushed]:
    config = {"url": endpoint.url(path), "verify": False, "timeout_s": 20.0} | push
    spec = {
        "type": "push",
        "push": PushConfig(**config),
        "retry": RetryPolicy(0.0, 0.1),
    }
    async with AsyncExitStack() as stack:
        site = await stack.enter_async_context(
            LinkedSite.open(database, client, owners=owners, **spec)
        )
        made = Pushed(site, endpoint)
        for member in site.members:
            sender = Sender(OneRule(Guard(["http://127.0.0.0/8:*"])))
            stack.push_async_callback(sender.close)
            one = Pushing(site, member, sender)
            one.log.start()
            one.pushers.start()
            stack.push_async_callback(one.close)
            made.all.append(one)
        await eventually(lambda: all(one.status for one in made.all), PATIENCE_S)
        yield made


async def test_everything_is_delivered_once_and_the_status_is_of_all(
    database: Database, client: StoreClient, endpoint: HostileEndpoint
) -> None:
    async with pushed(database, client, endpoint) as p:
        await p.publish(200)
        await p.acked()
        assert p.places == {(number, at): 1 for number in range(3) for at in range(200)}
        delivered = [one.status["delivered"] for one in p.all]
        assert sorted(delivered) == [200, 400], "each owner its own"
        limits = sum(one.status["limit"] for one in p.all)
        for one in p.all:
            shown = await p.shown_by(one)
            assert (shown["state"], shown["delivered"]) == ("enabled", 600)
            assert shown["limit"] == pytest.approx(limits)
            assert (shown["uncommitted"], shown["breaker"]) == (0, "closed")


async def test_what_is_said_at_one_holds_at_the_other(
    database: Database, client: StoreClient, endpoint: HostileEndpoint
) -> None:
    async with pushed(database, client, endpoint) as p:
        one, other = p.all
        subscription = p.site.subscription
        await one.endpoints.disable(subscription, "it is bad")
        await eventually(lambda: [a.status["state"] for a in p.all] == ["disabled"] * 2, PATIENCE_S)
        await p.publish(5)
        shown = await p.shown_by(other)
        assert (shown["state"], shown["reason"]) == ("disabled", "it is bad")
        assert not endpoint.received
        flow = {"messages_per_second": 0, "ttl_seconds": 600, "reason": "closed"}
        path = "/subscriptions/{name}/flow"
        assert (await one.member.call("POST", path, flow, name="reader")).status == 200
        await eventually(lambda: other.member.book.of(subscription.uid) is not None, PATIENCE_S)
        await other.endpoints.verified(subscription, endpoint.url("/ok"))
        await other.pushers.enable(subscription)
        await eventually(lambda: [a.status["state"] for a in p.all] == ["enabled"] * 2, PATIENCE_S)
        await eventually(lambda: all(a.engine.joined for a in p.all), PATIENCE_S)
        assert not endpoint.received, "a consumer takes nothing"
        assert (await other.member.call("DELETE", path, name="reader")).status == 204
        await p.acked()
        assert set(p.places.values()) == {1}


async def test_each_change_is_told_once_in_its_topic(
    database: Database, client: StoreClient, endpoint: HostileEndpoint
) -> None:
    """This holds also when another forwarder reports changes and begins with all those
    reported before.
    """
    async with pushed(database, client, endpoint, events_topic="outputs") as p:
        one, other = p.all
        subscription = p.site.subscription

        async def told(count: int) -> list[tuple[str, str, str | None]]:
            async with asyncio.timeout(PATIENCE_S):
                while len(texts := await p.site.stored("outputs")) < count:
                    await asyncio.sleep(0.05)
            found = [msgspec.json.decode(text) for text in texts]
            assert {event["subscription"] for event in found} == {"reader"}
            assert len({event["id"] for event in found}) == len(found) == count
            return [(event["type"], event["state"], event["reason"]) for event in found]

        await one.endpoints.disable(subscription, "it is bad")
        first = ("packetboat.endpoint.disabled", "disabled", "it is bad")
        assert await told(1) == [first]
        await p.site.spread(1, 0, 0)
        await other.endpoints.verified(subscription, endpoint.url("/ok"))
        await other.pushers.enable(subscription)
        assert await told(3) == [
            first,
            ("packetboat.endpoint.verified", "disabled", None),
            ("packetboat.endpoint.enabled", "enabled", None),
        ]


async def test_partitions_that_move_repeat_nothing(
    database: Database, client: StoreClient, endpoint: HostileEndpoint
) -> None:
    """Requests are out, acks on their way and messages leased ahead as they go."""
    async with pushed(database, client, endpoint, "/slow/0.05") as p:
        for owners in [(1, 1, 0), (0, 0, 1), (1, 0, 1), (0, 1, 0)]:
            await p.publish(100)
            await p.endpoint.arrivals(len(p.endpoint.received) + 30)
            await p.site.spread(*owners)
        await p.acked()
        assert p.places == {(number, at): 1 for number in range(3) for at in range(400)}


async def test_one_that_stops_in_order_repeats_nothing(
    database: Database, client: StoreClient, endpoint: HostileEndpoint
) -> None:
    async with pushed(database, client, endpoint, "/slow/0.05") as p:
        await p.publish(200)
        await p.endpoint.arrivals(100)
        await p.all[1].stop()
        await p.acked()
        assert p.places == {(number, at): 1 for number in range(3) for at in range(200)}


@pytest.mark.parametrize("requests", [6, 300])
async def test_a_death_repeats_what_was_out_or_not_committed_and_no_more(
    database: Database, client: StoreClient, endpoint: HostileEndpoint, requests: int
) -> None:
    """All that it may be: commits hang, and with the last of them requests that are out."""
    owners = (0, 1, 0)
    async with pushed(database, client, endpoint, max_concurrency=requests, owners=owners) as p:
        dying = p.all[1]
        await p.publish(200)
        await p.acked()
        await eventually(lambda: dying.engine.idle, PATIENCE_S)
        hanging = asyncio.Event()

        async def hang(*_: object) -> None:
            hanging.set()
            await asyncio.Event().wait()

        dying.engine._outcomes._commit = hang
        dying.member.forwarder.flusher._cursors.flush = hang  # type: ignore[method-assign]
        share = requests // 3
        waits = max(MAX_UNCOMMITTED, share)
        await p.publish(400, 1)
        await eventually(lambda: dying.status["uncommitted"] >= waits, PATIENCE_S)
        assert hanging.is_set()
        await eventually(lambda: not dying.engine.in_flight, PATIENCE_S)
        await dying.die()
        await p.acked()
        places = p.places
        assert set(places) == {(n, at) for n in range(3) for at in range(p.published[n])}
        again = sum(places.values()) - len(places)
        assert waits <= again < waits + share, "the bound, and it is reached"
        assert {number for (number, _), times in places.items() if times > 1} == {1}
