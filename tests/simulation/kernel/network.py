"""TCP between simulated machines: streams in order, cut into pieces anywhere, late, slow, lost.

Bytes that a process wrote are on their way even when it dies; bytes in its own buffer are not. A
link that is blocked holds the bytes sent over it, one way or both, and delivers them late when it
is open again; a sender gives up after `GIVE_UP_US`, and its peer does not hear of that. A machine
without power answers nothing; once it is back it resets connections that it does not know.
"""

from __future__ import annotations

import asyncio
import contextvars
import errno
import socket
from collections import deque
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from tests.simulation.kernel.world import SECOND, Process, World

if TYPE_CHECKING:
    from tests.simulation.kernel.loop import SimLoop

Address = tuple[str, int]
Connect = Callable[
    [Callable[[], asyncio.BaseProtocol], Process],
    Awaitable[tuple[asyncio.Transport, asyncio.BaseProtocol]],
]

WINDOW_BYTES = 256 * 1024
"""The limit of bytes under way or unread in one direction of a connection."""
READ_BYTES = 256 * 1024
GIVE_UP_US = 10 * SECOND
UNREACHABLE_US = 3 * SECOND
RETRANSMIT_US = 200_000


class Network:
    """All links and listeners of a world."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.listeners: dict[Address, Listener] = {}
        self.connections: dict[Transport, None] = {}
        """One end of each."""
        self.latency_us = 300
        """The limit of the latency of a link that is not slow."""
        self.slow: dict[tuple[str, str], int] = {}
        """The limit of the time added to each piece, by (from, to)."""
        self.late: dict[tuple[str, str], tuple[float, int]] = {}
        """The chance of a piece to be late, and the limit of its delay, by (from, to)."""
        self.slow_processes: dict[str, int] = {}
        """By name: so much is added to what each piece takes that it sends elsewhere."""
        self.cut = 0.05
        """The chance that a piece arrives in two."""
        self.bytes_per_us = 100
        self.outside: dict[Address, Connect] = {}
        """Services that are no simulated process, by the address that leads to them."""
        self._blocked: set[tuple[str, str]] = set()
        self._last_port = 40_000

    # -- faults --------------------------------------------------------------------------------

    def block(self, source: str, target: str) -> None:
        """Nothing passes that way from now on."""
        self._blocked.add((source, target))

    def heal(self, source: str | None = None, target: str | None = None) -> None:
        """Everything passes that way; without names, everywhere."""
        self._blocked = {
            (a, b)
            for a, b in self._blocked
            if (source is not None and a != source) or (target is not None and b != target)
        }
        for end in list(self.connections):
            for each in (end, end.peer):
                if each is not None and each.stalled:
                    each.unstall()

    def passes(self, source: str, target: str) -> bool:
        return (source, target) not in self._blocked or source == target

    def reset(self, end: Transport) -> None:
        """Reset the connection; both ends find it broken, each in its own time."""
        peer = end.peer
        for each in (end, peer):
            if each is not None:
                error = ConnectionResetError(errno.ECONNRESET, "reset")
                self.world.after(self.world.below(50_000), each.broken, error)

    def reset_between(self, one: str, other: str) -> None:
        """Reset every connection of these two hosts."""
        for end in list(self.connections):
            if {end._here, end._there} == {one, other}:
                self.reset(end)

    # -- calls of loops -------------------------------------------------------------------------

    def listen(
        self, loop: SimLoop, factory: Callable[[], asyncio.BaseProtocol], address: Address
    ) -> Listener:
        host, port = loop.process.machine.host, address[1] or self._next_port()
        if (host, port) in self.listeners:
            raise OSError(errno.EADDRINUSE, "address in use", address)
        listener = Listener(self, loop, factory, (host, port))
        self.listeners[host, port] = listener
        return listener

    async def connect(
        self, loop: SimLoop, factory: Callable[[], asyncio.BaseProtocol], address: Address
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        process = loop.process
        if address in self.outside:
            return await self.outside[address](factory, process)
        host = process.machine.host
        here: Address = (host, self._next_port())
        target = host if address[0] in ("127.0.0.1", "localhost", "") else address[0]
        there: Address = (target, address[1])
        arrived: asyncio.Future[Transport] = loop.create_future()
        protocol: asyncio.BaseProtocol | None = None

        def knock() -> None:
            """The first packet is there."""
            machine = self.world.machines.get(target)
            if arrived.done() or process.dead:
                return
            if machine is None or not machine.powered or not self.passes(host, target):
                self.world.after(UNREACHABLE_US, answer, OSError(errno.EHOSTUNREACH, "no route"))
                return
            listener = self.listeners.get(there)
            if listener is None:
                refused = ConnectionRefusedError(errno.ECONNREFUSED, "refused", there)
                self.world.after(self.delay_us(target, host), answer, refused)
                return
            self.world.after(self.delay_us(target, host), answer, listener)

        def answer(said: OSError | Listener) -> None:
            if arrived.done() or process.dead:
                return
            if isinstance(said, Listener):
                if said.closed:
                    said = ConnectionRefusedError(errno.ECONNREFUSED, "refused", there)
                elif not self.passes(target, host):
                    self.world.after(RETRANSMIT_US, answer, said)
                    return
            if isinstance(said, OSError):
                arrived.set_exception(said)
            else:
                arrived.set_result(self._pair(loop, said, here, there))

        self.world.after(self.delay_us(host, target), knock)
        transport: Transport | None = None
        try:
            transport = await arrived
            protocol = factory()
            transport.begin(protocol)
        except BaseException:
            if arrived.done() and not arrived.cancelled() and arrived.exception() is None:
                arrived.result().abort()
            raise
        await asyncio.sleep(0)  # connection_made has run
        return transport, protocol

    def _pair(self, loop: SimLoop, listener: Listener, here: Address, there: Address) -> Transport:
        near = Transport(self, loop, here, there)
        far = Transport(self, listener.loop, there, here)
        near.peer, far.peer = far, near
        self.connections[near] = None
        far.begin_soon(listener)
        return near

    def delay_us(self, source: str, target: str, size: int = 0) -> int:
        if source == target:
            return 5 + self.world.below(30)
        more = self.slow.get((source, target), 0)
        chance, late_us = self.late.get((source, target), (0.0, 0))
        if chance and self.world.chance(chance):
            more = late_us
        return (
            20
            + self.world.below(self.latency_us)
            + (self.world.below(more) if more else 0)
            + size // self.bytes_per_us
        )

    def _next_port(self) -> int:
        self._last_port += 1
        return self._last_port


def of(world: World) -> Network:
    """Return the network of a world."""
    if world.network is None:
        world.network = Network(world)
    return world.network


class _Socket:
    """The part of a listener's socket that callers ask for."""

    family = socket.AF_INET

    def __init__(self, address: Address) -> None:
        self._address = address

    def getsockname(self) -> Address:
        return self._address


class Listener(asyncio.AbstractServer):
    """One listening socket."""

    def __init__(
        self,
        network: Network,
        loop: SimLoop,
        factory: Callable[[], asyncio.BaseProtocol],
        address: Address,
    ) -> None:
        self.loop = loop
        self.factory = factory
        self.address = address
        self.sockets = (_Socket(address),)
        self.closed = False
        self._network = network
        loop.process.sockets[self] = None

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.loop.process.sockets.pop(self, None)
            del self._network.listeners[self.address]

    def process_ended(self, silently: bool) -> None:
        self.close()

    def is_serving(self) -> bool:
        return not self.closed

    def get_loop(self) -> SimLoop:
        return self.loop

    async def start_serving(self) -> None: ...

    async def wait_closed(self) -> None: ...


_END = b""
"""In a stream: the sender has closed it."""


class Transport(asyncio.Transport):
    """One end of a connection: what its process wrote, what is under way from it, and what has
    arrived for it."""

    def __init__(self, network: Network, loop: SimLoop, here: Address, there: Address) -> None:
        super().__init__({"sockname": here, "peername": there, "socket": None})
        self.peer: Transport | None = None
        self.stalled = False
        self._network = network
        self._world = network.world
        self._loop = loop
        self._context = contextvars.copy_context()
        self._here, self._there = here[0], there[0]
        self._protocol: asyncio.BaseProtocol | None = None
        self._buffered = False
        self._unsent = bytearray()
        self._under_way: deque[bytes] = deque()
        """Sent and not arrived, in order; the first of them may be held up by a blocked link."""
        self._under_way_bytes = 0
        self._last_arrival_us = 0
        self._stall_number = 0
        self._arrived = bytearray()
        self._arrived_end = False
        self._reading = True
        self._read_scheduled = False
        self._closing = False
        self._lost = False
        self._made = False
        self._end_sent = False
        self._high, self._low = 64 * 1024, 16 * 1024
        self._writing_paused = False
        loop.process.sockets[self] = None

    # -- beginning -----------------------------------------------------------------------------

    def begin(self, protocol: asyncio.BaseProtocol) -> None:
        """Begin; called within the loop of this end."""
        self._set(protocol)
        self._loop.call_soon(self._make)

    def begin_soon(self, listener: Listener) -> None:
        """Begin an accepted connection: its protocol is made in a turn of its loop."""

        def accept() -> None:
            self._set(listener.factory())
            self._make()

        self._loop.call_soon(accept, context=self._context)

    def _make(self) -> None:
        if not self._lost:
            assert self._protocol is not None
            self._made = True
            self._protocol.connection_made(self)
            self._read_soon()

    def _set(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol
        self._buffered = isinstance(protocol, asyncio.BufferedProtocol)

    # -- asyncio.Transport ---------------------------------------------------------------------

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._set(protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        assert self._protocol is not None
        return self._protocol

    def is_closing(self) -> bool:
        return self._closing

    def is_reading(self) -> bool:
        return self._reading and not self._closing

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        if not self._closing and not self._reading:
            self._reading = True
            self._read_soon()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = high if high is not None else 64 * 1024
        self._low = low if low is not None else self._high // 4

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def get_write_buffer_size(self) -> int:
        return len(self._unsent)

    def can_write_eof(self) -> bool:
        return True

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._lost or self._closing or self._end_sent or not data:
            return
        self._unsent += data
        self._send()
        self._pace()

    def writelines(self, list_of_data: Any) -> None:
        self.write(b"".join(list_of_data))

    def write_eof(self) -> None:
        self._end_sent = True
        if not self._unsent:
            self._depart(_END)

    def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        self._arrived.clear()
        if not self._unsent:
            self._loop.call_soon(self._lose, None)

    def abort(self) -> None:
        self._force(None)

    def _force(self, error: Exception | None) -> None:
        if self._lost or (self._closing and error is None and not self._unsent):
            return
        self._closing = True
        self._unsent.clear()
        self._loop.call_soon(self._lose, error)

    def _lose(self, error: Exception | None) -> None:
        """Lose the connection: the last call of the protocol."""
        if self._lost:
            return
        self._lost = True
        self._closing = True
        self._drop()
        if not self._end_sent:
            self._end_sent = True
            self._depart(_END)
        if self._made and self._protocol is not None:
            self._protocol.connection_lost(error)

    def _drop(self) -> None:
        self._loop.process.sockets.pop(self, None)
        connections = self._network.connections
        peer = self.peer
        if peer is not None and peer._lost:
            connections.pop(self, None)
            connections.pop(peer, None)

    # -- bytes that leave ------------------------------------------------------------------------

    def _send(self) -> None:
        """Hand what is unsent to the network, as far as the window is open."""
        peer = self.peer
        if peer is None:
            return
        room = WINDOW_BYTES - self._under_way_bytes - len(peer._arrived)
        while self._unsent and room > 0:
            size = min(len(self._unsent), room)
            if size > 1 and self._world.chance(self._network.cut):
                size = 1 + self._world.below(size)
            piece = bytes(self._unsent[:size])
            del self._unsent[:size]
            room -= size
            self._depart(piece)
        if not self._unsent:
            if self._closing and not self._lost:
                self._loop.call_soon(self._lose, None)
            elif self._end_sent and not self._lost:
                self._depart(_END)

    def _depart(self, piece: bytes) -> None:
        if self.peer is None:
            return
        self._under_way.append(piece)
        self._under_way_bytes += len(piece)
        if not self.stalled:
            self._schedule_arrival(len(piece))

    def _schedule_arrival(self, size: int) -> None:
        delay_us = self._network.delay_us(self._here, self._there, size)
        slow_us = self._network.slow_processes.get(self._loop.process.name)
        if slow_us and self._here != self._there:
            delay_us += slow_us
        at_us = max(self._world.now_us + delay_us, self._last_arrival_us)
        self._last_arrival_us = at_us
        self._world.after(at_us - self._world.now_us, self._arrive)

    def _arrive(self) -> None:
        """The first of what is under way is at the other machine."""
        if self.stalled or not self._under_way:
            return
        peer = self.peer
        assert peer is not None
        machine = self._world.machines[self._there]
        if not self._network.passes(self._here, self._there) or not machine.powered:
            self.stalled = True
            self._stall_number += 1
            self._world.after(GIVE_UP_US, self._give_up, self._stall_number)
            return
        piece = self._under_way.popleft()
        self._under_way_bytes -= len(piece)
        if peer._lost or peer._loop.process.dead:
            if not self._lost:
                # The other machine does not know the connection (any more).
                delay_us = self._network.delay_us(self._there, self._here)
                self._world.after(
                    delay_us, self.broken, ConnectionResetError(errno.ECONNRESET, "reset")
                )
            return
        if piece:
            peer._arrived += piece
        else:
            peer._arrived_end = True
        peer._read_soon()

    def unstall(self) -> None:
        """The link passes again: what was held up arrives, a retransmission later."""
        if not self._network.passes(self._here, self._there):
            return
        if not self._world.machines[self._there].powered:
            return
        self.stalled = False
        self._last_arrival_us = self._world.now_us + self._world.below(RETRANSMIT_US)
        for piece in self._under_way:
            self._schedule_arrival(len(piece))

    def _give_up(self, number: int) -> None:
        if self.stalled and number == self._stall_number:
            self.unstall()
            if self.stalled:
                self._under_way.clear()
                self._under_way_bytes = 0
                self.broken(TimeoutError(errno.ETIMEDOUT, "not acknowledged"))

    # -- bytes that arrive -----------------------------------------------------------------------

    def _read_soon(self) -> None:
        if (
            self._made
            and self._reading
            and not self._read_scheduled
            and not self._closing
            and (self._arrived or self._arrived_end)
        ):
            self._read_scheduled = True
            self._loop.call_soon(self._read, context=self._context)

    def _read(self) -> None:
        self._read_scheduled = False
        if not self._reading or self._closing:
            return
        try:
            if self._arrived:
                self._hand_over()
            elif self._arrived_end:
                self._arrived_end = False
                if not self.get_protocol().eof_received():  # type: ignore[attr-defined]
                    self.close()
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            if self._loop.process.dead:
                raise
            self._loop.call_exception_handler(
                {
                    "message": "Fatal error: a protocol did not take what it was given.",
                    "exception": error,
                    "transport": self,
                    "protocol": self._protocol,
                }
            )
            self._force(error if isinstance(error, Exception) else None)
            return
        if self.peer is not None and self.peer._unsent:
            self.peer._send()
            self.peer._pace()
        self._read_soon()

    def _hand_over(self) -> None:
        arrived = self._arrived
        if self._buffered:
            protocol = self._protocol
            assert isinstance(protocol, asyncio.BufferedProtocol)
            buffer = memoryview(protocol.get_buffer(-1))
            size = min(len(buffer), len(arrived))
            if size > 1 and self._world.chance(self._network.cut):
                size = 1 + self._world.below(size)
            buffer[:size] = arrived[:size]
            del arrived[:size]
            protocol.buffer_updated(size)
        else:
            piece = bytes(arrived[:READ_BYTES])
            del arrived[:READ_BYTES]
            self.get_protocol().data_received(piece)  # type: ignore[attr-defined]

    # -- ends that nobody asked for ------------------------------------------------------------

    def broken(self, error: OSError) -> None:
        """The kernel says so."""
        if self._lost or self._loop.process.dead:
            return
        self._arrived.clear()
        self._force(error)

    def process_ended(self, silently: bool) -> None:
        """Close the connection as the kernel of an ended process; `silently`: that has no
        power either.
        """
        self._lost = self._closing = True
        self._unsent.clear()
        if silently:
            self._under_way.clear()
            self._under_way_bytes = 0
        elif not self._end_sent:
            self._end_sent = True
            if self._arrived and self._world.chance(0.5) and self.peer is not None:
                self.peer.broken(ConnectionResetError(errno.ECONNRESET, "reset"))
            else:
                self._depart(_END)
        self._drop()

    def _pace(self) -> None:
        """Tell the protocol whether it writes more than is taken."""
        size = len(self._unsent)
        if not self._writing_paused and size > self._high:
            self._writing_paused = True
            self.get_protocol().pause_writing()
        elif self._writing_paused and size <= self._low:
            self._writing_paused = False
            if not self._lost:
                self._loop.call_soon(self.get_protocol().resume_writing)
