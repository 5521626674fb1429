"""The network between simulated processes and a real Postgres: which statement runs when.

A client's transport is simulated. A *unit* is everything that the client sends before it waits for
an answer. It arrives at Postgres at a drawn moment, runs there in no virtual time, and its answer
leaves at another drawn moment. One statement runs at a time; virtual time stands until it is
answered or is known to wait for a lock. The simulator looks at a waiting statement again after each
other statement, so that it goes on, in virtual time, exactly when the lock is free. Time-outs are
counted in virtual time, too.

Notifications reach a listening session as Postgres sends them: after a commit the simulator asks
its own listening session for the notifications, and reads as many from each other listener.

Faults: an answer is lost with its connection (of a commit, say, which is then unknown); a unit is
late, also when its client is gone; the server stalls; `fail_over` puts another server in its place.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import hashlib
import os
import re
import select
import signal
import socket
import struct
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

from tests.simulation.delivery.postgres_server import SimulatedServer
from tests.simulation.delivery.postgres_wire import (
    Answer,
    ClientStream,
    Kind,
    ServerStream,
    Unit,
)
from tests.simulation.kernel.world import SECOND, Process, World

PATIENCE_S = 10.0
"""Real seconds after which an answer that is neither there nor waiting for a lock is a failure."""
_LOOK_S = 0.02
_BLOCKED = "SELECT pid, pg_blocking_pids(pid) FROM unnest(ARRAY[{}]) AS pid"
_ALIVE = "SELECT pid FROM pg_stat_activity"
_PID_ARGUMENT = re.compile(r"\bpid = \$\d")


class PostgresStuck(Exception):
    """Postgres did what the simulator can't follow: a defect of the simulator."""


@dataclass(slots=True)
class PostgresFaults:
    """The chance of each fault, and the delays of units and answers."""

    fast_s: tuple[float, float] = (0.0001, 0.002)
    slow_s: tuple[float, float] = (0.01, 0.4)
    slow: float = 0.02
    """Chance that a unit or an answer is slow."""
    lost_answers: float = 0.0
    """Chance that the answer of what may have committed is lost with its connection."""
    lost_requests: float = 0.0
    """Chance that the connection breaks before the unit arrives."""
    counts: Counter[str] = field(default_factory=Counter)


class Trace:
    """The events at Postgres, in order; equal for equal seeds."""

    def __init__(self, keep: bool = False) -> None:
        self._digest = hashlib.sha256()
        self.events = 0
        self.kept: list[str] | None = [] if keep else None

    def add(self, now_us: int, session: int, what: bytes, text: str = "") -> None:
        self.events += 1
        line = f"{now_us} {session} ".encode() + what
        self._digest.update(line)
        if self.kept is not None:
            self.kept.append(f"{now_us} {session} {text} {what!r}")

    def digest(self) -> str:
        return self._digest.hexdigest()[:16]


class PostgresNetwork:
    """The network of one seed. `connect` is `loop.create_connection` for Postgres."""

    def __init__(
        self,
        world: World,
        server: SimulatedServer,
        draw: Random,
        faults: PostgresFaults,
        trace: Trace,
    ) -> None:
        self._world = world
        self.server: SimulatedServer | None = server
        self._draw = draw
        self.faults = faults
        self.trace = trace
        self._sessions: list[_Session] = []
        self._numbers = 0
        self._stalled_until = 0.0
        self._pids: dict[int, int] = {}
        """The number of each backend's session, which is the same in each run, by process id."""
        self._take_pids: set[bytes] = set()
        """The names of statements that have the id of a backend as an argument."""
        self._channels: set[str] = set()
        self._blocked: list[_Session] = []
        """Sessions that wait for a lock. Their backends are stopped."""

    async def connect(
        self, factory: Callable[[], asyncio.BaseProtocol], process: Process
    ) -> tuple[asyncio.Transport, asyncio.BaseProtocol]:
        """Open a connection of the process. Raise ConnectionRefusedError while Postgres is down."""
        await asyncio.sleep(self._delay())
        if self.server is None:
            self.faults.counts["refused connections"] += 1
            raise ConnectionRefusedError("Postgres is down")
        self._numbers += 1
        session = _Session(self, self._numbers, factory(), process)
        self._sessions.append(session)
        session.protocol.connection_made(session)
        return session, session.protocol

    def stall(self, seconds: float) -> None:
        """Run no unit that arrives within the next `seconds`."""
        self.faults.counts["stalls"] += 1
        self._stalled_until = max(self._stalled_until, self._now_s() + seconds)

    def cut(self, chance: float) -> None:
        """Cut each connection with a probability of `chance`."""
        for session in list(self._sessions):
            if session.started and self._draw.random() < chance:
                self.faults.counts["cut connections"] += 1
                session.lose(ConnectionResetError("cut"))

    def fail_over(self, server: SimulatedServer | None) -> None:
        """Cut every connection. From now on `server` is Postgres; with None there is none."""
        self.faults.counts["failovers"] += server is not None
        sessions, self._sessions = self._sessions, []
        self._let_end()
        for session in sessions:
            session.shut()
            session.lose(ConnectionResetError("Postgres is gone"))
        if self.server is not None:
            self.server.stop()
        self.server = server
        self._channels = set()
        self._pids = {}

    def close(self) -> None:
        self._let_end()
        for session in self._sessions:
            session.shut()
        self._sessions = []
        if self.server is not None:
            self.server.stop()
            self.server = None

    # Of sessions.

    def send(self, session: _Session, unit: Unit) -> None:
        """Send a unit of the session on its way."""
        if unit.kind is Kind.REQUEST and self._draw.random() < self.faults.lost_requests:
            self.faults.counts["lost requests"] += 1
            session.lose(ConnectionResetError("lost on the way"))
            return
        session.arrives_s = max(session.arrives_s, self._now_s() + self._delay())
        self._at(session.arrives_s, partial(self._arrive, session, unit))

    def depart(self, session: _Session) -> None:
        """The client closed it: Postgres learns after all that was sent."""
        session.arrives_s = max(session.arrives_s, self._now_s() + self._delay())
        self._at(session.arrives_s, partial(self._ended, session))

    def _now_s(self) -> float:
        return self._world.now_us / SECOND

    def _at(self, when_s: float, callback: Callable[[], None]) -> None:
        """Call back in the world: the call belongs to no process, and outlives each."""
        self._world.after(max(0, round((when_s - self._now_s()) * SECOND)), callback)

    def _delay(self) -> float:
        faults = self.faults
        if self._draw.random() < faults.slow:
            faults.counts["slow units"] += 1
            return self._draw.uniform(*faults.slow_s)
        return self._draw.uniform(*faults.fast_s)

    def _arrive(self, session: _Session, unit: Unit) -> None:
        if session.is_shut or self.server is None:
            return
        if (left := self._stalled_until - self._now_s()) > 0:
            session.arrives_s = max(
                session.arrives_s, self._stalled_until + self._draw.uniform(0, 0.01)
            )
            if left > 0.001:
                self._at(session.arrives_s, partial(self._arrive, session, unit))
                return
        if session.running is not None or session.waiting:
            session.waiting.append(unit)
            return
        self._begin(session, unit)
        self._settle()

    def _begin(self, session: _Session, unit: Unit) -> None:
        assert self.server is not None
        self.server.world.at(self._world.now_us)
        if session.gone:
            self.faults.counts["late units"] += 1
        if unit.kind is Kind.CANCEL:
            self._asked_to_cancel(unit)
            session.lose(None)
        elif unit.kind is Kind.TERMINATE:
            self._ended(session)
            self._at(self._now_s() + self._delay(), partial(session.lose, None))
        else:
            if any("pg_terminate_backend" in text for text in unit.texts):
                self._let_end()
            session.begin(unit, self.server)

    def _let_end(self) -> None:
        """Let stopped backends run, so that a termination reaches them."""
        for session in self._blocked:
            os.kill(session.stream.pid, signal.SIGCONT)
        self._blocked.clear()

    def _asked_to_cancel(self, unit: Unit) -> None:
        pid = struct.unpack_from("!i", unit.raw, 8)[0]
        for session in self._sessions:
            if session.stream.pid == pid and session.running is not None:
                self.faults.counts["cancelled statements"] += 1
                self._cancel(session)

    def _ended(self, session: _Session) -> None:
        if session.is_shut:
            return
        if session.running is not None or session.waiting:
            session.ends = True
            return
        self._close(session)
        self._settle()

    def _close(self, session: _Session) -> None:
        """Postgres is rid of it, and of its locks, when this returns."""
        session.shut()
        if session in self._sessions:
            self._sessions.remove(session)
        if session.stream.pid and self.server is not None:
            self._until_gone(session.stream.pid)

    def _until_gone(self, pid: int) -> None:
        deadline_s = time.perf_counter() + PATIENCE_S
        while (str(pid),) in self._control(_ALIVE):
            if time.perf_counter() > deadline_s:
                raise PostgresStuck(f"backend {pid} does not end")

    def _control(self, text: str) -> list[tuple[str | None, ...]]:
        assert self.server is not None
        return self.server.control.query(text)

    def _settle(self, cancelled: _Session | None = None) -> None:
        """Wait until each running statement is answered, or waits for a lock of one that does not.

        One at a time goes on, in the order in which they began to wait: several that wake up at
        once would race, and the processor would say who is first.
        """
        committed = False
        while (session := cancelled or self._free()) is not None:
            answer = self._run(session, answers=session is cancelled)
            cancelled = None
            if answer is not None:
                committed = committed or answer.status == "I"
                self._finish(session, answer)
        if committed and self._channels:
            self._hear()

    def _free(self) -> _Session | None:
        """The next that has something to do: it was sent a statement, or its lock is free."""
        for session in self._sessions:
            if session.running is not None and session not in self._blocked:
                return session
        if self._blocked:
            by = self._blockers(self._blocked)
            for session in self._blocked:
                if not by[session]:
                    return session
            self._break_circle(by)
        return None

    def _run(self, session: _Session, *, answers: bool) -> Answer | None:
        """Let one backend work until it has answered, or (None) waits for a lock."""
        if session in self._blocked:
            self._blocked.remove(session)
            os.kill(session.stream.pid, signal.SIGCONT)
        deadline_s = time.perf_counter() + PATIENCE_S
        while time.perf_counter() < deadline_s:
            if _readable(session, _LOOK_S):
                answer = session.read()
                if answer is not None:
                    return answer
            elif not answers and session.stream.pid and self._blockers([session])[session]:
                self._wait(session)
                return None
        raise PostgresStuck(f"no answer to {session.running}")

    def _wait(self, session: _Session) -> None:
        # It sleeps, holds nothing but locks, and looks for no deadlock: it can be stopped.
        os.kill(session.stream.pid, signal.SIGSTOP)
        self._blocked.append(session)
        if session.timed is not session.running:
            session.timed = session.running
            self.faults.counts["statements that waited for a lock"] += 1
            self._arm_timeout(session)

    def _blockers(self, sessions: list[_Session]) -> dict[_Session, set[int]]:
        text = ",".join(str(session.stream.pid) for session in sessions)
        found = {int(pid or 0): _pids(by) for pid, by in self._control(_BLOCKED.format(text))}
        return {session: found[session.stream.pid] for session in sessions}

    def _break_circle(self, by: dict[_Session, set[int]]) -> None:
        """Postgres would end one of those that wait for each other, after a second."""
        blocked = {session.stream.pid: pids for session, pids in by.items()}
        for session in reversed(self._blocked):
            if _waits_for_itself(session.stream.pid, blocked):
                self.faults.counts["deadlocks"] += 1
                self._cancel(session)
                return

    def _cancel(self, session: _Session) -> None:
        self._control(f"SELECT pg_cancel_backend({session.stream.pid})")
        self._settle(cancelled=session)

    def _arm_timeout(self, session: _Session) -> None:
        if not session.statement_s:
            return
        unit = session.running

        def over() -> None:
            if session.running is unit and not session.is_shut:
                self.faults.counts["statement time-outs"] += 1
                self._cancel(session)

        self._at(self._now_s() + session.statement_s, over)

    def _finish(self, session: _Session, answer: Answer) -> None:
        unit = session.running
        assert unit is not None
        assert self.server is not None
        session.running, session.status = None, answer.status
        if unit.kind is Kind.STARTUP:
            self._pids[session.stream.pid] = session.number
        now_us = self._world.now_us
        self.trace.add(now_us, session.number, self._told(unit) + answer.told, str(unit.texts))
        if answer.wrote:
            self.server.world.wrote(64 + len(unit.raw))
        if answer.error:
            self.faults.counts[f"error {answer.error}"] += 1
        self._note_listening(unit)
        session.note_listening(unit, answer)
        self._reply(session, unit, answer)
        if any("pg_terminate_backend" in text for text in unit.texts):
            self._bury()
        if session.waiting:
            self._begin(session, session.waiting.popleft())
        elif session.ends:
            self._close(session)
        elif answer.status in ("T", "E"):
            self._watch_idle(session)

    def _reply(self, session: _Session, unit: Unit, answer: Answer) -> None:
        if not answer.status:
            self._deliver(session, answer.raw, end=True)
            self._close(session)
            return
        may_have_committed = answer.wrote and answer.status == "I"
        if may_have_committed and self._draw.random() < self.faults.lost_answers:
            self.faults.counts["lost answers of commits"] += 1
            session.lose(ConnectionResetError("the answer was lost"))
            return
        self._deliver(session, answer.raw)

    def _deliver(self, session: _Session, raw: bytes, end: bool = False) -> None:
        if session.gone:
            return
        session.delivered_s = max(session.delivered_s, self._now_s() + self._delay())
        self._at(session.delivered_s, partial(session.deliver, raw, end))

    def _watch_idle(self, session: _Session) -> None:
        """End a transaction that its client forgot, as Postgres does."""
        seen = session.requests
        if not session.idle_s:
            return

        def over() -> None:
            if session.is_shut or session.requests != seen:
                return
            self.faults.counts["idle transactions ended"] += 1
            self._close(session)
            session.lose(ConnectionResetError("idle in transaction"))
            self._settle()

        self._at(self._now_s() + session.idle_s, over)

    def _bury(self) -> None:
        """End the sessions whose backends another session terminated."""
        alive = {pid for (pid,) in self._control(_ALIVE)}
        for session in list(self._sessions):
            pid = session.stream.pid
            if pid and session.running is None and str(pid) not in alive:
                self.faults.counts["terminated sessions"] += 1
                session.shut()
                self._sessions.remove(session)
                session.lose(ConnectionResetError("terminated"))

    def _note_listening(self, unit: Unit) -> None:
        for text in unit.texts:
            if text.startswith("LISTEN "):
                self._channels.add(text)
                self._control(text)

    def _hear(self) -> None:
        """Read the committed notifications from each session that listens for them."""
        assert self.server is not None
        self._control("SELECT 1")
        notified, self.server.control.notified = self.server.control.notified, []
        for channel, _ in notified:
            for session in self._sessions:
                session.expected += channel in session.channels
        for session in list(self._sessions):
            # Within a transaction it is sent none; they come with the answer that ends it.
            if session.status == "I" and session.expected > session.stream.heard:
                for raw in session.hear():
                    self._deliver(session, raw)

    def _told(self, unit: Unit) -> bytes:
        """Return the unit without ids of processes, which differ from run to run."""
        raw = unit.raw
        if raw[:1] == b"C":
            return b"close"  # the driver keeps what it closes in a set, in any order
        if unit.kind is Kind.STARTUP:
            return b"startup " + unit.parameters.get("application_name", "").encode()
        if self._takes_pid(unit):
            for pid, number in self._pids.items():
                raw = raw.replace(struct.pack("!ii", 4, pid), struct.pack("!ii", 4, -number))
        # The ORM keeps the columns that it asks back in a set.
        return re.sub(rb"RETURNING [^\0]*", b"RETURNING", raw)

    def _takes_pid(self, unit: Unit) -> bool:
        """Return whether the unit's statement has the id of a backend among its arguments. In other
        statements the same number is something else, such as the id of a type."""
        if unit.raw[:1] == b"P":
            name = unit.raw[5:].split(b"\0", 1)[0]
            if any(_PID_ARGUMENT.search(text) for text in unit.texts):
                self._take_pids.add(name)
        elif unit.raw[:1] == b"B":
            name = unit.raw[5:].split(b"\0", 2)[1]
        else:
            return False
        return name in self._take_pids


class _Session(asyncio.Transport):
    """One connection: a client's transport, and the socket of the backend that serves it."""

    def __init__(
        self,
        network: PostgresNetwork,
        number: int,
        protocol: asyncio.BaseProtocol,
        process: Process,
    ) -> None:
        super().__init__()
        self._network = network
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()
        self._client = ClientStream()
        self._socket: socket.socket | None = None
        self.number = number
        self.protocol: Any = protocol
        self._process = process
        process.sockets[self] = None
        self.stream = ServerStream()
        self.running: Unit | None = None
        self.status = ""
        """The transaction status of its last answer."""
        self.timed: Unit | None = None
        """The statement whose time-out is being waited for."""
        self.waiting: deque[Unit] = deque()
        self.ends = False
        """The session closes once its running unit is answered."""
        self.gone = False
        """The client has no use for answers."""
        self.is_shut = False
        self.started = False
        self.requests = 0
        self.statement_s = self.idle_s = 0.0
        self.arrives_s = self.delivered_s = 0.0
        self.channels: set[str] = set()
        self._prepared: set[str] = set()
        """Channels of statements that are prepared and not run."""
        self.expected = 0

    # As the client sees it.

    def write(self, data: Any) -> None:
        if self.gone:
            return
        for unit in self._client.feed(bytes(data)):
            self._network.send(self, unit)

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.write(b"".join(list_of_data))

    def close(self) -> None:
        if not self.gone:
            self._go()
            self._soon(None)

    abort = close

    def is_closing(self) -> bool:
        return self.gone

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return _NoSocket() if name == "socket" else default

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self.protocol  # type: ignore[no-any-return]

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Nothing is ever held back."""

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None:
        raise PostgresStuck("a client does not read")

    def resume_reading(self) -> None:
        """Do nothing: the transport always reads."""

    def receive(self, raw: bytes, end: bool) -> None:
        if self.gone:
            return
        self.protocol.data_received(raw)
        if end:
            self.lose(ConnectionResetError("Postgres closed it"))

    def lose(self, error: Exception | None) -> None:
        """Close the connection for the client; the session of Postgres ends later."""
        if not self.gone:
            self._go()
            self._soon(error)

    def process_ended(self, silently: bool) -> None:
        """Drop all answers; units that were sent still arrive."""
        if not self.gone:
            self._go()

    def _go(self) -> None:
        self.gone = True
        self._process.sockets.pop(self, None)
        if not self.is_shut:
            self._network.depart(self)

    def deliver(self, raw: bytes, end: bool) -> None:
        """Give the client an answer, on its loop."""
        if not self.gone:
            self._loop.call_soon(self.receive, raw, end, context=self._context)

    def _soon(self, error: Exception | None) -> None:
        self._loop.call_soon(self.protocol.connection_lost, error, context=self._context)

    # As Postgres sees it.

    def begin(self, unit: Unit, server: SimulatedServer) -> None:
        self.running, self.status = unit, ""
        self.requests += 1
        if unit.kind is Kind.STARTUP:
            self._socket = socket.create_connection(("127.0.0.1", server.port))
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self.started = True
            told = unit.parameters
            self.statement_s = int(told.get("statement_timeout", 0)) / 1000
            self.idle_s = int(told.get("idle_in_transaction_session_timeout", 0)) / 1000
        assert self._socket is not None
        with contextlib.suppress(OSError):  # it was ended: reading says so
            self._socket.sendall(unit.raw)

    def fileno(self) -> int:
        assert self._socket is not None
        return self._socket.fileno()

    def read(self) -> Answer | None:
        """Return the answer that is there to read, if one is."""
        assert self._socket is not None
        try:
            data = self._socket.recv(1 << 20)
        except ConnectionResetError:
            data = b""
        if not data:
            return self.stream.closed()
        return self.stream.feed(data, self.running)

    def hear(self) -> list[bytes]:
        """The notifications that Postgres is known to have for it."""
        deadline_s = time.perf_counter() + PATIENCE_S
        while self.expected > self.stream.heard:
            if time.perf_counter() > deadline_s:
                raise PostgresStuck("a notification does not come")
            if _readable(self, 1.0):
                self.read()
        heard, self.stream.notifications = self.stream.notifications, []
        return heard

    def note_listening(self, unit: Unit, answer: Answer) -> None:
        """Note the channels that it listens to once the statement is done, not only prepared."""
        for text in unit.texts:
            if text.startswith("LISTEN "):
                self._prepared.add(text.removeprefix("LISTEN ").strip('";'))
        if answer.status == "I" and not answer.error:
            self.channels |= self._prepared
            self._prepared.clear()

    def shut(self) -> None:
        self.is_shut = True
        self.running = None
        self.waiting.clear()
        if self._socket is not None:
            self._socket.close()


class _NoSocket:
    family = socket.AF_INET

    def setsockopt(self, *_: object) -> None:
        """There is none to set it on."""


def _readable(session: _Session, timeout_s: float) -> bool:
    poll = select.poll()
    poll.register(session.fileno(), select.POLLIN)
    return bool(poll.poll(timeout_s * 1000))


def _pids(array: str | None) -> set[int]:
    inner = (array or "{}").strip("{}")
    return {int(pid) for pid in inner.split(",")} if inner else set()


def _waits_for_itself(first: int, blocked: dict[int, set[int]]) -> bool:
    seen: set[int] = set()
    front = {first}
    while front := {by for pid in front for by in blocked.get(pid, ()) if by not in seen}:
        if first in front:
            return True
        seen |= front
    return False
