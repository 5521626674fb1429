"""Listens for HTTP connections, and counts, sweeps and drains them.

A client that speaks HTTP/1.1 has a Connection (connection.py) to its end. A connection that
begins with the preface of HTTP/2 is Hypercorn's from its first byte, where a setting allows it
(over_hypercorn.py); with another setting Hypercorn has them all. No connection changes hands, and
both run the same ASGI application.

Limits: connections, in all and from one address; heads of 64 KiB and 256 fields, bodies read ahead
by 256 KiB, reading paused while a pipelined request waits; bytes of answers that are not taken
(unsent.py). Swept away: connections that send nothing at first, or nothing for long, unfinished
heads, and those that take nothing. Requests that arrive at once have their turns (round_robin.py).
"""

from __future__ import annotations

import asyncio
import random
import socket
import time
from collections import Counter as Tally
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from email.utils import formatdate
from typing import Protocol

from hypercorn.config import Config
from prometheus_client import Gauge

from edge.asgi import Handler
from edge.lifetime import keep_running
from gateway.http.connection import CLOSED, TOO_MANY, Connection, address_of, refusal
from gateway.http.direct import DirectRequests
from gateway.http.dispatch import TurnedAway
from gateway.http.over_hypercorn import Hypercorn, Opening
from gateway.http.request import KnownHeads
from gateway.http.round_robin import ANSWERS_AT_ONCE, RoundRobin
from gateway.http.unsent import UNSENT, UnsentBytes, UnsentLimits

HELD_AT_LEAST = 0.5
"""The least part of the time in Retry-After; the rest is drawn, so that clients return apart."""
HOLD_STEP_SECONDS = 0.05
MAX_CONNECTIONS = 20_000
MAX_CONNECTIONS_OF_ADDRESS = 10_000
CANCEL_AGAIN_SECONDS = 0.5
SWEEP_SECONDS = 1.0
SWEPT_AT_ONCE = 500
LISTEN_BACKLOG = 2048
KERNEL_UNSENT_BYTES = 256 * 1024
"""Bytes of answers that the kernel takes for a connection before the client's socket has room.

Without this limit it takes megabytes at once, about 1 ms of CPU, for a client that reads nothing.
"""
TurnAway = Callable[[bytes, int], TurnedAway | None]
CONNECTIONS = Gauge(
    "packetboat_gateway_connections", "Open connections.", multiprocess_mode="livesum"
)


class Swept(Protocol):
    """A connection of either protocol."""

    def sweep(self, now_s: float, idle_s: float) -> None:
        """Ends it if its client has kept it waiting for too long."""

    def close_if_idle(self) -> None: ...

    def abort(self) -> None: ...


class HttpServer:
    """Owns the listening socket and every connection."""

    def __init__(
        self,
        app: Handler,
        config: Config,
        *,
        own: bool = True,
        http2: bool = False,
        unsent: UnsentLimits | None = None,
        turn_away: TurnAway = lambda _, __: None,
        direct: DirectRequests | None = None,
        max_connections: int = MAX_CONNECTIONS,
        max_connections_of_address: int = MAX_CONNECTIONS_OF_ADDRESS,
    ) -> None:
        """Create the listener, which does not listen yet.

        `own` decides whether HTTP/1.1 is read here or by Hypercorn; `http2`, whether HTTP/2 is
        spoken to clients that begin with it. `turn_away` is asked first, with a head and the number
        of bytes of its body that are here. `direct` serves requests whose heads came before.
        """
        self.app = app
        self.own_http1 = own
        self.http2 = http2
        self.loop = asyncio.get_running_loop()
        self.unsent = UnsentBytes(unsent or UnsentLimits(), self.loop.time)
        self.turn_away = turn_away
        self._max_connections = max_connections
        self._max_of_address = max_connections_of_address
        self._open: Tally[str] = Tally()
        """The number of open connections, by address."""
        self._open_count = 0
        self.config = config
        self.connections: set[Swept] = set()
        self.leaving = False
        """Each response is its connection's last."""
        self.closing = False
        self._nobody = asyncio.Event()
        """Set when nobody is connected; looked at by `leave` alone."""
        self.tasks: set[asyncio.Task[None]] = set()
        self.direct = direct
        self.heads = KnownHeads() if direct is None else KnownHeads(direct.known)
        self.hypercorn = Hypercorn(app, config, self.loop)
        self._listener: asyncio.Server | None = None
        self._sweeper: asyncio.Task[None] | None = None
        self.turns = RoundRobin(self.loop)
        self.answers = RoundRobin(self.loop, ANSWERS_AT_ONCE)
        """The turns of answers to requests that are served directly."""
        self._date = (0, b"")
        self._held: defaultdict[int, list[Connection]] = defaultdict(list)
        """Connections by the step of time at which they are released."""
        self._released_step = 0
        self._releasing: asyncio.TimerHandle | None = None

    async def start(self, listener: socket.socket) -> None:
        plain = self.own_http1 and not self.http2
        # Connections have the options of their listener.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, KERNEL_UNSENT_BYTES)
        self._listener = await self.loop.create_server(
            lambda: Connection(self) if plain else Opening(self),
            sock=listener,
            backlog=LISTEN_BACKLOG,
        )
        self._sweeper = self.loop.create_task(keep_running(self._sweep, "sweep of connections"))

    async def leave(self, linger_s: float) -> None:
        """Return when no client is connected any more, or after `linger_s`.

        Connections are accepted meanwhile, because a load balancer sends more until it has seen
        that this process is not ready. So a client that is told to close meets no connection that
        ends just as it asks again.
        """
        self.leaving = True
        deadline_s = self.loop.time() + linger_s
        with suppress(TimeoutError):
            async with asyncio.timeout_at(deadline_s):
                while self._open_count:
                    self._nobody.clear()
                    await self._nobody.wait()

    async def close(self, grace_s: float) -> None:
        """Close the listener; idle connections end now, the others with their response or after
        `grace_s`.

        One that has only just come is not idle: its request is on its way.
        """
        self.leaving = self.closing = True
        if self._releasing is not None:
            self._releasing.cancel()
        if self._listener is not None:
            self._listener.close()
        await self.hypercorn.context.terminated.set()
        for connection in list(self.connections):
            connection.close_if_idle()
        await self.leave(grace_s)
        for connection in list(self.connections):
            connection.abort()
        if self._sweeper is not None:
            self._sweeper.cancel()
        while self.tasks:
            for task in self.tasks:
                task.cancel()
            # Hypercorn takes the cancellation of a connection that just stops its idle timer for
            # that of the timer.
            await asyncio.wait(self.tasks, timeout=CANCEL_AGAIN_SECONDS)

    def opened(self, transport: asyncio.Transport) -> str | None:
        """Return the address under which the connection counts, until `ended`.

        Returns None if there are too many; the connection is told so, and closed.
        """
        address = address_of(transport)
        crowded = self._open_count >= self._max_connections
        if crowded or self._open.get(address, 0) >= self._max_of_address:
            CLOSED.labels("many").inc()
            transport.write(refusal(TOO_MANY, self.date_line()))
            transport.close()
            return None
        self._open[address] += 1
        self._open_count += 1
        CONNECTIONS.inc()
        return address

    def ended(self, address: str) -> None:
        self._open[address] -= 1
        if not self._open[address]:
            del self._open[address]
        self._open_count -= 1
        if not self._open_count:
            self._nobody.set()
        CONNECTIONS.dec()

    def hold(self, connection: Connection, most_s: float) -> None:
        """Hold a connection for a part of `most_s`; then call its `release`."""
        hold_s = most_s * random.uniform(HELD_AT_LEAST, 1.0)
        step = int((self.loop.time() + hold_s) / HOLD_STEP_SECONDS)
        self._held[max(step, self._released_step + 1)].append(connection)
        if self._releasing is None and not self.closing:
            self._releasing = self.loop.call_later(HOLD_STEP_SECONDS, self._release)

    def _release(self) -> None:
        self._released_step = int(self.loop.time() / HOLD_STEP_SECONDS)
        for step in [step for step in self._held if step <= self._released_step]:
            for connection in self._held.pop(step):
                connection.release()
        more = bool(self._held) and not self.closing
        self._releasing = self.loop.call_later(HOLD_STEP_SECONDS, self._release) if more else None

    def own(self, task: asyncio.Task[None]) -> None:
        """Keep a reference to a task until it ends."""
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def date_line(self) -> bytes:
        """Return the response header line with the current date, made once a second."""
        now = int(time.time())
        if self._date[0] != now:
            self._date = (now, b"date: %s\r\n" % formatdate(now, usegmt=True).encode("ascii"))
        return self._date[1]

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            now_s = self.loop.time()
            for number, connection in enumerate(list(self.connections), 1):
                if connection in self.connections:
                    connection.sweep(now_s, self.config.keep_alive_timeout)
                if number % SWEPT_AT_ONCE == 0:
                    await asyncio.sleep(0)
            UNSENT.set(self.unsent.total_bytes)
