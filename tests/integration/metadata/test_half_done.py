"""A change that loses Postgres after a part of it is committed is not answered as "not done"."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from gateway.middleware.outcomes import with_outcome
from metadata.errors import MetadataUnavailable, NotFound, OutcomeUnknown
from metadata.types import TopicSpec
from tests.integration.metadata.world import World
from tests.made_up_routes import made_up

Part = Callable[[World], Awaitable[object]]


async def ask(world: World, part: Part, method: str = "POST", path: str = "/topics") -> None:
    """Serve a request whose handler does one part, and then finds that Postgres is away."""

    async def handler(*_: Any) -> None:
        await part(world)
        raise MetadataUnavailable("gone")

    async def nothing(*_: Any) -> Any: ...

    await with_outcome(made_up(method, path, handler, "manage", "*")).handler({}, nothing, nothing)


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
    with pytest.raises(OutcomeUnknown):
        await ask(world, part)


@pytest.mark.parametrize("part", [look, fail])
async def test_a_change_of_which_nothing_is_committed_is_not_done(world: World, part: Part) -> None:
    with pytest.raises(MetadataUnavailable):
        await ask(world, part)


async def test_commits_of_other_requests_do_not_count(world: World) -> None:
    with pytest.raises(OutcomeUnknown):
        await ask(world, create)
    with pytest.raises(MetadataUnavailable):
        await ask(world, look)


async def test_messages_have_outcomes_of_their_own(world: World) -> None:
    with pytest.raises(MetadataUnavailable):
        await ask(world, create, path="/subscriptions/{name}/ack")
