"""A change that loses Postgres after a part of it is committed is not answered as "not done"."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from gateway.middleware.outcomes import with_outcome
from harness.made_up_routes import made_up
from metadata.errors import MetadataUnavailable, NotFound, OutcomeUnknown
from metadata.types import TopicSpec
from tests.integration.metadata.world import World

Part = Callable[[World], Awaitable[object]]


async def outcome(
    world: World, part: Part, method: str = "POST", path: str = "/topics"
) -> type[Exception]:
    """Return the error of a request whose handler does a part, and then finds Postgres away."""

    async def handler(*_: Any) -> None:
        await part(world)
        raise MetadataUnavailable("gone")

    async def nothing(*_: Any) -> Any: ...

    served = with_outcome(made_up(method, path, handler, "manage", "*"))
    with pytest.raises((MetadataUnavailable, OutcomeUnknown)) as raised:
        await served.handler({}, nothing, nothing)
    return raised.type


def create(world: World) -> Awaitable[object]:
    return world.topics.create(world.tenant_id, TopicSpec("new"), [0])


async def create_in_a_task(world: World) -> None:
    await asyncio.create_task(create(world))  # type: ignore[arg-type]


def look(world: World) -> Awaitable[object]:
    return world.topics.page(world.tenant_id)


async def fail(world: World) -> None:
    with pytest.raises(NotFound):
        await world.topics.mark_deleting(world.tenant_id, "absent")


@pytest.mark.parametrize("part", [create, create_in_a_task])
async def test_a_change_of_which_a_part_is_committed_is_unknown(world: World, part: Part) -> None:
    assert await outcome(world, part) is OutcomeUnknown


@pytest.mark.parametrize("part", [look, fail])
async def test_a_change_of_which_nothing_is_committed_is_not_done(world: World, part: Part) -> None:
    assert await outcome(world, part) is MetadataUnavailable


async def test_commits_of_other_requests_do_not_count(world: World) -> None:
    assert await outcome(world, create) is OutcomeUnknown
    assert await outcome(world, look) is MetadataUnavailable


async def test_messages_have_outcomes_of_their_own(world: World) -> None:
    assert await outcome(world, create, path="/subscriptions/{name}/ack") is MetadataUnavailable
