"""A forwarder that pushes to endpoints which are functions here."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, NamedTuple

import msgspec
from msgspec import structs

from metadata.subscriptions.push_attempts import AttemptOf
from metadata.subscriptions.push_config import PushConfig
from metadata.subscriptions.push_endpoints import PushEndpoint
from metadata.types import Change, ChangeKind, Subscription
from openapi.push import PushStatus
from outbox import Outbox
from subscribe_forwarder.push.attempts import AttemptLog
from subscribe_forwarder.push.endpoint import Endpoint
from subscribe_forwarder.push.endpoints import Endpoints
from subscribe_forwarder.push.engine import Engine, Means
from subscribe_forwarder.push.pushers import Pushers
from subscribe_forwarder.push.requests import NoTokens, PushRequest, Requests
from subscribe_forwarder.push.spans import PushSpans
from subscribe_forwarder.push.verdict import Answer
from tests.unit.subscribe_forwarder.fake_ownership import TENANT
from tests.unit.subscribe_forwarder.subscribe_support import (
    TOPIC_UID,
    FakeMetadata,
    FakeStore,
    World,
    subscription,
    topic,
    world,
)

URL = "https://hooks.example/in"
OK = Answer(200, {}, b"thanks", 0.001, "")


def answer(status: int | None, failure: str = "", **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Answer(status, named, b"", 0.001, failure)


class Arrived(NamedTuple):
    """A request as the endpoint has it."""

    url: str
    headers: dict[str, str]
    body: bytes

    @property
    def messages(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = msgspec.json.decode(self.body)["messages"]
        return found

    @property
    def data(self) -> list[str]:
        return [message["data"] for message in self.messages]


Behaviour = Callable[[Arrived], Answer | Awaitable[Answer]]


class FakeSender:
    """A sender that answers with `behave`.

    It keeps all arrived requests, and counts how many were there at once.
    """

    def __init__(self, behave: Behaviour = lambda _: OK) -> None:
        self.behave = behave
        self.arrived: list[Arrived] = []
        self.data: list[str] = []
        """The data of all messages that arrived, in that order."""
        self.at_once = self.most_at_once = 0
        self.news = asyncio.Event()

    async def send(self, request: PushRequest, timeout_s: float) -> Answer:
        one = Arrived(request.url, dict(request.headers), request.body)
        self.arrived.append(one)
        if b'"messages"' in one.body:
            self.data += one.data
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        self.news.set()
        try:
            await asyncio.sleep(0)
            async with asyncio.timeout(timeout_s):
                answered = self.behave(one)
                return await answered if inspect.isawaitable(answered) else answered
        except TimeoutError:
            return answer(None, "timeout")
        finally:
            self.at_once -= 1


class FakeEndpoints:
    """`metadata.subscriptions.push_endpoints`, in memory; changes are told at once."""

    def __init__(self) -> None:
        self.rows: dict[bytes, PushEndpoint] = {}

    async def load(self, subscriptions: Sequence[Subscription]) -> dict[bytes, PushEndpoint]:
        await asyncio.sleep(0)
        return {one.uid: self.rows[one.uid] for one in subscriptions if one.uid in self.rows}

    async def failing(self, failing_s: Sequence[tuple[Subscription, float]]) -> None:
        for one, for_s in failing_s:
            row = self._row(one)
            since = datetime.fromtimestamp(time.time() - for_s, UTC)
            self.rows[one.uid] = replace(row, failing_since=row.failing_since or since)

    async def well(self, subscriptions: Sequence[Subscription]) -> None:
        for one in subscriptions:
            self.rows[one.uid] = replace(self._row(one), failing_since=None)

    async def verified(self, one: Subscription, url: str) -> bool:
        row = self._row(one)
        state = "disabled" if row.state == "disabled" else "enabled"
        self.rows[one.uid] = replace(row, state=state, verified_url=url)
        return True

    async def not_verified(self, one: Subscription, reason: str) -> bool:
        self.rows[one.uid] = replace(self._row(one), state="unverified", reason=reason)
        return True

    async def disable(
        self, one: Subscription, reason: str, *, failing_for_s: float | None = None
    ) -> bool:
        row = self._row(one)
        if failing_for_s is not None and (
            row.failing_since is None or time.time() - row.failing_since.timestamp() < failing_for_s
        ):
            return False
        self.rows[one.uid] = replace(row, state="disabled", reason=reason)
        return row.state != "disabled"

    async def enable(self, one: Subscription) -> bool:
        self.rows[one.uid] = replace(
            self._row(one), state="enabled", reason=None, failing_since=None
        )
        return True

    def _row(self, one: Subscription) -> PushEndpoint:
        now = datetime.now(UTC)
        made = PushEndpoint(one.tenant_id, one.uid, "enabled", None, None, None, None, now)
        return self.rows.get(one.uid, made)


class FakeAttempts:
    """`metadata.subscriptions.push_attempts`, in memory."""

    def __init__(self) -> None:
        self.rows: list[AttemptOf] = []
        self.trimmed = 0

    async def append(self, attempts: Sequence[AttemptOf]) -> None:
        self.rows += attempts

    async def trim(self, subscriptions: Sequence[tuple[bytes, bytes]]) -> None:
        self.trimmed += 1

    async def prune(self) -> None:
        return


class Pushing:
    """A forwarder, what it pushes with, and what stands around it."""

    def __init__(
        self,
        w: World,
        sender: FakeSender,
        endpoints: FakeEndpoints,
        spans: PushSpans | None = None,
    ) -> None:
        self.w = w
        self.sender = sender
        self.endpoints = endpoints
        self.attempts = FakeAttempts()
        self.late: list[tuple[str, bytes]] = []
        self._engine: Engine | None = None
        self.inactive: frozenset[bytes] = frozenset()
        """Tenants; told of by `tenants_change`."""
        self.means = Means(
            w.forwarder,
            Endpoints(),
            Requests(None, NoTokens()),
            sender,
            AttemptLog(self.attempts),
            lambda _, how, ids: self.late.extend((how, one) for one in ids),
            spans=spans,
        )
        self.pushers = Pushers(
            w.forwarder,
            endpoints,
            self.means,
            Requests(None, NoTokens()),
            inactive=self._ask_inactive,
        )
        w.metadata.add_listener(self.pushers.on_changes)

    async def _ask_inactive(self) -> frozenset[bytes]:
        await asyncio.sleep(0)
        return self.inactive

    async def tenants_change(self, inactive: frozenset[bytes]) -> None:
        self.inactive = inactive
        await self.pushers.on_changes([Change(1, ChangeKind.TENANT, TENANT, TENANT, "tenant")])

    @property
    def engine(self) -> Engine:
        """The last there was."""
        (pushed,) = self.pushers._pushed.values()
        self._engine = pushed.engine or self._engine
        assert self._engine is not None
        return self._engine

    @property
    def endpoint(self) -> Endpoint:
        return self.engine.endpoint

    def state(self, name: str = "reader") -> Mapping[str, Any]:
        """Empty until it is known."""
        shown = self.pushers.status(self.w.metadata.subscriptions[name].uid)
        return {"state": None} if shown is None else structs.asdict(shown)

    def told(self) -> PushStatus:
        """Return the state that the engine tells of itself."""
        shown = PushStatus("enabled", None, None)
        self.engine.tell(shown)
        return shown

    async def until(self, true: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not true():
                await asyncio.sleep(0.002)

    async def arrived(self, count: int) -> list[str]:
        """Wait until `count` messages have arrived; return their data."""
        await self.until(lambda: len(self.sender.data) >= count)
        return self.sender.data

    async def settled(self) -> None:
        """All that was published is acked, durably."""
        rows = self.w.metadata.rows
        ends = {id_.partition: queue.end for id_, queue in self.w.store.queues.items()}

        def done() -> bool:
            return all(
                row.floor == ends[key.partition] and not row.stepped_over
                for key, row in rows.items()
            )

        await self.until(done)


def push_subscription(name: str = "reader", **push: Any) -> Subscription:
    """Return a subscription of type push, to an endpoint that need not be verified."""
    config = PushConfig(**({"url": URL, "verify": False, "timeout_s": 5.0} | push))
    return structs.replace(subscription(name), type="push", push=config)


@asynccontextmanager
async def pushing(
    behave: Behaviour = lambda _: OK,
    *,
    partitions: int = 1,
    subscriptions: Sequence[Subscription] = (),
    store: FakeStore | None = None,
    endpoints: FakeEndpoints | None = None,
    spans: PushSpans | None = None,
    outbox: Outbox | None = None,
    **push: Any,
) -> AsyncIterator[Pushing]:
    metadata = FakeMetadata(topic(partitions), *(subscriptions or [push_subscription(**push)]))
    async with world(store, metadata, partitions=partitions, outbox=outbox) as w:
        await w.ready()
        made = Pushing(w, FakeSender(behave), endpoints or FakeEndpoints(), spans)
        made.pushers.start()
        await made.until(lambda: bool(made.pushers._pushed))
        try:
            yield made
        finally:
            await made.pushers.close()


__all__ = ["TOPIC_UID", "Pushing", "pushing"]
