"""Listens for peers: in plain text, with TLS, or for both on one port.

The first three bytes of a connection tell the two apart; they are peeked at and stay in the socket.
TLS begins with 0x16 0x03 and the second half of its version, which is 1 or more. Our protocols
begin with `MAGIC`. In the form of release 0.2.0 they begin with a length of four bytes, the lowest
first, and no first frame is so long that the third byte is not 0. So no connection can be taken for
the other kind.

A connection that has not sent these bytes within `FIRST_BYTES_S` is closed. While `MAX_UNDECIDED`
connections have not, no other is accepted; the kernel holds up to `BACKLOG` more.

A handshake of TLS costs the event loop a millisecond, also of a stranger. So an address (of IPv6: a
/64) may begin `HANDSHAKES_AT_ONCE`, and `HANDSHAKES_PER_S` in the long run; a connection beyond is
closed.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable, Sequence

import structlog

from peering import metrics
from peering.addresses import of_address
from peering.tls import PeerTls

FIRST_BYTES_S = 2.0
TLS_HANDSHAKE_S = 2.0
BACKLOG = 512
MAX_UNDECIDED = 1024
HANDSHAKES_AT_ONCE = 200
HANDSHAKES_PER_S = 50.0
MAX_ADDRESSES = 10_000
"""Addresses whose handshakes are counted; that of the oldest handshake is forgotten first."""
PAUSE_S = 0.5
"""Seconds without accepting, after no descriptor was left for a connection."""
TOLD_EVERY_S = 10.0
"""Seconds between log lines about refusals; a metric counts each of them."""
_LOOK_AGAIN_S = 0.01
_TLS_BEGINS = 0x16
_NO_ROOM = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
_log = structlog.get_logger("packetboat.peering")
Factory = Callable[[], asyncio.BaseProtocol]


class HandshakeRates:
    """The handshakes of TLS that each address may begin."""

    def __init__(self) -> None:
        self._left: dict[str, tuple[float, float]] = {}
        """Handshakes that an address has left, and the time for which that holds."""

    def take(self, address: str, now_s: float) -> bool:
        """Return whether an address may begin a handshake, and count it."""
        address = of_address(address)
        left, since_s = self._left.pop(address, (HANDSHAKES_AT_ONCE, now_s))
        left = min(HANDSHAKES_AT_ONCE, left + (now_s - since_s) * HANDSHAKES_PER_S)
        may = left >= 1
        if len(self._left) >= MAX_ADDRESSES:
            del self._left[next(iter(self._left))]
        self._left[address] = (left - may, now_s)
        return may


class PeerListener:
    """A listening socket from `start` to `close`, on one event loop; without TLS it is a plain
    server.
    """

    def __init__(self, factory: Factory, tls: PeerTls | None) -> None:
        self._factory = factory
        self._tls = tls
        self._plain: asyncio.Server | None = None
        self._sockets: list[socket.socket] = []
        self._accepting = False
        self._undecided: set[asyncio.Task[None]] = set()
        self._rates = HandshakeRates()
        self._told_s = -TOLD_EVERY_S

    async def start(self, host: str, port: int) -> int:
        """Listen, and return the port, which the kernel chooses for port 0; raises OSError."""
        loop = asyncio.get_running_loop()
        if self._tls is None:
            self._plain = await loop.create_server(
                self._factory, host, port, reuse_address=True, backlog=BACKLOG
            )
            return _port(self._plain.sockets)
        self._sockets = await _bound(host, port)
        self._accept_on()
        return _port(self._sockets)

    def close(self) -> None:
        """Stop accepting; accepted connections stay open, and those that have sent nothing are
        closed.
        """
        if self._plain is not None:
            self._plain.close()
        self._accept_off()
        for listening in self._sockets:
            listening.close()
        self._sockets = []
        for task in self._undecided:
            task.cancel()

    def _accept_on(self) -> None:
        loop = asyncio.get_running_loop()
        if not self._accepting:
            self._accepting = True
            for listening in self._sockets:
                loop.add_reader(listening, self._accept, listening)

    def _accept_off(self) -> None:
        if self._accepting:
            self._accepting = False
            for listening in self._sockets:
                asyncio.get_running_loop().remove_reader(listening)

    def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        while self._accepting:
            try:
                accepted, address = listening.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                if error.errno not in _NO_ROOM:
                    raise
                _log.error("no connection can be accepted", reason=str(error))
                self._accept_off()
                loop.call_later(PAUSE_S, self._accept_on)
                return
            accepted.setblocking(False)
            task = loop.create_task(self._admit(accepted, address[0]))
            self._undecided.add(task)
            task.add_done_callback(self._decided)
            if len(self._undecided) >= MAX_UNDECIDED:
                self._accept_off()

    def _decided(self, task: asyncio.Task[None]) -> None:
        self._undecided.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            # This is a defect, but one of a single connection: the process goes on.
            _log.error("a connection could not be taken in", exc_info=error)
        if len(self._undecided) < MAX_UNDECIDED:
            self._accept_on()

    async def _admit(self, accepted: socket.socket, address: str) -> None:
        assert self._tls is not None
        context = None
        try:
            async with asyncio.timeout(FIRST_BYTES_S):
                if await _speaks_tls(accepted):
                    context = self._tls.listening()
        except (OSError, TimeoutError):
            accepted.close()  # the peer went away or sent nothing
            return
        except BaseException:
            accepted.close()
            raise
        if context is None and not self._tls.mode.listens_plain:
            # The log line precedes the close: an operator who sees the refusal can find its reason.
            self._refused(address, "plain", "it speaks plain text, and TLS is required")
            accepted.close()
            return
        if context is not None and not self._rates.take(address, asyncio.get_running_loop().time()):
            self._refused(address, "rate", "its address begins too many handshakes of TLS")
            accepted.close()
            return
        # From here on the transport owns the socket, even if this fails.
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                self._factory,
                accepted,
                ssl=context,
                ssl_handshake_timeout=TLS_HANDSHAKE_S if context is not None else None,
            )
        except ssl.SSLError as error:
            self._refused(address, "certificate", str(error))
        except OSError as error:
            _log.debug("a peer went away", address=address, reason=str(error))

    def _refused(self, address: str, why: str, reason: str) -> None:
        metrics.refused.labels(why).inc()
        now_s = asyncio.get_running_loop().time()
        if now_s - self._told_s >= TOLD_EVERY_S:
            self._told_s = now_s
            _log.warning("a peer is refused", address=address, reason=reason)


def _port(listening: Sequence[socket.socket]) -> int:
    port: int = listening[0].getsockname()[1]
    return port


async def _bound(host: str, port: int) -> list[socket.socket]:
    """Return sockets that listen at every address of the host; raises OSError."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    listening: list[socket.socket] = []
    try:
        for family, kind, protocol, _, address in dict.fromkeys(found):
            one = socket.socket(family, kind, protocol)
            listening.append(one)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            one.bind(address)
            one.listen(BACKLOG)
            one.setblocking(False)
    except BaseException:
        for one in listening:
            one.close()
        raise
    return listening


async def _speaks_tls(accepted: socket.socket) -> bool:
    """Return whether the first bytes are TLS; raises OSError if the peer closes before them."""
    while True:
        await _readable(accepted)
        first = accepted.recv(3, socket.MSG_PEEK)
        if not first:
            raise ConnectionResetError("closed without a word")
        if first[0] != _TLS_BEGINS:
            return False
        if len(first) == 3:
            return first[2] != 0
        # peeked bytes keep the socket readable, so there is no event to await
        await asyncio.sleep(_LOOK_AGAIN_S)


async def _readable(accepted: socket.socket) -> None:
    loop = asyncio.get_running_loop()
    ready = loop.create_future()

    def on_ready() -> None:
        if not ready.done():
            ready.set_result(None)

    loop.add_reader(accepted, on_ready)
    try:
        await ready
    finally:
        loop.remove_reader(accepted)
