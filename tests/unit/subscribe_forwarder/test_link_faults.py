"""A link that is cut at any frame, clients that do not read, handlers that fail, many who wait."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from typing import Any

import pytest

from edge.asgi import ClientGone, Receive, Scope, Send, read_body, respond
from edge.problem import Problem
from subscribe_forwarder.fleet.links import link as link_module
from subscribe_forwarder.fleet.links import network
from subscribe_forwarder.fleet.links.wire import CHUNK_BYTES, WINDOW_BYTES
from subscribe_forwarder.peers import RACE, PeerGone
from tests.unit.subscribe_forwarder.frame_proxy import frame_proxy
from tests.unit.subscribe_forwarder.link_pair import Client, linked, open_end, open_links, until

PULL = "GET /pull"
ANSWER = bytes(3 * CHUNK_BYTES)


class Owner:
    """An owner with the outcome of the one message that a request may have."""

    def __init__(self) -> None:
        self.outcome = "not asked"

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.outcome = "asked"
        try:
            await read_body(scope, receive, 10 * CHUNK_BYTES)
            if not await scope[RACE]():
                raise AssertionError
            await respond(send, 200, ANSWER)
        except ClientGone:
            self.outcome = "released"
            raise
        self.outcome = "sent"


async def _win() -> bool:
    return True


@pytest.mark.parametrize("within", [False, True], ids=["before", "within"])
@pytest.mark.parametrize("owner_dials", [False, True])
async def test_a_cut_before_any_frame_is_peer_gone_or_a_whole_answer(
    within: bool, owner_dials: bool
) -> None:
    """And what the client did not get whole, the owner knows to be unsent."""
    outcomes = []
    for cut_before in range(4, 40):
        outcome = await _asked_through_a_cut(cut_before, within, owner_dials)
        outcomes.append(outcome)
        if outcome == ("whole", "sent"):
            break
    # Hello, Challenge, Proof, Welcome; then Request, Body, Taken, Offer, Verdict, Answer, Chunk …
    assert outcomes[0] == ("nothing", "not asked")
    assert outcomes[-1] == ("whole", "sent")
    assert len(outcomes) > 10
    clients = [client for client, _ in outcomes]
    assert clients == sorted(clients, key=("nothing", "part", "whole").index)
    assert {"nothing", "part"} < set(clients)
    # The last frame tells the owner what the client has; where it is lost the message goes again.
    assert ("whole", "released") in outcomes
    assert {owner for _, owner in outcomes[1:-1]} <= {"not asked", "released"}


async def _asked_through_a_cut(cut_before: int, within: bool, owner_dials: bool) -> tuple[str, str]:
    front, end, owner = await open_end(1), await open_end(2), Owner()
    end.links.serve(PULL, owner.serve)
    dialer, dialled = (end, front) if owner_dials else (front, end)
    async with frame_proxy(dialled.port) as proxy:
        dialer.links.follow({dialled.incarnation: ("127.0.0.1", proxy.port)})
        await linked([front, end])
        proxy.cut_before, proxy.cut_within = cut_before, within
        client = Client(bytes(CHUNK_BYTES), b"rest")
        link, serving = front.link(end), end.link(front)
        asking = link.request(PULL, client.scope, client.receive, client.send, race=_win)
        [ended] = await asyncio.gather(asking, return_exceptions=True)
        assert ended is None or isinstance(ended, PeerGone), ended
        assert (ended is None) == client.whole
        await until(lambda: not serving.serving)
        dialer.links.follow({})
    await asyncio.gather(front.links.close(0.1), end.links.close(0.1))
    got = "whole" if client.whole else "part" if client.messages else "nothing"
    return got, owner.outcome


async def test_a_slow_client_holds_up_its_own_answer_and_no_other() -> None:
    sent = 0

    async def endless(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal sent
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while True:
            await send({"type": "http.response.body", "body": bytes(50_000), "more_body": True})
            sent += 50_000

    async def quick(scope: Scope, receive: Receive, send: Send) -> None:
        await respond(send, 200, b"{}")

    async with open_links() as (front, owner):
        owner.links.serve("stream", endless)
        owner.links.serve(PULL, quick)
        slow = Client()
        slow.reads.clear()
        streaming = asyncio.create_task(
            front.link(owner).request("stream", slow.scope, slow.receive, slow.send)
        )
        await until(lambda: sent > WINDOW_BYTES - 50_000)
        for _ in range(20):
            client = Client()
            await front.link(owner).request(PULL, client.scope, client.receive, client.send)
            assert client.whole
        assert sent <= WINDOW_BYTES + 50_000
        slow.reads.set()
        await until(lambda: sent > 5 * WINDOW_BYTES)
        streaming.cancel()
        await asyncio.gather(streaming, return_exceptions=True)
        await until(lambda: not owner.link(front).serving)


async def test_a_handler_that_reads_no_body_holds_up_the_body() -> None:
    read = 0

    async def forever(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.Event().wait()

    class Sender(Client):
        async def receive(self) -> dict[str, Any]:
            nonlocal read
            read += 50_000
            await asyncio.sleep(0)
            return {"type": "http.request", "body": bytes(50_000), "more_body": True}

    async with open_links() as (front, owner):
        owner.links.serve(PULL, forever)
        client = Sender()
        asking = asyncio.create_task(
            front.link(owner).request(PULL, client.scope, client.receive, client.send)
        )
        await until(lambda: read >= WINDOW_BYTES)
        await asyncio.sleep(0.05)
        assert read <= WINDOW_BYTES + 2 * 50_000
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        for task in owner.link(front).serving:
            task.cancel()


async def test_an_answer_that_breaks_off_is_not_waited_for_behind_a_stalled_client() -> None:
    """The owner gave up on it; the front must not keep a connection that nobody will finish."""

    async def stalls(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        async with asyncio.timeout(0.05):
            await send({"type": "http.response.body", "body": bytes(2 * WINDOW_BYTES)})

    async with open_links() as (front, owner):
        owner.links.serve(PULL, stalls)
        client = Client()
        client.reads.clear()
        with pytest.raises(PeerGone):
            await asyncio.wait_for(
                front.link(owner).request(PULL, client.scope, client.receive, client.send), 5
            )
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0


async def test_a_lost_link_ends_a_request_that_is_stuck_in_a_stalled_client() -> None:
    async def answers(scope: Scope, receive: Receive, send: Send) -> None:
        await respond(send, 200, b"x")

    async with open_links() as (front, owner):
        owner.links.serve(PULL, answers)
        client = Client()
        client.reads.clear()
        asking = asyncio.create_task(
            front.link(owner).request(PULL, client.scope, client.receive, client.send)
        )
        await asyncio.sleep(0.05)
        front.link(owner).connection.abort("cut")
        with pytest.raises(PeerGone):
            await asyncio.wait_for(asking, 5)


async def test_a_cancellation_from_outside_stays_one_also_when_the_link_ends() -> None:
    async def answers(scope: Scope, receive: Receive, send: Send) -> None:
        await respond(send, 200, b"x")

    async with open_links() as (front, owner):
        owner.links.serve(PULL, answers)
        client = Client()
        client.reads.clear()
        asking = asyncio.create_task(
            front.link(owner).request(PULL, client.scope, client.receive, client.send)
        )
        await asyncio.sleep(0.05)
        asking.cancel()
        front.link(owner).connection.abort("cut")
        with pytest.raises(asyncio.CancelledError):
            await asking


async def test_handlers_that_fail_or_answer_nothing() -> None:
    def problem_of(error: Exception) -> Problem | None:
        return Problem(503, "later", "Later") if isinstance(error, OSError) else None

    async def expected(scope: Scope, receive: Receive, send: Send) -> None:
        raise OSError

    async def defect(scope: Scope, receive: Receive, send: Send) -> None:
        raise KeyError("x")

    async def nothing(scope: Scope, receive: Receive, send: Send) -> None:
        return

    async def half(scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"half", "more_body": True})
        raise OSError

    async with open_links() as (front, owner):
        owner.links._services._problem_of = problem_of
        for operation, handler in {"e": expected, "d": defect, "n": nothing, "h": half}.items():
            owner.links.serve(operation, handler)

        async def ask(operation: str) -> tuple[BaseException | None, Client]:
            client = Client()
            link = front.link(owner)
            asking = link.request(operation, client.scope, client.receive, client.send)
            [ended] = await asyncio.gather(asking, return_exceptions=True)
            return ended, client

        ended, _ = await ask("e")
        assert isinstance(ended, Problem)
        assert ended.slug == "later"
        ended, _ = await ask("d")
        assert isinstance(ended, Problem)
        assert (ended.status, ended.slug) == (500, "internal-error")
        ended, client = await ask("n")
        assert isinstance(ended, PeerGone)
        assert client.messages == []
        ended, client = await ask("h")
        assert isinstance(ended, PeerGone)
        assert client.body == b"half"
        assert not client.whole
        assert front.link(owner).connection.open


async def test_what_the_clients_side_raises_ends_the_request() -> None:
    """A stalled body is ended by cancelling the task that reads it."""
    gone = asyncio.Event()

    async def handler(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await read_body(scope, receive, 100)
        except ClientGone:
            gone.set()
            raise

    class Stalls(Client):
        async def receive(self) -> dict[str, Any]:
            if self._parts:
                return {"type": "http.request", "body": self._parts.pop(), "more_body": True}
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(5)
            raise AssertionError

    async with open_links() as (front, owner):
        owner.links.serve(PULL, handler)
        client = Stalls(b"x")
        with pytest.raises(asyncio.CancelledError):
            await front.link(owner).request(PULL, client.scope, client.receive, client.send)
        await asyncio.wait_for(gone.wait(), 5)


async def test_ten_thousand_pulls_may_wait_and_their_end_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module, name in ((network, "PAUSED_S"), (link_module, "SILENCE_S")):
        monkeypatch.setattr(module, name, 60.0)  # tracing makes everything slow

    async def waits(scope: Scope, receive: Receive, send: Send) -> None:
        await read_body(scope, receive, 100)
        while (await receive())["type"] != "http.disconnect":
            pass

    async with open_links() as (front, owner):
        owner.links.serve(PULL, waits)
        link, serving = front.link(owner), owner.link(front)
        tracemalloc.start()
        try:
            before = tracemalloc.get_traced_memory()[0]
            clients = [Client() for _ in range(10_000)]
            asking = []
            for number, one in enumerate(clients):
                pull = link.request(PULL, one.scope, one.receive, one.send)
                asking.append(asyncio.create_task(pull))
                if number % 250 == 0:
                    await asyncio.sleep(0.002)  # all at once would be a long standstill
            await until(lambda: len(serving.serving) == 10_000)
            await asyncio.sleep(1.1)  # by now each client is watched
            assert link.waiting == (10_000, 0)
            each = (tracemalloc.get_traced_memory()[0] - before) / 10_000
        finally:
            tracemalloc.stop()
        for number, client in enumerate(clients):
            client.gone.set()
            if number % 500 == 0:
                await asyncio.sleep(0.002)
        ended = await asyncio.gather(*asking, return_exceptions=True)
        assert all(isinstance(one, ClientGone) for one in ended)
        await until(lambda: not serving.serving)
        assert link.waiting == serving.waiting == (0, 0)
        assert not serving._served
    assert each < 20_000, f"{each:.0f} bytes each, of both sides and of the test's own client"
    gc.collect()
