"""The sweeps of a client: seldom while it is idle, soon once an appender is busy, none after it."""

from __future__ import annotations

import asyncio
from typing import cast

from peering.shared_secret import SharedSecret
from store_nodes.client.appender import Appender
from store_nodes.client.connections import (
    IDLE_TICK_S,
    SWEEP_EVERY_S,
    TICK_EVERY_S,
    Connections,
)
from store_nodes.client.link import PING_WITHIN_S, SILENT_AFTER_S, SUSPECT_AFTER_S
from store_nodes.wire import Remote, Role, StoreConnection, Welcome

REMOTE = Remote(Role.CLIENT, b"", 1, b"")


class BusyAppender:
    """An appender that never becomes idle, and counts its sweeps."""

    group = 0
    idle = False

    def __init__(self) -> None:
        self.swept = asyncio.Event()
        self.sweeps = 0

    def sweep(self, now_s: float) -> None:
        self.sweeps += 1
        self.swept.set()

    def close(self) -> None:
        pass


class BrokenAppender(BusyAppender):
    """An appender with a defect, until it is idle."""

    def sweep(self, now_s: float) -> None:
        super().sweep(now_s)
        if not self.idle:
            raise AttributeError("a defect")


async def test_an_idle_client_sweeps_an_appender_as_soon_as_a_busy_one() -> None:
    connections = Connections({}, groups=[0], secret=SharedSecret(b"a secret of the cluster"))
    await connections.start()
    loop = asyncio.get_running_loop()
    delays_s = []
    for pause_s in (0.0, 0.01, 0.02, 0.03, 0.05):
        await asyncio.sleep(2 * SWEEP_EVERY_S + pause_s)
        appender = BusyAppender()
        connections.busy(cast(Appender, appender))
        began_s = loop.time()
        await appender.swept.wait()
        delays_s.append(loop.time() - began_s)
        appender.idle = True
        await asyncio.sleep(2 * SWEEP_EVERY_S)
    assert min(delays_s) < 2 * SWEEP_EVERY_S
    assert sorted(delays_s)[2] < TICK_EVERY_S / 2, "most of them waited for an idle sweep"
    await connections.close()


async def test_a_closed_client_sweeps_nothing() -> None:
    connections = Connections({}, groups=[0], secret=SharedSecret(b"a secret of the cluster"))
    await connections.start()
    await connections.close()
    appender = BusyAppender()
    connections.busy(cast(Appender, appender))
    await asyncio.sleep(2 * TICK_EVERY_S)
    assert appender.sweeps == 0


async def test_sweeps_go_on_after_an_error() -> None:
    """The timer was set at the end of a sweep, so an error ended all sweeps of the process."""
    connections = Connections({}, groups=[0], secret=SharedSecret(b"a secret of the cluster"))
    await connections.start()
    unexpected: list[object] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: unexpected.append(context["exception"]))
    broken, sound = BrokenAppender(), BusyAppender()
    connections.busy(cast(Appender, broken))
    await broken.swept.wait()
    broken.idle = True
    connections.busy(cast(Appender, sound))
    await asyncio.wait_for(sound.swept.wait(), 10)
    assert [type(error) for error in unexpected] == [AttributeError]
    await connections.close()


class SilentConnection:
    """A connection to a node that says nothing after time 0."""

    last_frame_s = 0.0

    def __init__(self) -> None:
        self.sent: list[object] = []
        self.open = True

    def send(self, head: object) -> bool:
        self.sent.append(head)
        return True

    def abort(self, reason: str) -> None:
        self.open = False


async def test_a_silent_node_is_pinged_judged_and_dropped_in_time_by_an_idle_client() -> None:
    connections = Connections(
        {1: ("127.0.0.1", 1)}, groups=[0], secret=SharedSecret(b"a secret of the cluster")
    )
    link, connection = connections.node_link(1), SilentConnection()
    assert link is not None
    link.opened(cast(StoreConnection, connection), REMOTE, Welcome())
    now_s, pinged_s, suspected_s = 0.001, 0.0, 0.0
    while connection.open and now_s < 10:
        next_s = link.tick(now_s, 0.0, now_s + IDLE_TICK_S)
        pinged_s = pinged_s or now_s * bool(connection.sent)
        suspected_s = suspected_s or now_s * (not link.responsive)
        dropped_s, now_s = now_s, next_s + 0.001
    assert len(connection.sent) == 1
    assert 0 < pinged_s <= PING_WITHIN_S
    assert SUSPECT_AFTER_S <= suspected_s - pinged_s < SUSPECT_AFTER_S + 0.01
    assert SILENT_AFTER_S <= dropped_s - pinged_s < SILENT_AFTER_S + 0.01


async def test_a_node_that_talks_is_not_pinged_while_a_client_ticks_often() -> None:
    connections = Connections(
        {1: ("127.0.0.1", 1)}, groups=[0], secret=SharedSecret(b"a secret of the cluster")
    )
    link, connection = connections.node_link(1), SilentConnection()
    assert link is not None
    link.opened(cast(StoreConnection, connection), REMOTE, Welcome())
    assert link.tick(0.2, 0.0, 0.2 + TICK_EVERY_S) == 0.2 + TICK_EVERY_S
    assert not connection.sent
    link.tick(0.3, 0.0, 0.3 + TICK_EVERY_S)
    assert connection.sent
