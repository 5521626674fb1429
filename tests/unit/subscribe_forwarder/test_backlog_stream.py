"""The public stream of backlogs: what they are, and each again when it has changed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from edge.asgi import Handler
from metadata.errors import NotFound
from metadata.subscriptions.names import NamedSubscription
from metadata.types import ChangeKind
from subscribe_forwarder.api import backlog_stream as stream_module
from subscribe_forwarder.api.backlog_selection import MAX_FOLLOWED, Selector
from subscribe_forwarder.api.backlogs import BacklogRoutes
from subscribe_forwarder.fleet.backlogs import backlogs as service
from subscribe_forwarder.fleet.backlogs import interest, tracker
from subscribe_forwarder.fleet.backlogs.backlogs import Backlogs
from subscribe_forwarder.fleet.backlogs.local import Holdings
from tests.unit.subscribe_forwarder.stream_support import REFUSAL, OpenStream
from tests.unit.subscribe_forwarder.subscribe_support import (
    TOPIC_UID,
    FakeMetadata,
    World,
    subscription,
    topic,
    world,
)

OTHER_UID = b"other-subscript."
ONE, SEVERAL = "/subscriptions/{name}/backlog:stream", "/backlog:stream"


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds pass quickly."""
    monkeypatch.setattr(tracker, "INTERVAL_S", 0.02)
    monkeypatch.setattr(interest, "LINGER_S", 0.02)
    monkeypatch.setattr(service, "HOUSEKEEPING_S", 0.02)
    for name in ("INTERVAL_S", "LOOK_EVERY_S"):
        monkeypatch.setattr(stream_module, name, 0.02)


class Names:
    """The names of the subscriptions in the fake metadata."""

    def __init__(self, metadata: FakeMetadata) -> None:
        self._metadata = metadata
        self.others = 0
        """The number of further subscriptions that match."""

    async def beginning_with(
        self, tenant_id: bytes, prefixes: Sequence[str], limit: int
    ) -> list[NamedSubscription]:
        found = [
            NamedSubscription(one.name, one.uid, one.topic_uid, one.state)
            for one in self._metadata.subscriptions.values()
            if one.tenant_id == tenant_id and one.name.startswith(tuple(prefixes))
        ]
        more = [
            NamedSubscription(f"x{n}", n.to_bytes(16, "big"), TOPIC_UID, "active")
            for n in range(self.others)
        ]
        return (found + more)[:limit]


class Served:
    """A forwarder whose backlogs are streamed."""

    def __init__(self, w: World, max_streams: int) -> None:
        self.w = w
        forwarder = w.forwarder
        holdings = Holdings(forwarder.owners.get, forwarder.open_hub, forwarder.cursors)
        self.backlogs = Backlogs(holdings, forwarder.listeners)
        self.names = Names(w.metadata)
        selector = Selector(w.metadata, self.names)
        self.routes = BacklogRoutes(self.backlogs, selector, w.metadata, max_streams)

    def handler(self, path: str) -> Handler:
        return next(route.handler for route in self.routes.routes() if route.path == path)

    @asynccontextmanager
    async def stream(
        self,
        query: str = "",
        path: str = SEVERAL,
        headers: Mapping[bytes, bytes] | None = None,
        tenant_id: bytes | None = None,
    ) -> AsyncIterator[Lines]:
        opened = Lines(self.w, query, headers or {}, self.handler(path))
        if tenant_id is not None:
            opened.scope["packetboat.tenant"] = tenant_id
        try:
            yield opened
        finally:
            opened.readable.set()
            opened.client_gone.set()
            await asyncio.gather(opened.task, return_exceptions=True)


class Lines(OpenStream):
    def of(self, name: str) -> list[dict[str, Any]]:
        """Return the lines about that subscription."""
        told = [one["backlog"] for one in self.objects if "backlog" in one]
        return [one for one in told if one["subscription"] == name]

    def last(self, name: str = "reader") -> dict[str, Any]:
        told = self.of(name)
        return told[-1] if told else {}

    async def sees(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(10):
            while not condition():
                assert not self.task.done(), self.problem or self.writes
                await asyncio.sleep(0.002)


@asynccontextmanager
async def served(max_streams: int = 10, partitions: int = 2) -> AsyncIterator[Served]:
    shape = topic(partitions)
    other = replace(subscription(), uid=OTHER_UID, name="other")
    async with world(metadata=FakeMetadata(shape, subscription(), other)) as w:
        await w.ready()
        made = Served(w, max_streams)
        made.backlogs.start()
        try:
            yield made
        finally:
            await made.backlogs.close()


async def test_first_a_line_of_each_then_what_changes() -> None:
    async with served() as s:
        s.w.store.publish(b"a", b"b")
        async with s.stream() as lines:
            await lines.sees(lambda: bool(lines.of("reader") and lines.of("other")))
            assert "heartbeat" in lines.objects[0]
            assert lines.objects[0]["heartbeat"]["subscriptions"] == 2
            first = lines.of("reader")[0]
            assert (first["messages"], first["complete"]) == (2, True)
            assert first["partitions"] == [
                {"partition": 0, "messages": 2, "leased": 0},
                {"partition": 1, "messages": 0, "leased": 0},
            ]
            s.w.store.publish(b"c", partition=1)
            await lines.sees(
                lambda: lines.last()["messages"] == lines.last("other")["messages"] == 3
            )


async def test_what_is_handed_out_and_acked_is_told() -> None:
    async with served() as s:
        s.w.store.publish(b"a", b"b")
        async with s.stream("subscription=reader") as lines:
            messages = await s.w.pulled()
            await lines.sees(lambda: lines.last().get("leased") == 2)
            await s.w.ack(messages[0])
            await lines.sees(lambda: (lines.last()["messages"], lines.last()["leased"]) == (1, 1))
            assert lines.of("other") == []


async def test_a_release_is_told_though_nothing_is_written() -> None:
    async with served() as s:
        s.w.store.publish(b"a")
        async with s.stream("subscription=reader") as lines:
            (message,) = await s.w.pulled()
            await lines.sees(lambda: lines.last().get("leased") == 1)
            await s.w.post("release", {"ack_id": message["ack_id"]})
            await lines.sees(lambda: lines.last()["leased"] == 0)


async def test_who_waits_is_told() -> None:
    async with served() as s, s.stream("subscription=reader") as lines:
        pull = asyncio.create_task(s.w.pull(wait_s=5))
        await lines.sees(lambda: lines.last().get("waiting_pulls") == 1)
        s.w.store.publish(b"a")
        await pull
        await lines.sees(lambda: lines.last()["waiting_pulls"] == 0)


async def test_watching_opens_nothing() -> None:
    async with served() as s, s.stream() as lines:
        await lines.sees(lambda: bool(lines.of("reader")))
        assert s.w.forwarder.open_hub(subscription().uid) is None


async def test_a_line_says_something_new() -> None:
    async with served() as s, s.stream("subscription=reader") as lines:
        await lines.sees(lambda: bool(lines.of("reader")))
        for _ in range(3):
            s.w.forwarder.listeners.worked(subscription().uid)
            await asyncio.sleep(0.05)
        assert len(lines.of("reader")) == 1


async def test_a_caller_that_may_not_go_on_gets_the_reason() -> None:
    async with served() as s, s.stream("subscription=reader") as lines:
        await lines.sees(lambda: bool(lines.of("reader")))
        lines.refusal.set_result(REFUSAL)
        end = await lines.ended()
        assert (end["reason"], end["problem"]["status"]) == ("problem", 401)


async def test_only_from_so_many_messages_on_and_once_when_they_are_gone() -> None:
    async with served() as s, s.stream("subscription=reader&min_messages=2") as lines:
        s.w.store.publish(b"a")
        await asyncio.sleep(0.1)
        assert lines.of("reader") == []
        s.w.store.publish(b"b", b"c")
        await lines.sees(lambda: lines.last().get("messages") == 3)
        await s.w.ack(*await s.w.pulled())
        await lines.sees(lambda: lines.last()["messages"] == 0)
        told = len(lines.of("reader"))
        s.w.store.publish(b"d")
        await asyncio.sleep(0.1)
        assert len(lines.of("reader")) == told


async def test_names_that_begin_so_also_of_those_made_later() -> None:
    async with served() as s, s.stream("subscription=oth*&subscription=reader") as lines:
        await lines.sees(lambda: bool(lines.of("reader") and lines.of("other")))
        later = replace(subscription(), uid=b"made-later......", name="others")
        s.w.metadata.add_rows(later, s.w.metadata.topics[TOPIC_UID])
        await s.w.metadata.changed(ChangeKind.SUBSCRIPTION, later.uid, later.name)
        await lines.sees(lambda: lines.last("others").get("complete") is True)


async def test_all_cursors_made_since_the_claim_are_found_at_once() -> None:
    async with served(partitions=3) as s:
        later = replace(subscription(), uid=b"made-later......", name="later")
        s.w.metadata.add_rows(later, s.w.metadata.topics[TOPIC_UID])
        async with s.stream("subscription=later") as lines:
            await lines.sees(lambda: bool(lines.of("later")))
            assert lines.of("later")[0]["complete"]
            assert len(lines.of("later")[0]["partitions"]) == 3


async def test_one_that_is_deleted_is_told_and_the_others_go_on() -> None:
    async with served() as s, s.stream() as lines:
        await lines.sees(lambda: bool(lines.of("other")))
        del s.w.metadata.subscriptions["other"]
        await s.w.metadata.changed(ChangeKind.SUBSCRIPTION, OTHER_UID, "other")
        await lines.sees(lambda: "removed" in lines.objects[-1])
        assert lines.objects[-1]["removed"]["subscription"] == "other"
        s.w.store.publish(b"a")
        await lines.sees(lambda: lines.last()["messages"] == 1)


async def test_the_stream_of_one_ends_with_it() -> None:
    async with served() as s, s.stream(path=ONE) as lines:
        await lines.sees(lambda: bool(lines.of("reader")))
        uid = s.w.metadata.subscriptions.pop("reader").uid
        await s.w.metadata.changed(ChangeKind.SUBSCRIPTION, uid, "reader")
        end = await lines.ended()
        assert (end["reason"], end["problem"]["status"]) == ("problem", 404)


async def test_a_pause_is_told() -> None:
    async with served() as s, s.stream(path=ONE) as lines:
        await lines.sees(lambda: bool(lines.of("reader")))
        one = s.w.metadata.subscriptions["reader"]
        s.w.metadata.subscriptions["reader"] = replace(one, state="paused")
        await s.w.metadata.changed(ChangeKind.SUBSCRIPTION, one.uid, "reader")
        await lines.sees(lambda: lines.last()["paused"] == "paused")


async def test_who_reads_slowly_gets_the_latest_only() -> None:
    async with served() as s, s.stream("subscription=reader") as lines:
        await lines.sees(lambda: bool(lines.of("reader")))
        lines.readable.clear()
        for _ in range(20):
            s.w.store.publish(b"a")
            await asyncio.sleep(0.01)
        lines.readable.set()
        await lines.sees(lambda: lines.last()["messages"] == 20)
        assert len(lines.of("reader")) <= 4


async def test_server_sent_events() -> None:
    async with served() as s, s.stream(headers={b"accept": b"text/event-stream"}) as lines:
        async with asyncio.timeout(10):
            while b"event: backlog\ndata: {" not in b"".join(lines.writes):
                await asyncio.sleep(0.002)
        assert lines.headers[b"content-type"] == b"text/event-stream"


async def test_it_ends_after_its_time_and_when_the_server_stops() -> None:
    async with served() as s:
        async with s.stream("max_seconds=0.05") as lines:
            assert (await lines.ended())["reason"] == "max_seconds"
        async with s.stream() as lines:
            await lines.sees(lambda: bool(lines.of("reader")))
            s.routes.drain()
            assert (await lines.ended())["reason"] == "draining"
        async with s.stream() as lines:
            await lines.task
            assert lines.problem is not None
            assert lines.problem.status == 503


async def test_no_more_streams_than_allowed() -> None:
    async with served(max_streams=1) as s:
        async with s.stream() as lines:
            await lines.sees(lambda: bool(lines.of("reader")))
            async with s.stream() as refused:
                done, _ = await asyncio.wait([refused.task], timeout=5.0)
                assert done, "it is refused at once"
                assert refused.problem is not None
                assert refused.problem.slug == "too-many-backlog-streams"
        async with s.stream() as lines:
            await lines.sees(lambda: bool(lines.of("reader")))


async def test_a_tenant_that_holds_streams_leaves_some_to_others() -> None:
    async with served(max_streams=4) as s, AsyncExitStack() as held:
        for _ in range(4):
            await held.enter_async_context(s.stream())
        await asyncio.sleep(0)
        async with s.stream(tenant_id=b"another tenant!!") as lines:
            await lines.sees(lambda: bool(lines.objects))
            assert lines.problem is None


async def test_what_is_closed_is_wanted_no_more() -> None:
    async with served() as s:
        async with s.stream() as lines:
            await lines.sees(lambda: bool(lines.of("reader")))
        async with asyncio.timeout(10):
            while s.backlogs.wanted:
                await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    "query",
    [
        "subscription=a**",
        "subscription=",
        "subscription=a%20b",
        "min_messages=-1",
        "min_messages=1.5",
        "heartbeat_seconds=0",
        "max_seconds=nan",
        "&".join(f"subscription=s{n}" for n in range(101)),
    ],
)
async def test_what_does_not_fit_is_refused(query: str) -> None:
    async with served() as s, s.stream(query) as lines:
        await asyncio.wait([lines.task])
        assert lines.problem is not None
        assert lines.problem.status == 400


async def test_a_name_that_there_is_not_is_refused() -> None:
    async with served() as s, s.stream("subscription=nobody") as lines:
        with pytest.raises(NotFound):
            await lines.task


async def test_another_tenants_subscriptions_are_not_there() -> None:
    async with served() as s:
        s.w.tenant_id = b"another-tenant.."
        async with s.stream() as lines:
            await lines.sees(lambda: bool(lines.objects))
            assert lines.objects[0]["heartbeat"]["subscriptions"] == 0


async def test_too_many_are_refused() -> None:
    async with served() as s:
        s.names.others = MAX_FOLLOWED
        async with s.stream() as lines:
            await asyncio.wait([lines.task])
            assert lines.problem is not None
            assert lines.problem.status == 400
