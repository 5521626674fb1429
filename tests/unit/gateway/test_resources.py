"""Create, get, list, put, change and delete, as every area has them from `gateway.resources`."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import pytest

from edge.asgi import CALLER, TENANT, Route
from edge.caller import Caller
from edge.problem import Problem
from gateway.resources import Call, Resource, Shown, taken
from harness.made_up_routes import made_up
from metadata.errors import Conflict, NotFound
from metadata.paging import name_after, page_of
from metadata.types import Page
from openapi import topics as contract

TENANT_ID = b"t" * 16
OPERATIONS = contract.OPERATIONS
OWNER = Caller([(each, "*", "*") for each in ("read", "manage", "administer")])


@dataclass(frozen=True)
class Thing:
    name: str
    version: int
    labels: Mapping[str, str]


class Things:
    """A repository in memory. `faster` are the names that another caller makes at the moment at
    which they are created here."""

    def __init__(self, *names: str) -> None:
        self.by_name = {name: Thing(name, 1, {}) for name in names}
        self.faster: list[str] = []

    async def get(self, tenant_id: bytes, name: str) -> Thing:
        assert tenant_id == TENANT_ID
        if name not in self.by_name:
            raise NotFound("topic", name)
        return self.by_name[name]

    async def page(
        self, tenant_id: bytes, *, page_size: int, page_token: str | None
    ) -> Page[Thing]:
        names = sorted(name for name in self.by_name if name > name_after(page_token))
        return page_of([self.by_name[name] for name in names[: page_size + 1]], page_size)

    async def create(self, call: Call, body: contract.TopicCreate | contract.TopicPut) -> Thing:
        if call.name in self.faster:
            self.faster.remove(call.name)
            self.by_name[call.name] = Thing(call.name, 1, {})
        if call.name in self.by_name:
            raise Conflict("topic", call.name, "exists already")
        made = self.by_name[call.name] = Thing(call.name, 1, body.labels)
        return made

    async def update(self, call: Call, body: contract.TopicPut) -> Thing:
        before = await self._expect(call)
        changed = replace(before, version=before.version + 1, labels=body.labels)
        self.by_name[call.name] = changed
        return changed

    async def delete(self, call: Call) -> None:
        await self._expect(call)
        del self.by_name[call.name]

    async def _expect(self, call: Call) -> Thing:
        found = await self.get(call.tenant_id, call.name)
        if call.if_version not in (None, found.version):
            raise Conflict("topic", call.name, f"is at version {found.version}")
        return found

    def routes(self) -> dict[str, Route]:
        things = Resource("topic", OPERATIONS["getTopic"], _shown)
        routes = [
            things.creates(
                OPERATIONS["createTopic"], contract.TopicCreate, self.create, taken("topic")
            ),
            things.gets(OPERATIONS["getTopic"], self.get),
            things.lists(OPERATIONS["listTopics"], self.page),
            things.puts(OPERATIONS["putTopic"], contract.TopicPut, self.update, self.create),
            things.deletes(OPERATIONS["deleteTopic"], self.delete),
        ]
        return {route.operation.id: route for route in routes}


def _shown(thing: Thing) -> Shown:
    return Shown({"name": thing.name, "labels": thing.labels}, thing.name, thing.version)


@dataclass
class Answered:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return msgspec.json.decode(self.body)


async def ask(
    route: Route,
    name: str = "",
    body: object = None,
    *,
    if_match: str = "",
    query: str = "",
    caller: Caller = OWNER,
) -> Answered:
    """Send a request to a route, and return the answer."""
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": msgspec.json.encode(body), "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        TENANT: TENANT_ID,
        CALLER: caller,
        "path_params": {"topic": name},
        "query_string": query.encode(),
        "headers": [(b"if-match", if_match.encode())] if if_match else [],
    }
    await route.handler(scope, receive, send)
    start, end = sent
    headers = {key.decode(): value.decode() for key, value in start["headers"]}
    return Answered(start["status"], headers, end["body"])


async def refusal(route: Route, name: str = "", body: object = None, **more: Any) -> Problem:
    with pytest.raises(Problem) as refused:
        await ask(route, name, body, **more)
    return refused.value


async def test_a_new_thing_has_a_place_and_a_version() -> None:
    routes = Things().routes()
    made = await ask(routes["createTopic"], body={"name": "orders"})
    assert made.status == 201
    assert (made.headers["location"], made.headers["etag"]) == ("/topics/orders", '"1"')
    put = await ask(routes["putTopic"], "bills", {})
    assert (put.status, put.headers["location"]) == (201, "/topics/bills")
    again = await ask(routes["putTopic"], "bills", {"labels": {"a": "b"}})
    assert (again.status, again.headers["etag"]) == (200, '"2"')
    assert "location" not in again.headers
    assert again.json == {"name": "bills", "labels": {"a": "b"}}
    assert (await ask(routes["getTopic"], "bills")).body == again.body


async def test_a_name_is_taken_once() -> None:
    problem = await refusal(Things("orders").routes()["createTopic"], body={"name": "orders"})
    assert (problem.status, problem.slug) == (409, "topic-exists")


async def test_two_puts_at_one_moment_are_both_answered() -> None:
    things = Things()
    things.faster = ["orders"]
    answered = await ask(things.routes()["putTopic"], "orders", {"labels": {"a": "b"}})
    assert (answered.status, answered.json["labels"]) == (200, {"a": "b"})


async def test_a_put_does_not_try_for_ever() -> None:
    """A name may be taken by something that no update finds."""
    things = Things()

    async def create(call: Call, body: contract.TopicPut) -> Thing:
        raise Conflict("topic", call.name, "is being made")

    resource = Resource("topic", OPERATIONS["getTopic"], _shown)
    put = resource.puts(OPERATIONS["putTopic"], contract.TopicPut, things.update, create)
    with pytest.raises(Conflict, match="being made"):
        await asyncio.wait_for(ask(put, "orders", {}), 10)


async def test_a_put_with_a_version_creates_nothing() -> None:
    things = Things()
    problem = await refusal(things.routes()["putTopic"], "orders", {}, if_match='"1"')
    assert problem.status == 412
    assert things.by_name == {}


async def test_another_version_than_the_named_one_stays() -> None:
    things = Things("orders")
    routes = things.routes()
    for id, body in (("putTopic", {}), ("deleteTopic", None)):
        problem = await refusal(routes[id], "orders", body, if_match='"7"')
        assert (problem.status, problem.slug) == (412, "precondition-failed")
        assert things.by_name["orders"].version == 1
    assert (await ask(routes["deleteTopic"], "orders", if_match='"1"')).status == 204
    assert things.by_name == {}


async def test_another_missing_thing_is_not_created() -> None:
    """A topic whose schema is missing is no missing topic."""
    things = Things("orders")

    async def update(call: Call, body: contract.TopicPut) -> Thing:
        raise NotFound("schema", "bill")

    resource = Resource("topic", OPERATIONS["getTopic"], _shown)
    put = resource.puts(OPERATIONS["putTopic"], contract.TopicPut, update, things.create)
    with pytest.raises(NotFound, match="bill"):
        await ask(put, "invoices", {})
    assert list(things.by_name) == ["orders"]


async def test_a_name_needs_permission_before_it_is_created() -> None:
    things = Things()
    caller = Caller([("manage", "topic", "own-*")])
    create = things.routes()["createTopic"]
    assert (await ask(create, body={"name": "own-a"}, caller=caller)).status == 201
    problem = await refusal(create, body={"name": "other"}, caller=caller)
    assert (problem.status, list(things.by_name)) == (403, ["own-a"])


async def test_a_listing_has_the_names_that_the_caller_may_read() -> None:
    things = Things("a", "own-1", "own-2", "own-3", "z")
    caller = Caller([("read", "topic", "own-*")])
    pages = things.routes()["listTopics"]
    first = await ask(pages, query="page_size=2", caller=caller)
    assert [each["name"] for each in first.json["topics"]] == ["own-1", "own-2"]
    query = f"page_size=2&page_token={first.json['next_page_token']}"
    last = await ask(pages, query=query, caller=caller)
    assert [each["name"] for each in last.json["topics"]] == ["own-3"]
    assert last.json["next_page_token"] is None


async def test_who_administers_sees_all_names() -> None:
    things = Things("a", "b")
    administered = made_up("GET", "/topics", _never, "administer", "*").operation
    pages = Resource("topic", OPERATIONS["getTopic"], _shown).lists(administered, things.page)
    listed = await ask(pages, caller=Caller([("administer", "*", "*")]))
    assert [each["name"] for each in listed.json["topics"]] == ["a", "b"]


async def _never(*_: Any) -> None:
    raise AssertionError("the handler of another route")


async def test_a_name_that_nothing_can_have_is_not_looked_for() -> None:
    routes = Things().routes()
    for id in ("getTopic", "deleteTopic"):
        problem = await refusal(routes[id], "a\0b")
        assert (problem.status, problem.slug) == (404, "topic-not-found")


async def test_no_cache_keeps_a_secret() -> None:
    resource = Resource("topic", OPERATIONS["getTopic"], _shown)

    async def rotate(call: Call) -> Shown:
        return Shown({"secret": "s"}, call.name, 2, secret=True)

    answered = await ask(resource.shows(OPERATIONS["getTopic"], rotate), "orders")
    assert (answered.headers["cache-control"], answered.headers["etag"]) == ("no-store", '"2"')
