"""The HTTP of partitions: what is listed, what is done at once, and what is refused and why."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any, cast

import msgspec

from edge.asgi import TENANT
from edge.problem import Problem
from gateway.topics.partitions import PartitionRoutes
from gateway.topics.placement import Mover
from harness.cluster import ChaosCluster
from metadata.database import Database
from metadata.errors import NotFound
from metadata.types import Placement
from store_nodes.client import StoreClient
from store_nodes.errors import Unavailable
from tests.integration.placement.placement_support import Load, Site

LIST, GROW, MOVE = (
    ("GET", "/topics/{topic}/partitions"),
    ("POST", "/topics/{topic}:grow"),
    ("POST", "/topics/{topic}/partitions/{partition}:move"),
)


async def call(
    site: Site,
    route: tuple[str, str],
    body: object = None,
    routes: PartitionRoutes | None = None,
    **params: str,
) -> tuple[int, Any]:
    """Return the status and the JSON of an answer; a Problem becomes the answer that the
    gateway gives.
    """
    found = (routes or site.partitions).routes()
    handler = next(r.handler for r in found if (r.method, r.path) == route)
    sent: list[MutableMapping[str, Any]] = []

    async def receive() -> MutableMapping[str, Any]:
        return {"type": "http.request", "body": msgspec.json.encode(body), "more_body": False}

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    scope = {TENANT: site.tenant_id, "path_params": {"topic": "orders"} | params, "headers": []}
    try:
        await handler(scope, receive, send)
    except Problem as problem:
        return problem.status, problem.as_dict()
    except NotFound as error:
        return 404, {"type": error.kind}
    return sent[0]["status"], msgspec.json.decode(sent[1]["body"])


async def test_move_grow_and_list(nodes: ChaosCluster, database: Database) -> None:
    async with Site.open(nodes, database, 1) as site:
        async with Load(site) as load:
            group = await site.other_group()
            status, moved = await call(site, MOVE, {"group": group}, partition="0")
            assert status == 200
            assert [(p["generation"], p["state"]) for p in moved["partitions"]] == [
                (0, "sealed"),
                (1, "open"),
            ]
            assert moved["partitions"][1]["group"] == group
            status, again = await call(site, MOVE, {"group": group}, partition="0")
            assert (status, len(again["partitions"])) == (200, 2), "it is there already"
            status, _ = await call(site, GROW, {"partitions": 3})
            assert status == 200
        status, listed = await call(site, LIST)
        assert (status, listed["placement"]) == (200, None)
        rows = listed["partitions"]
        assert [(r["partition"], r["generation"], r["state"]) for r in rows] == [
            (0, 0, "sealed"),
            (0, 1, "sealed"),
            (0, 2, "open"),
            (1, 0, "open"),
            (2, 0, "open"),
        ]
        assert [r["base"] for r in rows[:3]] == [0, rows[0]["end"], rows[1]["end"]]
        assert sum(r["end"] - r["base"] for r in rows) == len(load.published)
        assert rows[0]["stored_bytes"] > 0
        assert load.failures == {"keyed": [], "unkeyed": []}


async def test_what_is_refused(nodes: ChaosCluster, database: Database) -> None:
    async with Site.open(nodes, database, 2) as site:
        for route, body, params, wanted, field in (
            (GROW, {"partitions": 1}, {}, 422, "partitions"),
            (GROW, {"partitions": 0}, {}, 422, "partitions"),
            (GROW, {"partitions": 257}, {}, 422, "partitions"),
            (GROW, {}, {}, 422, "partitions"),
            (MOVE, {"group": 99}, {"partition": "0"}, 422, "group"),
            (MOVE, {"group": 1, "x": 1}, {"partition": "0"}, 422, "x"),
        ):
            status, problem = await call(site, route, body, **params)
            assert status == wanted
            assert [error["field"] for error in problem["errors"]] == [field]
        for partition in ("2", "-1", "x", "٣", "1" * 30):
            status, _ = await call(site, MOVE, {"group": 1}, partition=partition)
            assert status == 404, partition
        for route in (LIST, GROW):
            assert (await call(site, route, {"partitions": 3}, topic="other"))[0] == 404
        assert (await site.topic()).sealed == ()


async def test_while_one_is_open_another_waits_and_the_listing_says_so(
    nodes: ChaosCluster, database: Database
) -> None:
    async with Site.open(nodes, database, 2) as site:
        group = await site.other_group()
        assert isinstance(
            await site.placements.start_move(site.tenant_id, "orders", 0, group), Placement
        )
        status, problem = await call(site, GROW, {"partitions": 3})
        assert (status, problem["title"]) == (409, "Placement in progress")
        _, listed = await call(site, LIST)
        assert listed["placement"] == {"kind": "move", "partitions": [0], "groups": [group]}
        assert (await call(site, MOVE, {"group": group}, partition="0"))[0] == 200


class Silent:
    """A store that does not answer commands of placements, nor questions."""

    def __init__(self, store: StoreClient) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        if name in ("seal", "offsets"):
            return self._fail
        return getattr(self._store, name)

    async def _fail(self, *_: object, **__: object) -> None:
        raise Unavailable("no majority")


async def test_a_store_that_does_not_answer_is_202_and_numbers_unknown(
    nodes: ChaosCluster, database: Database
) -> None:
    async with Site.open(nodes, database, 1) as site:
        store = cast(StoreClient, Silent(site.store))
        mover = Mover(site.placements, store, site.choice)
        routes = PartitionRoutes(site.topics, site.placements, store, mover)
        status, listed = await call(site, GROW, {"partitions": 2}, routes)
        assert (status, listed["placement"]["kind"]) == (202, "grow")
        (row,) = listed["partitions"]
        assert (row["first"], row["end"], row["stored_bytes"]) == (None, None, None)
        assert len((await site.repaired()).partitions) == 2
