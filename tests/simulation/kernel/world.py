"""Virtual time, and the order of turns.

A `World` holds every simulated process. Each process has its own event loop and its own threads, as
in production; each of them is a fiber (a greenlet). One fiber runs at a time, until it waits for
something: for a timer, a lock, a sync of its disk, its next turn. Then the world advances to the
next event of its queue. Nothing else decides an order, and every delay is drawn from the seed, so a
seed is one history. Time does not pass while a fiber runs; the cost of a turn is drawn.

A process ends in one of four ways: its program returns, it leaves at once with a status, it is
killed, or its machine loses its power. In the last three no code of it runs on but what unwinds its
stacks, and no effect of that gets out.
"""

from __future__ import annotations

import asyncio
import heapq
import random
from collections.abc import Callable
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NoReturn

from greenlet import getcurrent, greenlet

if TYPE_CHECKING:
    from tests.simulation.kernel.disk import MachineFiles
    from tests.simulation.kernel.loop import SimLoop
    from tests.simulation.kernel.network import Network

SECOND = 1_000_000
WALL_START_US = 1_700_000_000 * SECOND
TURN_US = 120
"""The limit of the cost of one turn of an event loop."""
WAKE_US = 40
"""The limit of the wait of a fiber that could run."""


class Killed(BaseException):
    """The process of this fiber is gone; nothing may catch it."""


class Stuck(AssertionError):
    """Nothing will ever happen again, or far too much happens at one moment."""


class Event:
    """Something that will happen; it may be taken back."""

    __slots__ = ("action", "arguments", "cancelled")

    def __init__(self, action: Callable[..., object], arguments: tuple[Any, ...]) -> None:
        self.action = action
        self.arguments = arguments
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class World:
    """One seed's history. `run` drives it; everything else is called within it or before it."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(f"world {seed}")
        self.now_us = 0
        self.events = 0
        """The number of events that have happened, turns of loops among them."""
        self.current: Fiber | None = None
        self.machines: dict[str, Machine] = {}
        self.processes: list[Process] = []
        """The processes that run."""
        self.network: Network | None = None
        """Made by `network.of`."""
        self.hits: dict[str, int] = {}
        """Named situations and how often each occurred."""
        self._queue: list[tuple[int, int, Event]] = []
        self._number = 0
        self._made = 0
        self._trace = blake2b(digest_size=16)
        self._times = 0
        """A running hash of the times of all events."""
        self._until_us = 0
        self._hub = getcurrent()
        self.failure: BaseException | None = None
        """The error that broke the simulation itself, or an oracle's finding."""
        self.notes: list[str] | None = None
        """Kept in words where somebody wants to read them."""

    # -- time ----------------------------------------------------------------------------------

    def after(self, delay_us: int, action: Callable[..., object], *arguments: Any) -> Event:
        event = Event(action, arguments)
        self._number += 1
        heapq.heappush(self._queue, (self.now_us + delay_us, self._number, event))
        return event

    def run(self, until_us: int, until: Callable[[], bool] | None = None) -> bool:
        """Let time pass until then, or until `until` holds (looked at after each event); whether
        it does."""
        self._hub = getcurrent()
        self._until_us = until_us
        outer = asyncio._get_running_loop()
        try:
            while self._queue and (until is None or not until()):
                at_us, _, event = self._queue[0]
                if at_us > until_us:
                    break
                heapq.heappop(self._queue)
                if event.cancelled:
                    continue
                self._advance(max(self.now_us, at_us))
                event.action(*event.arguments)
                if self.failure is not None:
                    raise self.failure
            else:
                return until is None or until()
            self.now_us = max(self.now_us, until_us)
            return until is not None and until()
        finally:
            asyncio._set_running_loop(outer)

    def _advance(self, to_us: int) -> None:
        self.now_us = to_us
        self.events += 1
        self._times = (self._times * 1_000_003 ^ to_us) & 0xFFFF_FFFF_FFFF_FFFF

    def goes_next(self, delay_us: int) -> bool:
        """Return whether nothing else happens for `delay_us`; then that time passes at once."""
        to_us = self.now_us + delay_us
        if to_us > self._until_us or (self._queue and self._queue[0][0] <= to_us):
            return False
        self._advance(to_us)
        return True

    def note(self, *parts: object) -> None:
        """Put down that this happened: two runs of a seed must put down the same."""
        text = f"{self.now_us} {' '.join(map(str, parts))}"
        self._trace.update(text.encode())
        if self.notes is not None:
            self.notes.append(text)

    def trace(self) -> str:
        """Return a digest of everything put down so far, and of when everything happened."""
        return f"{self._trace.hexdigest()}-{self._times:016x}"

    def hit(self, name: str) -> None:
        self.hits[name] = self.hits.get(name, 0) + 1

    def fail(self, error: BaseException) -> None:
        """End the run with this finding; the first one holds."""
        self.failure = self.failure or error

    def number(self) -> int:
        """Return another number with each call."""
        self._made += 1
        return self._made

    # -- chance --------------------------------------------------------------------------------

    def below(self, bound: int) -> int:
        """Return a number from 0 to bound - 1."""
        return int(self.rng.random() * bound)

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    # -- places --------------------------------------------------------------------------------

    def machine(self, host: str) -> Machine:
        """Return the machine of that name, made when it is first asked for."""
        found = self.machines.get(host)
        if found is None:
            found = self.machines[host] = Machine(self, host)
        return found

    def close(self) -> None:
        """End every process, whose stacks let go of all they hold. Nothing happens afterwards."""
        self.failure = None
        self._queue.clear()
        for process in list(self.processes):
            process.on_exit = None
            process.kill()
        self.run(self.now_us)
        self._queue.clear()


class Machine:
    """A computer: a name in the network, a clock, a disk. It outlives its processes."""

    def __init__(self, world: World, host: str) -> None:
        from tests.simulation.kernel.disk import MachineFiles

        self.world = world
        self.host = host
        self.powered = True
        self.wall_skew_us = 0
        self.rate_ppm = 0
        """The rate by which its clocks run faster than the world's."""
        self.booted_us = 0
        self.files: MachineFiles = MachineFiles(world, host)
        self.processes: list[Process] = []

    def wall_us(self) -> int:
        now_us = self.world.now_us
        return WALL_START_US + now_us + now_us * self.rate_ppm // SECOND + self.wall_skew_us

    def local_us(self, world_us: int) -> int:
        """Return the monotonic clock's reading at that time of the world."""
        past_us = world_us - self.booted_us
        return SECOND + past_us + past_us * self.rate_ppm // SECOND

    def world_us(self, local_us: float) -> int:
        """Return the first microsecond of the world at which the monotonic clock reads
        `local_us`.
        """
        return self.booted_us + int((local_us - SECOND) * SECOND / (SECOND + self.rate_ppm)) + 1

    def cut_power(self) -> None:
        """Every process is gone without a word, and what was not synced may be."""
        self.powered = False
        for process in list(self.processes):
            process.kill(silently=True)
        self.files.cut_power()

    def power_on(self) -> None:
        self.powered = True
        self.booted_us = self.world.now_us

    def spawn(self, name: str, program: Callable[[Process], int | None]) -> Process:
        """Return a process that runs the program; it starts soon."""
        assert self.powered, self.host
        return Process(self, name, program)


class Process:
    """One life of a program."""

    def __init__(
        self, machine: Machine, name: str, program: Callable[[Process], int | None]
    ) -> None:
        self.machine = machine
        self.world = machine.world
        self.name = name
        self.dead = False
        self.status: int | None = None
        """The status that it returned or left with; None while it runs, and of one that was
        killed.
        """
        self.killed = False
        self.loops: list[SimLoop] = []
        self.fibers: list[Fiber] = []
        self.sockets: dict[Any, None] = {}
        """Listening and connected ones, which the kernel closes when the process ends."""
        self.paused_until_us = 0
        self.slowness = 1
        """The factor by which its turns cost more."""
        self.doom: int | None = None
        """The number of further effects on its disk after which it dies."""
        self.doom_is_power = False
        self.on_exit: Callable[[Process], None] | None = None
        self._program = program
        machine.processes.append(self)
        self.world.processes.append(self)
        self.main = Fiber(self, "main", self._run)
        self.main.start()

    def __repr__(self) -> str:
        return f"<{self.name} on {self.machine.host}>"

    def _run(self) -> None:
        status = self._program(self)
        self._end(status or 0)
        raise Killed

    # -- its clocks ----------------------------------------------------------------------------

    def monotonic_us(self) -> int:
        return self.machine.local_us(self.world.now_us)

    # -- its end -------------------------------------------------------------------------------

    def leave(self, status: int) -> NoReturn:
        """Leave as os._exit does, called within one of its fibers."""
        self._end(status)
        raise Killed

    def kill(self, *, silently: bool = False) -> None:
        """Kill as kill -9 does. `silently`: its connections are not closed, as with the power."""
        if not self.dead:
            self.killed = True
            self._end(None, silently=silently)

    def pause(self, duration_us: int) -> None:
        """Pause as SIGSTOP does, and go on as by SIGCONT `duration_us` later."""
        self.paused_until_us = max(self.paused_until_us, self.world.now_us + duration_us)

    def signal(self, number: int) -> None:
        """Signal as kill -number does, for signals that its loop handles."""
        for loop in self.loops:
            loop.deliver_signal(number)

    def check_alive(self) -> None:
        """Check that the process lives, as the first call of each effect."""
        if self.dead:
            raise Killed

    def may_die(self) -> None:
        """Count an effect on its disk; raises Killed where its time has come."""
        if self.dead:
            raise Killed
        if self.doom is not None:
            self.doom -= 1
            if self.doom < 0:
                self.doom = None
                self.world.note("doomed", self.name)
                if self.doom_is_power:
                    self.machine.cut_power()
                else:
                    self.kill()
                raise Killed

    def _end(self, status: int | None, *, silently: bool = False) -> None:
        if self.dead:
            return
        self.dead = True
        self.status = status
        self.world.note("ended", self.name, status)
        self.world.processes.remove(self)
        self.machine.processes.remove(self)
        for socket in list(self.sockets):
            socket.process_ended(silently)
        self.machine.files.forget(self)
        # Not now: this may be called on one of its own stacks.
        self.world.after(0, self._unwind)

    def _unwind(self) -> None:
        for fiber in self.fibers:
            fiber.unwind()
        self.fibers.clear()
        for loop in self.loops:
            loop.unwind()
        self.loops.clear()
        if self.on_exit is not None:
            self.on_exit(self)


class Fiber:
    """One thread of a process."""

    __slots__ = ("_greenlet", "_idle", "_token", "loop", "name", "process", "world")

    def __init__(self, process: Process, name: str, run: Callable[[], object]) -> None:
        self.process = process
        self.world = process.world
        self.name = name
        self.loop: asyncio.AbstractEventLoop | None = None
        """The event loop that it runs now."""
        self._token = 0
        self._idle = False
        self._greenlet = greenlet(lambda: self._body(run), process.world._hub)
        process.fibers.append(self)

    def _body(self, run: Callable[[], object]) -> None:
        try:
            run()
        except Killed:
            pass
        except BaseException as error:
            if not self.process.dead:
                self.world.fail(error)

    @property
    def done(self) -> bool:
        return self._greenlet.dead

    def start(self) -> None:
        self._token += 1
        self.world.after(self.world.below(WAKE_US), self._resume, self._token)

    def park(self, delay_us: int | None = None, *, idle: bool = False) -> None:
        """Wait for `delay_us`; where `idle`, or for ever without a delay, until `wake` is
        called.
        """
        if self.process.dead:
            raise Killed
        if (
            delay_us is not None
            and not idle
            and self.process.paused_until_us <= self.world.now_us
            and self.world.goes_next(delay_us)
        ):
            return
        self._token += 1
        self._idle = idle or delay_us is None
        if delay_us is not None:
            self.world.after(delay_us, self._resume, self._token)
        self.world._hub.switch()
        if self.process.dead:
            raise Killed

    def wake(self) -> None:
        """Wake it, should it be idle: it has something to do."""
        if self._idle:
            self._idle = False
            self._token += 1
            self.world.after(self.world.below(WAKE_US), self._resume, self._token)

    def _resume(self, token: int) -> None:
        if token != self._token or self._greenlet.dead or self.process.dead:
            return
        paused_us = self.process.paused_until_us - self.world.now_us
        if paused_us > 0:
            self._idle = False
            self.world.after(paused_us, self._resume, token)
            return
        self._idle = False
        self._switch()

    def _switch(self) -> None:
        world = self.world
        world.current = self
        asyncio._set_running_loop(self.loop)
        try:
            self._greenlet.switch()
        finally:
            world.current = None
            asyncio._set_running_loop(None)

    def unwind(self) -> None:
        """Run the rest of a dead process's stack on its way out."""
        if self._greenlet and not self._greenlet.dead:
            world = self.world
            world.current = self
            asyncio._set_running_loop(self.loop)
            try:
                self._greenlet.throw(Killed)
            except Killed:
                pass
            finally:
                world.current = None
                asyncio._set_running_loop(None)
