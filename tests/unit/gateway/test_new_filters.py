"""No handler reads a long new filter in one callback: it is read ahead, in pieces."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from types import SimpleNamespace
from typing import Any, cast
from unittest.mock import AsyncMock
from urllib.parse import quote

import msgspec
import pytest
from msgspec.structs import fields

from edge.asgi import CALLER, SUBJECT, TENANT, Handler, Route
from edge.caller import Caller
from edge.expressions import ahead, expression
from edge.expressions.ahead import SHORT_CHARS
from edge.problem import Problem
from edge.shares import FairSemaphore, Shares
from edge.write_permit import PERMIT
from gateway.exports.exports import ExportRoutes
from gateway.subscriptions.skip_rules import SkipRuleRoutes
from gateway.subscriptions.subscriptions import SubscriptionRoutes
from metadata.errors import NotFound
from metadata.types import Subscription
from openapi.areas import OPERATIONS
from openapi.common import MAX_FILTER_CHARS
from subscribe_forwarder.api.dead_letters import DeadLetters
from subscribe_forwarder.api.preview import PreviewRoutes
from subscribe_forwarder.api.redrives import Redrives
from subscribe_forwarder.api.replay import ReplayRoutes
from tests.unit.gateway.test_export_specs import export_of, spec_of
from tests.unit.gateway.test_subscription_bodies import created, stored

ACME = b"t" * 16
OWNER = Caller((permission, "*", "*") for permission in ("read", "publish", "manage"))
REST = " || ".join(f"key != 'long {number}'" for number in range(20))
FILTER = f"attributes.kind == 'x' && ({REST})"
"""A filter whose index answers one part: the rest is an expression of its own."""
BODIES: Mapping[str, Mapping[str, Any]] = {
    "addSkipRule": {"expression": FILTER, "reason": "bad"},
    "createSubscription": {"name": "new", "dead_letter_topic": "gone", "filter": FILTER},
    "putSubscription": {"topic": "orders", "dead_letter_topic": "gone", "filter": FILTER},
    "patchSubscription": {"dead_letter_topic": "gone", "filter": FILTER},
    "createExport": {"name": "new", "topic": "orders", "filter": FILTER},
    "putExport": {"name": "daily", "topic": "orders", "filter": FILTER},
}
"""Bodies of requests that say more than a filter; that topic is not there."""
IN_QUERY = ("listDeadLetters", "listRedrives", "replay")


class World:
    """A topic, a subscription and an export; each request is refused once its filter was
    checked."""

    def __init__(self, *, there: bool = True) -> None:
        self._there = there

    async def topic(self, _: bytes, name: str, **__: object) -> Any:
        if name != "orders":
            raise NotFound("topic", name)
        return SimpleNamespace(
            name="orders", tenant_id=ACME, uid=b"o" * 16, partitions=(), partition_count=0
        )

    async def subscription(self, _: bytes, name: str) -> Any:
        raise NotFound("subscription", name)

    async def get(self, _: bytes, name: str) -> Subscription | Any:
        if not self._there:
            raise NotFound("subscription", name)
        return stored(created())

    async def add(self, *_: object, **__: object) -> Any:
        raise NotFound("subscription", "orders")

    async def topics(self, *_: object) -> Any:
        return ()


class Readable(World):
    """A topic without messages."""

    async def subscription(self, *_: object) -> Any:
        return stored(created())

    async def topic_by_uid(self, *_: object) -> Any:
        return await self.topic(ACME, "orders")


class Exports(World):
    async def get(self, *_: object) -> Any:
        return export_of(spec_of())

    async def update(self, _: bytes, __: str, change: Callable[[Any], Any], **more: Any) -> Any:
        change(export_of(spec_of()))
        raise NotFound("topic", "orders")


def routes(*, there: bool = True) -> Iterator[Route]:
    world, exports, other = cast(Any, World(there=there)), cast(Any, Exports()), AsyncMock()
    reading = cast(
        Any, SimpleNamespace(catalog=Readable(), history=other, load=other, evaluator=None)
    )
    yield from ReplayRoutes(reading).routes()
    yield from PreviewRoutes(reading).routes()
    yield from DeadLetters(world, other, other).routes()
    yield from Redrives(world, other, other).routes()
    yield from SkipRuleRoutes(world, world, other).routes()
    yield from SubscriptionRoutes(world, world, other, other, other, other, other).routes()
    yield from ExportRoutes(exports, other, frozenset({"default"}), other).routes()


def handler(name: str, *, there: bool = True) -> Handler:
    (found,) = (each.handler for each in routes(there=there) if each.operation.id == name)
    return found


def with_filters() -> list[str]:
    """Return the ids of all operations whose requests may bring a filter."""
    found = []
    for name, operation in OPERATIONS.items():
        kinds = [parameter.kind for parameter in operation.parameters]
        if operation.body is not None and issubclass(operation.body, msgspec.Struct):
            kinds += [field.type for field in fields(operation.body)]
        if f"max_length={MAX_FILTER_CHARS})" in repr(kinds):
            found.append(name)
    return found


async def ask(name: str, asked: Handler, *, turn: Any = None) -> None:
    """Send a request with the filter; it is refused when its filter has been checked."""
    body = BODIES.get(name, {"filter": FILTER})
    left = [b"" if name in IN_QUERY else msgspec.json.encode(body)]

    async def receive() -> dict[str, Any]:
        if not left:  # The client stays; it sends nothing more.
            await asyncio.Event().wait()
        return {"type": "http.request", "body": left.pop(), "more_body": False}

    async def send(_: object) -> None: ...

    scope = {
        TENANT: ACME,
        CALLER: OWNER,
        SUBJECT: "client:c",
        PERMIT: turn,
        "path_params": {"topic": "orders", "partition": "0", "name": "daily"},
        "query_string": f"filter={quote(FILTER)}".encode() if name in IN_QUERY else b"",
        "headers": [],
    }
    with suppress(NotFound, Problem):
        await asked(scope, receive, send)


@pytest.fixture(autouse=True)
def _nothing_is_read() -> Iterator[None]:
    expression._readings.clear()
    yield
    expression._readings.clear()


def test_all_operations_with_a_filter_are_known() -> None:
    assert len(with_filters()) == 13
    assert {*BODIES} < {*with_filters()}


@pytest.mark.parametrize("name", [*with_filters(), "putSubscription, a new one"])
async def test_a_long_new_filter_is_read_in_pieces(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once, in_pieces = list[str](), list[str]()
    read, pieces = expression._read, expression.read_in_pieces

    def reading(text: str, variables: tuple[str, ...]) -> Any:
        if len(text) > SHORT_CHARS and not expression.is_read(text, variables):
            at_once.append(text)
        return read(text, variables)

    def counted(text: str, variables: tuple[str, ...]) -> Iterator[None]:
        in_pieces.append(text)
        return pieces(text, variables)

    monkeypatch.setattr(expression, "_read", reading)
    monkeypatch.setattr(ahead, "read_in_pieces", counted)
    name, _, new = name.partition(", ")
    await ask(name, handler(name, there=not new))
    assert not at_once
    assert in_pieces[:1] == [FILTER]
    of_letters = "etters" in name
    assert len(in_pieces) == 2 - of_letters, "the part that a rule evaluates, too"


async def test_a_listing_of_redrives_reads_no_filter() -> None:
    """The contract has none there, so the dispatcher refuses one; the handler compiled it too."""
    await ask("listRedrives", handler("listRedrives"))
    assert not expression._readings


@pytest.mark.parametrize("name", [name for name in with_filters() if name in BODIES])
async def test_a_change_gives_its_turn_to_others_while_its_filter_is_read(name: str) -> None:
    """Filters wait for other filters of their tenant; two changes of each of four tenants that
    waited so held all turns of changes."""
    turns = FairSemaphore(Shares(2), Shares(10))
    async with turns.permit(ACME) as turn, ahead._permits.permit(b"o" * 16):
        asked = asyncio.create_task(ask(name, handler(name), turn=turn))
        for _ in range(20):
            await asyncio.sleep(0)
        assert turns.at_once.held == 0
        asked.cancel()
