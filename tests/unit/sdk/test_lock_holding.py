"""Locks that are held for a block: renewed meanwhile, and told when they are lost."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from packetboat import Conflict, NotDone, PacketboatError, Problem, Unavailable
from packetboat.aio.resources.locks import AsyncLocks
from packetboat.calls import Call
from packetboat.errors import LeaseLost
from packetboat.lock_lease import LockLease, wait_seconds
from packetboat.models import Lock
from packetboat.sync.resources.locks import Locks

LOST = Conflict(Problem(type="p/lock-lost", status=409))
HELD = Conflict(Problem(type="p/lock-held", status=409))
BUSY = Unavailable(Problem(type="p/busy", status=503))
PATIENCE_S = 30.0


def lock(fence: int = 1, expires_in_s: float = 3600) -> Lock:
    return Lock("n", "id", fence, expires_in_s, expires_in_s)


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Renewals come at once, of leases that are long."""
    monkeypatch.setattr(LockLease, "renew_in_s", lambda lease, now_s: 0.01)


class Server:
    """Answers by verb: what a list has, then its last again and again."""

    def __init__(self, **answers: list[Lock | PacketboatError]) -> None:
        self._answers = {"acquire": [lock()], "renew": [lock()], "release": []} | answers
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self._lock = threading.Lock()

    def send(self, call: Call[Any], timeout_s: float | None = None) -> Any:
        verb = call.request.path.rpartition(":")[2]
        with self._lock:
            self.asked.append((verb, msgspec.json.decode(call.request.body)))
            answers = self._answers[verb]
            answer = answers.pop(0) if len(answers) > 1 else (answers or [None])[0]
        if isinstance(answer, PacketboatError):
            raise answer
        return answer

    def verbs(self) -> list[str]:
        return [verb for verb, _ in self.asked]


class AsyncServer(Server):
    async def send(self, call: Call[Any], timeout_s: float | None = None) -> Any:  # type: ignore[override]
        return super().send(call, timeout_s)


async def until(condition: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline_s
        await asyncio.sleep(0.01)


def locks(server: AsyncServer) -> AsyncLocks:
    return AsyncLocks(server)  # type: ignore[arg-type]


@pytest.mark.usefixtures("often")
async def test_it_is_renewed_while_the_block_goes_on_and_released_after() -> None:
    server = AsyncServer(renew=[lock(), lock(fence=2)], release=[])
    async with locks(server).hold("n", ttl_s=5, holder="me") as held:
        assert held.fence == 1
        await until(lambda: server.verbs().count("renew") > 2)
        assert not held.lost
        held.check()
        assert held.fence == 2
    assert server.verbs()[0] == "acquire"
    assert server.verbs()[-1] == "release"
    acquired, released = server.asked[0][1], server.asked[-1][1]
    assert (acquired["ttl_seconds"], acquired["wait_seconds"], acquired["holder"]) == (5, 0, "me")
    assert len(acquired["request_id"]) == 32
    assert released == {"lock_id": "id"}


async def hold_until_lost(server: AsyncServer) -> None:
    async with locks(server).hold("n") as held:
        async with asyncio.timeout(PATIENCE_S):
            await held.wait_lost()
        assert held.lost
        with pytest.raises(LeaseLost, match="is lost"):
            held.check()


@pytest.mark.usefixtures("often")
async def test_one_that_another_got_is_lost() -> None:
    with pytest.raises(LeaseLost, match="'n' was lost"):
        await hold_until_lost(AsyncServer(renew=[lock(), LOST]))


async def test_one_that_cannot_be_renewed_is_lost_when_its_time_is_over() -> None:
    server = AsyncServer(acquire=[lock(expires_in_s=0.5)], renew=[BUSY])
    with pytest.raises(LeaseLost) as caught:
        await hold_until_lost(server)
    assert caught.value.__cause__ is BUSY
    assert server.verbs().count("renew") >= 1


@pytest.mark.usefixtures("often")
async def test_a_renewal_that_fails_for_a_moment_loses_nothing() -> None:
    server = AsyncServer(renew=[BUSY, lock()])
    async with locks(server).hold("n") as held:
        await until(lambda: server.verbs().count("renew") >= 2)
        assert not held.lost


@pytest.mark.usefixtures("often")
async def test_what_the_block_raises_is_not_hidden() -> None:
    async def fail() -> None:
        async with locks(AsyncServer(renew=[LOST])).hold("n") as held:
            await held.wait_lost()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()


async def test_who_does_not_wait_is_told_that_it_is_held() -> None:
    server = AsyncServer(acquire=[HELD])
    with pytest.raises(Conflict, match="lock-held"):
        async with locks(server).hold("n"):
            pass
    assert server.verbs() == ["acquire"]


async def test_who_waits_for_ever_gets_in_line_again() -> None:
    server = AsyncServer(acquire=[HELD, HELD, lock()])
    async with locks(server).hold("n", wait_s=None):
        pass
    asked = [body for verb, body in server.asked if verb == "acquire"]
    assert [body["wait_seconds"] for body in asked] == [60, 60, 60]
    assert len({body["request_id"] for body in asked}) == 1


async def test_a_lease_that_was_long_waited_for_is_renewed_before_the_block_begins() -> None:
    server = AsyncServer(acquire=[lock(expires_in_s=0)], renew=[lock()])
    async with locks(server).hold("n") as held:
        assert server.verbs() == ["acquire", "renew"]
        assert not held.lost


async def test_a_failed_release_is_no_error_of_the_block() -> None:
    server = AsyncServer(release=[BUSY])
    async with locks(server).hold("n"):
        pass
    assert server.verbs()[-1] == "release"


async def test_it_is_held_once_and_has_no_fence_before() -> None:
    held = locks(AsyncServer()).hold("n")
    with pytest.raises(RuntimeError, match="with statement"):
        _ = held.fence
    async with held:
        pass
    with pytest.raises(RuntimeError, match="anew"):
        async with held:
            pass


@pytest.mark.usefixtures("often")
def test_threads_do_the_same() -> None:
    server = Server(renew=[lock(), lock(), lock(fence=2), LOST])

    def hold() -> None:
        with Locks(server).hold("n", ttl_s=5) as held:  # type: ignore[arg-type]
            held.wait_lost()
            assert held.fence == 2
            with pytest.raises(LeaseLost, match="is lost"):
                held.check()

    with pytest.raises(LeaseLost, match="was lost"):
        hold()
    assert server.verbs() == ["acquire", "renew", "renew", "renew", "renew", "release"]


def test_a_thread_ends_with_its_block() -> None:
    server = Server()
    with Locks(server).hold("n"):  # type: ignore[arg-type]
        pass
    assert server.verbs() == ["acquire", "release"]
    assert "packetboat-lock-n" not in [thread.name for thread in threading.enumerate()]


def test_a_lease_is_counted_from_when_it_was_asked_for() -> None:
    lease = LockLease(lock(expires_in_s=30), 100.0)
    assert lease.left_s(110.0) == 20
    assert lease.renew_in_s(101.0) == 9
    assert lease.renew_in_s(120.0) == 0
    assert lease.again_in_s(BUSY, 120.0) == 1
    assert lease.again_in_s(BUSY, 129.0) == 0.25
    assert lease.again_in_s(BUSY, 130.0) is None
    assert lease.again_in_s(LOST, 101.0) is None


def test_waits_are_cut_into_those_of_the_server() -> None:
    assert [wait_seconds(90, waited_s) for waited_s in (0, 60, 100)] == [60, 30, 0]
    assert issubclass(LeaseLost, NotDone)
