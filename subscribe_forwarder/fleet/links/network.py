"""All links of this process: one to each live forwarder.

Both sides of a pair dial, the larger incarnation a moment later. Where both succeed, the connection
that the smaller one dialled survives; any other new connection takes the place of the old one, for
a side that dials has none that works. A link ends when its peer is live no more, when nothing comes
from it for `SILENCE_S`, and, all of them, when this process itself stood still.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Mapping

import structlog

from edge.asgi import Handler
from edge.lifetime import keep_running
from edge.problem import Problem
from peering.rpc.dialling import Address, Backoff, dial, keep_dialling
from peering.rpc.handshake import Listening, Party, PeerRefusal, RpcProtocol
from peering.rpc.listening import PeerListener
from peering.shared_secret import SharedSecret
from peering.tls import PeerTls
from subscribe_forwarder.fleet.links import metrics
from subscribe_forwarder.fleet.links.legacy import Version1
from subscribe_forwarder.fleet.links.link import Link
from subscribe_forwarder.fleet.links.services import Services
from subscribe_forwarder.fleet.links.wire import PROTOCOL_VERSION, WIRE, Head, LinkConnection
from subscribe_forwarder.peers import Peer

PROTOCOL: RpcProtocol[Head] = RpcProtocol(
    b"links", WIRE, oldest=PROTOCOL_VERSION, newest=PROTOCOL_VERSION, legacy=Version1()
)
"""A side claims its incarnation."""
PING_EVERY_S = 0.5
PAUSED_S = 2.0
"""Less than `link.SILENCE_S`: before a peer may give us up, we know that it may have."""
FIRST_RETRY_S, MOST_RETRY_S = 0.05, 1.0
YIELD_S = 0.2
"""The larger incarnation lets the smaller one dial first."""
UNLISTED_S = 10.0
"""Seconds for which a peer that never was among the live ones counts as new."""
STABLE_S = 2.0
"""Seconds a link must have lived to be dialled again without a wait."""
_log = structlog.get_logger("packetboat.links")


def own_problem(error: Exception) -> Problem | None:
    return error if isinstance(error, Problem) else None


class Liveness:
    """When this process was last seen alive by itself, in seconds of the monotonic clock."""

    __slots__ = ("beat_s",)

    def __init__(self) -> None:
        self.beat_s = time.monotonic()

    def paused(self) -> bool:
        return time.monotonic() - self.beat_s > PAUSED_S


class LinkNetwork:
    """Links (ports.py) over TCP. Inert until `start`, `identify` and `follow`."""

    def __init__(
        self,
        secret: SharedSecret,
        *,
        problem_of: Callable[[Exception], Problem | None] = own_problem,
        lossy: Collection[str] = (),
        tls: PeerTls | None = None,
        around: Callable[[Handler], Handler] | None = None,
    ) -> None:
        """Make a network without links.

        `secret`: shared by all forwarders. `problem_of`: returns the problem to tell a peer for a
        handler's exception, None for a defect. `lossy`: subjects of notes that may be dropped when
        a peer does not keep up; a link is ended rather than lose others. `around`: makes the
        handler that serves peers from each handler; None: the handler itself.
        """
        self._secret = secret
        self._services = Services(problem_of, lossy)
        self._around = around
        self._tls = tls
        self._listener = PeerListener(self._accept, tls)
        self._incarnation: bytes | None = None
        self._live: dict[bytes, Address] = {}
        self._links: dict[bytes, Link] = {}
        self._dialing: dict[bytes, asyncio.Task[None]] = {}
        self._changed: list[Callable[[bytes, bool], None]] = []
        self._connections: dict[LinkConnection, None] = {}
        self._pulse = Liveness()
        self._ticking: asyncio.Task[None] | None = None
        self._closing = False

    # Life.

    async def start(self, host: str, port: int) -> int:
        """Listen and return the port, which is chosen here where 0 is given. Raises OSError."""
        chosen = await self._listener.start(host, port)
        self._pulse.beat_s = time.monotonic()
        self._ticking = asyncio.get_running_loop().create_task(
            keep_running(self._tick, "pings of forwarders")
        )
        self.follow(self._live)
        return chosen

    def identify(self, incarnation: bytes | None) -> None:
        """This process is that forwarder from now on; None: none, for the time being.

        Links under another name end: what was asked or told over them was of somebody else.
        """
        if incarnation == self._incarnation:
            return
        self._incarnation = incarnation
        self._stop_dialing(self._dialing)
        for link in list(self._links.values()):
            link.close("another incarnation")
        self.follow(self._live)

    def follow(self, live: Mapping[bytes, Address]) -> None:
        """Follow the forwarders that live, as (host, port) by incarnation; this one may be
        among them.
        """
        self._live = dict(live)
        self._stop_dialing([one for one in self._dialing if one not in live])
        now_s = time.monotonic()
        for incarnation, link in list(self._links.items()):
            if incarnation in live:
                link.listed = True
            elif link.listed or now_s - link.opened_s > UNLISTED_S:
                link.close("not live")
        if self._incarnation is None or self._ticking is None or self._closing:
            return
        for incarnation in self._live:
            if incarnation != self._incarnation and incarnation not in self._dialing:
                self._dialing[incarnation] = asyncio.get_running_loop().create_task(
                    self._keep_dialing(incarnation, self._party())
                )

    async def close(self, grace_s: float = 5.0) -> None:
        """Accept no new links; tasks that run for peers may end within `grace_s`, then all
        links close.
        """
        self._closing = True
        self._listener.close()
        self._stop_dialing(self._dialing)
        serving = [task for link in self._links.values() for task in link.serving]
        if serving:
            await asyncio.wait(serving, timeout=grace_s)
        for connection in list(self._connections):
            connection.close("stopping")
        tasks = [task for task in serving if not task.done()]
        if self._ticking is not None:
            tasks.append(self._ticking)
            self._ticking = None
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*(one.wait_closed(1.0) for one in list(self._connections)))

    # The functions of Links.

    def peer(self, incarnation: bytes) -> Peer | None:
        return self._links.get(incarnation)

    def peers(self) -> list[Peer]:
        return list(self._links.values())

    def serve(self, operation: str, handler: Handler) -> None:
        assert operation not in self._services.handlers
        served = handler if self._around is None else self._around(handler)
        self._services.handlers[operation] = served

    def answers(self, subject: str, answer: Callable[[bytes, bytes], Awaitable[bytes]]) -> None:
        assert subject not in self._services.answers
        self._services.answers[subject] = answer

    def hears(self, subject: str, hear: Callable[[bytes, bytes], None]) -> None:
        assert subject not in self._services.hearers
        self._services.hearers[subject] = hear

    def on_peer(self, changed: Callable[[bytes, bool], None]) -> None:
        self._changed.append(changed)

    def tell(self, subject: str, body: bytes) -> None:
        for link in list(self._links.values()):
            link.note(subject, body)

    # Connections.

    def _party(self) -> Party:
        assert self._incarnation is not None
        return Party(self._secret, self._incarnation)

    def _accept(self) -> LinkConnection:
        connection = self._connection()
        if self._incarnation is None or self._closing:
            connection.abort("no forwarder yet")
        else:
            own = self._party()
            connection.handler = Listening(
                connection,
                PROTOCOL,
                own,
                admit=lambda peer: self._refusal(own.claim, peer),
                opened=lambda opened, peer: self._open(opened, peer, own.claim, dialled=False),
            )
        return connection

    def _connection(self) -> LinkConnection:
        connection = PROTOCOL.connection(ended=self._closed, stood_still=self._pulse.paused)
        self._connections[connection] = None
        return connection

    def _closed(self, connection: LinkConnection) -> None:
        self._connections.pop(connection, None)

    def _refusal(self, own: bytes, peer: bytes) -> PeerRefusal | None:
        """Return why a peer that dialled, when this was `own`, is not let in."""
        if own != self._incarnation or self._closing:
            return PeerRefusal("another incarnation")
        if peer == own:
            return PeerRefusal("this is yourself")
        if not peer:
            return PeerRefusal("it has no name")
        old = self._links.get(peer)
        if old is not None and old.dialled and peer > own:
            return PeerRefusal("there is a link")
        return None

    def _open(self, connection: LinkConnection, peer: bytes, own: bytes, *, dialled: bool) -> None:
        """A connection that was begun when this was `own` is through its handshake."""
        link = Link(connection, peer, self._services, self._ended, dialled=dialled)
        old = self._links.get(peer)
        if own != self._incarnation or self._closing:
            connection.handler = None
            connection.close("another incarnation")
            return
        if old is not None:
            if dialled and not old.dialled and peer < own:
                connection.handler = None
                connection.close("there is a link")
                return
            old.close("replaced")
        connection.handler = link
        link.listed = peer in self._live
        self._links[peer] = link
        metrics.open_links.inc()
        _log.info("link open", peer=peer.hex(), dialled=dialled)
        for changed in self._changed:
            changed(peer, True)

    def _ended(self, link: Link, reason: str) -> None:
        if self._links.get(link.incarnation) is not link:
            return
        del self._links[link.incarnation]
        metrics.open_links.dec()
        metrics.ended.inc()
        _log.info("link ended", peer=link.incarnation.hex(), reason=reason)
        for changed in self._changed:
            changed(link.incarnation, False)

    # Dialling.

    def _stop_dialing(self, incarnations: Collection[bytes]) -> None:
        for incarnation in list(incarnations):
            self._dialing.pop(incarnation).cancel()

    async def _keep_dialing(self, peer: bytes, own: Party) -> None:
        if peer < own.claim:
            await asyncio.sleep(YIELD_S)
        backoff = Backoff(FIRST_RETRY_S, MOST_RETRY_S)
        await keep_dialling(lambda: self._linked(peer, own), backoff, stable_s=STABLE_S)

    async def _linked(self, peer: bytes, own: Party) -> LinkConnection | None:
        """Return the connection of the link to that peer, whichever side dialled; None: it
        was tried.
        """
        if peer not in self._links:
            await self._dial(peer, own)
        link = self._links.get(peer)
        return link.connection if link is not None else None

    async def _dial(self, peer: bytes, own: Party) -> None:
        def expect(claim: bytes) -> str | None:
            return None if claim == peer else "another forwarder answers at this address"

        try:
            await dial(
                self._live[peer],
                PROTOCOL,
                own,
                lambda opened, _, __: self._open(opened, peer, own.claim, dialled=True),
                expect=expect,
                make=self._connection,
                tls=self._tls,
            )
        except (OSError, TimeoutError) as error:
            _log.debug("peer not reached", peer=peer.hex(), reason=str(error))

    async def _tick(self) -> None:
        while True:
            slept_s = time.monotonic()
            await asyncio.sleep(PING_EVERY_S)
            now_s = time.monotonic()
            if self._pulse.paused():
                for connection in list(self._connections):
                    connection.abort("this process stood still")
            self._pulse.beat_s = now_s
            own_pause_s = max(0.0, now_s - slept_s - 2 * PING_EVERY_S)
            asked = served = 0
            for link in list(self._links.values()):
                link.tick(now_s, own_pause_s)
                ours, theirs = link.waiting
                asked, served = asked + ours, served + theirs
            metrics.running.labels("asked").set(asked)
            metrics.running.labels("served").set(served)
