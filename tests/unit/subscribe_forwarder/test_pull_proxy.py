"""Pulls at a forwarder that does not own all of the subscription; owners are scripted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from edge.asgi import AUTHORISED, CALLER, ClientGone, Receive, Scope, Send, respond
from edge.problem import Problem, unavailable
from metadata.types import Subscription
from subscribe_forwarder.api import pulls
from subscribe_forwarder.api.pulls import OPERATION, Pulls, PullsHere, empty
from subscribe_forwarder.api.requests import PullRequest, pull_of_query
from subscribe_forwarder.delivery.pages import JSON
from subscribe_forwarder.fleet.backlogs.part import Wanted
from subscribe_forwarder.fleet.proxy.routing import Order, Routing, in_any_order
from subscribe_forwarder.peers import FORWARDED, RACE, PeerGone, misdirected
from tests.unit.subscribe_forwarder.proxy_support import CallLinks, Map, MapDirectory
from tests.unit.subscribe_forwarder.subscribe_support import (
    SUBSCRIPTION_UID,
    TENANT,
    TOPIC_UID,
    FakeMetadata,
    subscription,
    topic,
)

ME, A, B = b"m" * 16, b"a" * 16, b"b" * 16


class ScriptedOwner:
    """Pulls of one owner: `stock` is what it has."""

    def __init__(self, map_: Map, me: bytes, partitions: int) -> None:
        self._map = map_
        self._me = me
        self._partitions = partitions
        self.stock: list[bytes] = []
        self.sent: list[bytes] = []
        self.released: list[bytes] = []
        self.waits: list[float] = []
        self.filled = asyncio.Event()
        self.after_race: Exception | None = None
        self.race_gate: asyncio.Event | None = None

    def put(self, *messages: bytes) -> None:
        self.stock += messages
        self.filled.set()

    def _check(self, scope: Scope) -> None:
        mine = sum(owner == self._me for owner in self._map.owners.values())
        part = FORWARDED in scope or "packetboat.part" in scope
        if mine == 0 or (mine < self._partitions and not part):
            raise misdirected()

    async def get(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.serve(scope, receive, send, pull_of_query(scope), body_read=False)

    async def now(self, scope: Scope, send: Send, request: PullRequest) -> bool:
        self._check(scope)
        if not self.stock:
            return False
        await self._answer(scope, send)
        return True

    async def serve(
        self, scope: Scope, receive: Receive, send: Send, request: PullRequest, *, body_read: bool
    ) -> None:
        self._check(scope)
        self.waits.append(request.wait_s)
        ends_s = asyncio.get_running_loop().time() + request.wait_s
        while not self.stock:
            left_s = ends_s - asyncio.get_running_loop().time()
            if left_s <= 0:
                await empty(send, JSON)
                return
            self.filled.clear()
            changed = asyncio.ensure_future(self._map.changed(self._map.version))
            filled = asyncio.ensure_future(self.filled.wait())
            try:
                await asyncio.wait(
                    [changed, filled], timeout=left_s, return_when=asyncio.FIRST_COMPLETED
                )
            finally:
                changed.cancel()
                filled.cancel()
            self._check(scope)
        await self._answer(scope, send)

    async def _answer(self, scope: Scope, send: Send) -> None:
        leased = self.stock.pop(0)
        try:
            if self.race_gate is not None:
                await self.race_gate.wait()
            if RACE in scope and not await scope[RACE]():
                self._release(leased)
                return
            if self.after_race is not None:
                raise self.after_race
            await respond(send, 200, leased)
        except BaseException:
            self._release(leased)
            raise
        self.sent.append(leased)

    def _release(self, leased: bytes) -> None:
        """Make a message ready again."""
        self.released.append(leased)
        self.put(leased)


class Fleet:
    """This forwarder's front, and scripted owners here (ME) and elsewhere (A, B)."""

    def __init__(self, *owners: bytes | None, order: Order = in_any_order) -> None:
        self.map = Map(*owners)
        self.net: dict[bytes, CallLinks] = {}
        self.links = {me: CallLinks(self.net, me) for me in (ME, A, B)}
        self.owners = {me: ScriptedOwner(self.map, me, len(owners)) for me in (ME, A, B)}
        for me in (A, B):
            self.links[me].serve(OPERATION, self.owners[me].get)
        self.lease_held = True
        self.routing = Routing(
            FakeMetadata(topic(len(owners)), subscription()),
            MapDirectory(self.map, ME),
            self.links[ME],
            lambda: self.lease_held,
            self._look_for,
            order,
        )
        self.looked_for: list[int] = []
        self.front = Pulls(cast(PullsHere, self.owners[ME]), self.routing)

    async def _look_for(self, subscription: Subscription, partitions: Iterable[int]) -> None:
        self.looked_for += partitions

    async def pull(
        self,
        wait_s: float = 0.0,
        gone: asyncio.Event | None = None,
        refusal: Problem | None = None,
    ) -> bytes:
        """`refusal`: it is not that the client goes, but that its caller may not go on."""
        body = b""

        async def receive() -> Any:
            if not asked:
                asked.append(True)
                return {"type": "http.request", "body": b"", "more_body": False}
            await (gone or asyncio.Event()).wait()
            if refusal is not None:
                raise refusal
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            nonlocal body
            if gone is not None and gone.is_set():
                raise ClientGone
            body += message.get("body", b"")

        asked: list[bool] = []
        scope: dict[str, Any] = {
            "type": "http",
            "method": "GET",
            "path_params": {"name": "reader"},
            "packetboat.tenant": TENANT,
            CALLER: AUTHORISED,
            "query_string": f"wait_seconds={wait_s:g}".encode(),
            "headers": [],
        }
        async with asyncio.timeout(10):
            await self.front.get(scope, receive, send)
        return body

    @asynccontextmanager
    async def pulling(self, wait_s: float = 5.0) -> AsyncIterator[asyncio.Task[bytes]]:
        """Yield a long poll that waits by now."""
        task = asyncio.create_task(self.pull(wait_s))
        await asyncio.sleep(0.02)
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


EMPTY = b'{"messages":[]}'


async def test_all_here_asks_nobody() -> None:
    fleet = Fleet(ME, ME)
    fleet.owners[ME].put(b"x")
    assert await fleet.pull() == b"x"
    assert await fleet.pull() == EMPTY
    assert fleet.links[A].requests == []


async def test_one_owner_elsewhere_serves_it() -> None:
    fleet = Fleet(A, A)
    fleet.owners[A].put(b"x")
    assert await fleet.pull() == b"x"
    assert fleet.owners[A].sent == [b"x"]
    assert fleet.links[A].requests == [OPERATION]


async def test_what_is_here_is_given_without_asking() -> None:
    fleet = Fleet(ME, ME, A)
    fleet.owners[ME].put(b"x")
    assert await fleet.pull() == b"x"
    assert fleet.links[A].requests == []


async def test_what_is_elsewhere_has_its_turn() -> None:
    fleet = Fleet(ME, A)
    fleet.owners[ME].put(*[b"here"] * 10)
    fleet.owners[A].put(*[b"there"] * 10)
    got = [await fleet.pull() for _ in range(10)]
    assert got.count(b"here") == got.count(b"there") == 5


@pytest.mark.parametrize("order", [[A, B], [B, A]])
async def test_who_has_the_most_is_asked_first(order: list[bytes]) -> None:
    wanted: list[Wanted] = []

    def most_backlog_first(one: Wanted, peers: Iterable[bytes]) -> list[bytes]:
        wanted.append(one)
        assert sorted(peers) == [A, B]
        return order

    fleet = Fleet(A, B, B, order=most_backlog_first)
    for me in (A, B):
        fleet.owners[me].put(me)
    assert await fleet.pull() == order[0]
    assert wanted[0] == Wanted(TENANT, TOPIC_UID, SUBSCRIPTION_UID, 3)


async def test_who_has_less_is_not_starved() -> None:
    fleet = Fleet(A, B)
    for me in (A, B):
        fleet.owners[me].put(*[me] * 100)
    got = [await fleet.pull() for _ in range(80)]
    assert 5 <= got.count(B) < got.count(A)


async def test_a_pull_that_waits_still_wants_to_hear_of_backlogs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pulls, "LOOK_S", 0.01)
    asked: list[Wanted] = []

    def noted(one: Wanted, peers: Iterable[bytes]) -> list[bytes]:
        asked.append(one)
        return list(peers)

    fleet = Fleet(A, B, order=noted)
    async with fleet.pulling():
        before = len(asked)
        await asyncio.sleep(0.05)
        assert len(asked) > before


async def test_the_credit_is_spent_once() -> None:
    fleet = Fleet(A, B)
    gate = asyncio.Event()
    for me in (A, B):
        fleet.owners[me].put(me)
        fleet.owners[me].race_gate = gate
    async with fleet.pulling() as pull:
        gate.set()
        got = await pull
        await asyncio.sleep(0.01)
    loser = B if got == A else A
    assert got in (A, B)
    assert fleet.owners[got].sent == [got]
    assert fleet.owners[loser].sent == []
    assert fleet.owners[loser].released == [loser]


async def test_an_empty_answer_is_of_all_owners() -> None:
    fleet = Fleet(A, B)
    assert await fleet.pull() == EMPTY
    assert await fleet.pull(0.1) == EMPTY
    async with fleet.pulling() as pull:
        fleet.owners[B].put(b"late")
        assert await pull == b"late"


async def test_a_partition_that_is_nowhere_makes_no_empty_answer() -> None:
    fleet = Fleet(A, None)
    for wait_s in (0.0, 0.1):
        with pytest.raises(Problem, match="changing hands") as raised:
            await fleet.pull(wait_s)
        assert (raised.value.status, raised.value.retry_after_s) == (503, 1.0)
    assert set(fleet.looked_for) == {1}
    fleet.owners[A].put(b"x")
    assert await fleet.pull() == b"x"


async def test_a_wait_follows_a_partition_that_changes_hands() -> None:
    fleet = Fleet(None, None)
    async with fleet.pulling() as pull:
        fleet.map.move(0, A)
        fleet.map.move(1, A)
        await asyncio.sleep(0.02)
        fleet.map.move(1, B)
        await asyncio.sleep(0.02)
        fleet.owners[B].put(b"x")
        assert await pull == b"x"
    assert 0 < fleet.owners[B].waits[0] < 5.0, "the time that was left"


async def test_a_wait_here_goes_on_where_the_partition_went() -> None:
    fleet = Fleet(ME)
    async with fleet.pulling() as pull:
        fleet.map.move(0, B)
        await asyncio.sleep(0.02)
        fleet.owners[B].put(b"x")
        assert await pull == b"x"


async def test_a_dead_owner_is_not_waited_for() -> None:
    fleet = Fleet(A)
    async with fleet.pulling() as pull:
        fleet.links[A].die()
        await asyncio.sleep(0.02)
        fleet.map.move(0, B)
        fleet.owners[B].put(b"x")
        assert await pull == b"x"


@pytest.mark.parametrize("lost", [PeerGone(), misdirected()])
async def test_a_winner_that_did_not_answer_gives_the_credit_back(lost: Exception) -> None:
    fleet = Fleet(A, B)
    fleet.owners[A].put(b"a")
    fleet.owners[A].after_race = lost
    async with fleet.pulling() as pull:
        fleet.owners[B].put(b"b")
        assert await pull == b"b"
    assert fleet.owners[A].sent == []


async def test_a_failed_commit_of_the_winner_is_the_answer() -> None:
    fleet = Fleet(A, B)
    fleet.owners[A].put(b"a")
    fleet.owners[A].after_race = unavailable("metadata", "down")
    with pytest.raises(Problem, match="down"):
        await fleet.pull(1.0)


async def test_a_failure_here_is_the_answer_and_no_reason_to_ask_the_owners() -> None:
    fleet = Fleet(ME, ME)
    fleet.owners[ME].put(b"x")
    fleet.owners[ME].after_race = unavailable("metadata", "down")
    with pytest.raises(Problem, match="down"):
        await fleet.pull(1.0)
    assert fleet.owners[ME].released == [b"x"], "it was tried once"


async def test_a_front_without_its_lease_passes_no_messages_on() -> None:
    fleet = Fleet(A)
    async with fleet.pulling() as pull:
        fleet.lease_held = False
        fleet.owners[A].put(b"x")
        with pytest.raises(Problem, match="lost its lease"):
            await pull
    assert fleet.owners[A].released == [b"x"]
    assert fleet.owners[A].sent == []


async def test_a_client_that_goes_takes_its_credit_along() -> None:
    fleet = Fleet(A, B)
    gone = asyncio.Event()
    pull = asyncio.create_task(fleet.pull(5.0, gone))
    await asyncio.sleep(0.02)
    gone.set()
    with pytest.raises(ClientGone):
        await pull
    fleet.owners[A].put(b"x")
    await asyncio.sleep(0.02)
    assert fleet.owners[A].stock == [b"x"]
    assert not fleet.links[A].running


async def test_a_caller_that_may_not_go_on_is_told_and_takes_nothing() -> None:
    fleet, told = Fleet(A, A), asyncio.Event()
    refusal = Problem(401, "unauthenticated", "Authentication required")
    pull = asyncio.create_task(fleet.pull(5.0, told, refusal))
    await asyncio.sleep(0.02)
    told.set()
    with pytest.raises(Problem, match="unauthenticated"):
        await pull
    fleet.owners[A].put(b"x")
    await asyncio.sleep(0.02)
    assert fleet.owners[A].stock == [b"x"]


async def test_an_owner_that_cannot_serve_says_why() -> None:
    fleet = Fleet(A, B)

    async def refuse(scope: Scope, receive: Receive, send: Send) -> None:
        raise Problem(503, "too-many-waiting-pulls", "Too many waiting pulls")

    fleet.links[A].serve(OPERATION, refuse)
    fleet.owners[B].put(b"b")
    assert await fleet.pull(0.2) == b"b"
    with pytest.raises(Problem, match="too-many"):
        await fleet.pull(0.1)


async def test_a_stop_answers_who_waits() -> None:
    fleet = Fleet(A, None)
    async with fleet.pulling() as pull:
        fleet.routing.drain()
        assert await pull == EMPTY
    assert not fleet.links[A].running
