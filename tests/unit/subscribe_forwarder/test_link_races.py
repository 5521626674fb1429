"""Several owners are asked at once, and exactly one may answer with messages."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import pytest

from edge.asgi import ClientGone, Receive, Scope, Send, read_body, respond
from subscribe_forwarder.peers import RACE, PeerGone
from tests.unit.subscribe_forwarder.link_pair import Client, End, open_links, until

PULL = "GET /pull"


class Owner:
    """Leases one message per request, after a while; keeps books."""

    def __init__(self, end: End, rng: random.Random) -> None:
        self.leased = 0
        self.committed: list[str] = []
        self.unsent: list[str] = []
        self.released: list[str] = []
        self._rng = rng
        end.links.serve(PULL, self.serve)

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        await read_body(scope, receive, 1000)
        name = scope["path_params"]["name"]
        await _while(self._rng)
        self.leased += 1
        try:
            if not await scope[RACE]():
                self.released.append(name)
                return
        except ClientGone:
            self.released.append(name)
            raise
        self.committed.append(name)
        await _while(self._rng)
        try:
            await respond(send, 200, name.encode())
        except ClientGone:
            self.unsent.append(name)
            raise


async def _while(rng: random.Random) -> None:
    kind = rng.random()
    if kind < 0.3:
        return
    await asyncio.sleep(0 if kind < 0.6 else rng.random() * 0.01)


async def pull(front: End, owners: list[End], name: str, leave_s: float | None) -> Client:
    """Asks them all; the first that offers wins. The client leaves after a while, or does not."""
    client = Client(scope={"path_params": {"name": name}})
    spent = False

    async def race() -> bool:
        nonlocal spent
        won, spent = not spent, True
        return won

    async def receive() -> dict[str, Any]:
        if asked.pop():
            return {"type": "http.request", "body": b"", "more_body": False}
        await client.gone.wait()
        return {"type": "http.disconnect"}

    asked = [False] * len(owners) + [True] * len(owners)
    requests = [
        front.link(owner).request(PULL, client.scope, receive, client.send, race=race)
        for owner in owners
    ]
    if leave_s is not None:
        asyncio.get_running_loop().call_later(leave_s, client.gone.set)
    for ended in await asyncio.gather(*requests, return_exceptions=True):
        assert ended is None or isinstance(ended, ClientGone | PeerGone), ended
    return client


@pytest.mark.parametrize("seed", range(8))
async def test_exactly_one_wins_whatever_the_timing(seed: int) -> None:
    rng = random.Random(seed)
    async with open_links(4) as (front, *ends):
        owners = [Owner(end, rng) for end in ends]
        names = [str(number) for number in range(60)]
        leaving = [rng.random() * 0.01 if rng.random() < 0.3 else None for _ in names]
        clients = await asyncio.gather(
            *(pull(front, ends, name, s) for name, s in zip(names, leaving, strict=True))
        )
        await until(lambda: not any(end.link(front).serving for end in ends))
    committed = sorted(name for owner in owners for name in owner.committed)
    assert len(set(committed)) == len(committed), "two won one race"
    unsent = {name for owner in owners for name in owner.unsent}
    for name, client, leave_s in zip(names, clients, leaving, strict=True):
        if leave_s is None:
            assert name in committed
        if client.whole:
            assert client.body == name.encode()
            assert name in set(committed) - unsent
        else:
            assert client.messages == []
            assert name in unsent or name not in committed
    for owner in owners:
        assert owner.leased == len(owner.committed) + len(owner.released)


async def test_a_lost_race_returns_and_has_sent_nothing() -> None:
    async with open_links() as (front, end):
        owner = Owner(end, random.Random(0))

        async def lose() -> bool:
            return False

        client = Client(scope={"path_params": {"name": "x"}})
        await front.link(end).request(PULL, client.scope, client.receive, client.send, race=lose)
        assert client.messages == []
        assert owner.released == ["x"]


async def test_an_empty_answer_needs_no_race() -> None:
    async def empty(scope: Scope, receive: Receive, send: Send) -> None:
        assert callable(scope[RACE])
        await respond(send, 200, b"[]")

    async def never() -> bool:
        raise AssertionError

    async with open_links() as (front, end):
        end.links.serve(PULL, empty)
        client = Client()
        await front.link(end).request(PULL, client.scope, client.receive, client.send, race=never)
        assert client.body == b"[]"


async def test_a_link_that_ends_while_the_race_is_undecided_releases() -> None:
    async with open_links() as (front, end):
        owner = Owner(end, random.Random(0))
        offered = asyncio.Event()

        async def race() -> bool:
            offered.set()
            await asyncio.Event().wait()
            return True

        client = Client(scope={"path_params": {"name": "x"}})
        asking = asyncio.create_task(
            front.link(end).request(PULL, client.scope, client.receive, client.send, race=race)
        )
        await asyncio.wait_for(offered.wait(), 5)
        front.link(end).connection.abort("cut")
        await until(lambda: owner.released == ["x"])
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)


async def test_what_the_race_raises_ends_the_request_on_both_sides() -> None:
    async def broken() -> bool:
        raise LookupError

    async with open_links() as (front, end):
        owner = Owner(end, random.Random(0))
        client = Client(scope={"path_params": {"name": "x"}})
        with pytest.raises(LookupError):
            await front.link(end).request(
                PULL, client.scope, client.receive, client.send, race=broken
            )
        await until(lambda: owner.released == ["x"])
