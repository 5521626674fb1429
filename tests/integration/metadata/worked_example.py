"""Uses the field of the worked example of CONTRIBUTING.md, in a copy of the tree that has it.

`python -m tests.integration.metadata.worked_example URL` needs an empty database. It stands apart
from the test, which runs it in the copy: modules of the tree itself have no such field.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
from packetboat import models
from packetboat.models import SubscriptionChanges

import openapi
from edge.asgi import CALLER, TENANT
from edge.caller import Caller
from edge.problem import Problem
from gateway.subscriptions.subscriptions import SubscriptionRoutes
from metadata.database import Database
from metadata.postgres.migrate import upgrade_async
from metadata.settings import DatabaseSettings
from openapi.__main__ import TERRAFORM
from positions.places import Bounds
from tests.integration.metadata.world import World

EVERYTHING = [(each, "*", "*") for each in ("manage", "read")]


class EmptyStore:
    """Store nodes without a message."""

    async def offsets(self, *_: object) -> Bounds:
        return Bounds(0, 0)


class Gateway:
    """The routes of subscriptions, as a caller with all permissions sees them."""

    def __init__(self, world: World) -> None:
        no: Any = None  # no request here needs the other parts
        store: Any = EmptyStore()
        routes = SubscriptionRoutes(world.catalog, world.subscriptions, no, store, no, no, no)
        self._routes = routes.routes()
        self._tenant_id = world.tenant_id

    async def call(self, request: str, body: object = None, **path: str) -> tuple[int, Any]:
        """Return the status and the body of an answer, or of a refusal."""
        (handler,) = (one.handler for one in self._routes if f"{one.method} {one.path}" == request)
        sent: list[MutableMapping[str, Any]] = []

        async def receive() -> MutableMapping[str, Any]:
            return {"type": "http.request", "body": msgspec.json.encode(body), "more_body": False}

        async def send(message: MutableMapping[str, Any]) -> None:
            sent.append(message)

        scope = {TENANT: self._tenant_id, CALLER: Caller(EVERYTHING), "path_params": path}
        try:
            await handler(scope | {"headers": []}, receive, send)
        except Problem as problem:
            return problem.status, problem.as_dict()
        return sent[0]["status"], sent[1]["body"]


async def used(url: str) -> None:
    """Create, read and change a subscription with notes, in the database that the copy migrates."""
    await upgrade_async(url)
    database = Database(DatabaseSettings(url))
    await database.connect()
    world = await World.open(database)
    try:
        await world.topic("orders")
        await _requests(Gateway(world), url)
    finally:
        await world.feed.close()
        await database.close()


async def _requests(gateway: Gateway, url: str) -> None:
    create, of_topic = "POST /topics/{topic}/subscriptions", {"topic": "orders"}
    new = {"name": "billing", "start": "earliest"}
    _, answer = await gateway.call(create, new | {"notes": "ask Ann"}, **of_topic)
    assert _model(answer).notes == "ask Ann", "it is answered, and a model of the SDK has it"
    assert await _stored(url) == ["ask Ann"]
    status, refused = await gateway.call(create, new | {"notes": "a" * 201}, **of_topic)
    assert (status, [each["field"] for each in refused["errors"]]) == (422, ["notes"])
    name = {"name": "billing"}
    status, refused = await gateway.call("PATCH /subscriptions/{name}", {"notes": "a\nb"}, **name)
    assert (status, [each["field"] for each in refused["errors"]]) == (422, ["notes"]), "the rule"
    _, answer = await gateway.call("PATCH /subscriptions/{name}", {"notes": "ask Bob"}, **name)
    assert _model(answer).notes == "ask Bob"
    _, answer = await gateway.call("PATCH /subscriptions/{name}", {"labels": {"a": "b"}}, **name)
    assert _model(answer).notes == "ask Bob", "a patch of another field leaves it"
    _, answer = await gateway.call("PUT /subscriptions/{name}", {}, **name)
    assert _model(answer).notes == "", "a put without it gives it the default"
    _, answer = await gateway.call("GET /subscriptions/{name}", **name)
    assert _model(answer).notes == ""
    assert await _stored(url) == [""]


def _model(answer: bytes) -> Any:
    return msgspec.json.decode(answer, type=models.Subscription)


async def _stored(url: str) -> list[str]:
    connection = await asyncpg.connect(url)
    try:
        return [row["notes"] for row in await connection.fetch("SELECT notes FROM subscriptions")]
    finally:
        await connection.close()


def described() -> None:
    """Look for the field in all that is generated."""
    schemas = openapi.document()["components"]["schemas"]
    field = schemas["SubscriptionPut"]["properties"]["notes"]
    assert (field["maxLength"], field["default"]) == (200, "")
    assert "notes" in schemas["Subscription"]["required"], "an answer always has it"
    terraform = json.loads(TERRAFORM.read_text(encoding="utf-8"))
    assert terraform["SubscriptionCreate"]["properties"]["notes"]["description"]
    assert "notes" in SubscriptionChanges.__annotations__, "callers of the SDK give it by keyword"


def main() -> None:
    assert Path(openapi.__file__).parents[1] == Path.cwd(), "the modules are those of the copy"
    described()
    asyncio.run(used(sys.argv[1]))


if __name__ == "__main__":
    main()
