"""A real Postgres in virtual time: the simulator orders its statements, and a seed is a history."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from random import Random
from typing import Any

import asyncpg
import pytest

from metadata.eras import Position, observe
from tests.simulation.delivery.postgres_network import PostgresFaults, PostgresNetwork, Trace
from tests.simulation.delivery.postgres_server import SimulatedServer
from tests.simulation.kernel import network as networks
from tests.simulation.kernel.loop import run
from tests.simulation.kernel.stdlib import installed
from tests.simulation.kernel.world import SECOND, Process, World

ADDRESS = ("postgres.simulated", 5432)
URL = "postgresql://postgres:none@postgres.simulated:5432/packetboat?sslmode=disable"
TABLE = "CREATE TABLE t (id int PRIMARY KEY, v int); INSERT INTO t VALUES (1, 0), (2, 0)"
Work = Callable[["Place"], Awaitable[None]]


class Place:
    """A world with a Postgres; `spawn` what asks it."""

    def __init__(self, seed: int, directory: Path) -> None:
        asyncpg.connection._uid = 0
        self.world = World(seed)
        self.directory = directory
        self.server = SimulatedServer(directory / "postgres", seed)
        self.network = PostgresNetwork(
            self.world, self.server, Random(f"postgres {seed}"), PostgresFaults(), Trace()
        )
        networks.of(self.world).outside[ADDRESS] = self.network.connect
        self.told: list[Any] = []
        self._failure: BaseException | None = None

    def tell(self, *what: Any) -> None:
        self.told.append((self.world.now_us, *what))

    def spawn(self, name: str, work: Work) -> Process:
        async def guarded() -> None:
            try:
                await work(self)
            except Exception as error:
                fiber = self.world.current
                if fiber is not None and not fiber.process.dead:
                    self._failure = error

        def program(process: Process) -> int:
            run(process, guarded())
            return 0

        return self.world.machine("clients").spawn(name, program)

    def finish(self, *processes: Process, within_s: float = 60) -> None:
        until_us = self.world.now_us + int(within_s * SECOND)
        ended = self.world.run(until_us, lambda: all(process.dead for process in processes))
        if self._failure is not None:
            raise self._failure
        assert ended, "it goes on"


@contextmanager
def place_of(seed: int) -> Iterator[Place]:
    directory = Path(tempfile.mkdtemp(prefix="packetboat-simulation-"))
    directory.chmod(0o711)
    place = Place(seed, directory)
    with installed(place.world, seed):
        try:
            yield place
        finally:
            place.world.close()
            place.network.close()
            shutil.rmtree(directory)


@pytest.fixture
def place() -> Iterator[Place]:
    with place_of(1) as made:
        made.server.control.query(TABLE)
        yield made


async def connect(**settings: Any) -> Any:
    return await asyncpg.connect(URL, **settings)


def counter(name: str, rounds: int) -> Work:
    """Adds to one row, all of them at once, and tells of it."""

    async def work(place: Place) -> None:
        connection = None
        for _ in range(rounds):
            try:
                if connection is None or connection.is_closed():
                    connection = await connect(server_settings={"statement_timeout": "500"})
                async with connection.transaction():
                    value = await connection.fetchval(
                        "UPDATE t SET v = v + 1 WHERE id = 1 RETURNING v"
                    )
                    await asyncio.sleep(0.05)
                    await connection.execute("SELECT pg_notify('told', $1)", name)
                place.tell(name, value)
            except (OSError, asyncpg.PostgresError, asyncpg.InterfaceError) as error:
                place.tell(name, type(error).__name__)

    return work


def history(seed: int) -> tuple[str, list[Any], dict[str, int]]:
    with place_of(seed) as place:
        place.server.control.query(TABLE)
        place.network.faults.lost_answers = 0.05
        place.network.faults.lost_requests = 0.02

        async def listen(place: Place) -> None:
            ear = await connect()
            await ear.add_listener("told", lambda *heard: place.tell("heard", heard[-1]))
            await asyncio.sleep(30)

        ear = place.spawn("ear", listen)
        counters = [place.spawn(name, counter(name, 8)) for name in "abcd"]
        place.world.run(SECOND)
        counters[3].kill()
        place.finish(ear, *counters)
        return place.network.trace.digest(), place.told, dict(place.network.faults.counts)


def test_a_seed_is_one_history() -> None:
    """Two runs have the same statements, in the same order, with the same results. Another seed has
    others."""
    first = history(7)
    assert history(7) == first
    assert history(8)[0] != first[0]
    _, told, counts = first
    assert counts["statements that waited for a lock"] > 5
    assert counts["lost answers of commits"] + counts["lost requests"] > 0
    assert any(each[1] == "heard" for each in told)


def test_a_number_that_is_a_backend_s_id_too_stays_what_it_is_in_a_history() -> None:
    """The ids of backends differ from run to run; numbers that statements ask for do not."""

    def kept(number: int, statement: str) -> list[str]:
        with place_of(7) as place:
            place.network.trace = trace = Trace(keep=True)

            async def ask(place: Place) -> None:
                connection = await connect()
                pid = connection.get_server_pid()
                place.network._pids = {number or pid: 1}
                await connection.fetchval(statement, number or pid)

            place.finish(place.spawn("asker", ask))
            assert trace.kept is not None
            return [line for line in trace.kept if "B\\x00" in line]

    assert not any(r"\xff\xff\xff\xff" in line for line in kept(1007, "SELECT $1::int"))
    named = kept(0, "SELECT count(*) FROM pg_stat_activity WHERE pid = $1")
    assert any(r"\xff\xff\xff\xff" in line for line in named)


def test_a_statement_waits_for_a_lock_in_virtual_time(place: Place) -> None:
    async def hold(place: Place) -> None:
        connection = await connect()
        async with connection.transaction():
            await connection.execute("UPDATE t SET v = 1 WHERE id = 1")
            await asyncio.sleep(2)

    async def want(place: Place) -> None:
        connection = await connect(server_settings={"statement_timeout": "500"})
        await asyncio.sleep(0.5)
        began_us = place.world.now_us
        with pytest.raises(asyncpg.QueryCanceledError):
            await connection.execute("UPDATE t SET v = 2 WHERE id = 1")
        assert 0.4 < (place.world.now_us - began_us) / SECOND < 1
        await connection.execute("SET statement_timeout = 0")

    async def wait(place: Place) -> None:
        connection = await connect()
        await asyncio.sleep(0.5)
        await connection.execute("UPDATE t SET v = v + 5 WHERE id = 1")
        place.tell("got it")
        assert await connection.fetchval("SELECT v FROM t WHERE id = 1") == 6

    place.finish(*(place.spawn(each.__name__, each) for each in (hold, want, wait)))
    assert 2 < place.told[0][0] / SECOND < 3


def test_statements_that_wait_for_each_other_are_ended(place: Place) -> None:
    def cross(first: int, second: int) -> Work:
        async def work(place: Place) -> None:
            connection = await connect()
            try:
                async with connection.transaction():
                    await connection.execute("UPDATE t SET v = v + 1 WHERE id = $1", first)
                    await asyncio.sleep(0.5)
                    await connection.execute("UPDATE t SET v = v + 1 WHERE id = $1", second)
                place.tell("done")
            except asyncpg.PostgresError:
                place.tell("ended")

        return work

    place.finish(place.spawn("one", cross(1, 2)), place.spawn("two", cross(2, 1)))
    assert sorted(each[1] for each in place.told) == ["done", "ended"]
    assert place.network.faults.counts["deadlocks"] == 1


def test_an_answer_is_lost_and_the_commit_is_not(place: Place) -> None:
    place.network.faults.lost_answers = 1.0

    async def work(place: Place) -> None:
        connection = await connect()
        with pytest.raises((OSError, asyncpg.PostgresError, asyncpg.InterfaceError)):
            await connection.execute("UPDATE t SET v = 9 WHERE id = 1")
        again = await connect()
        assert await again.fetchval("SELECT v FROM t WHERE id = 1") == 9

    place.finish(place.spawn("work", work))


def test_what_a_killed_process_sent_arrives(place: Place) -> None:
    place.network.faults.slow, place.network.faults.slow_s = 1.0, (0.3, 0.4)

    async def work(place: Place) -> None:
        connection = await connect()
        place.tell("connected")
        await connection.execute("UPDATE t SET v = 7 WHERE id = 1")

    process = place.spawn("work", work)
    assert place.world.run(10 * SECOND, lambda: bool(place.told))
    place.world.run(place.world.now_us + SECOND // 10)
    process.kill()
    place.world.run(place.world.now_us + 2 * SECOND)
    assert place.server.control.query("SELECT v FROM t WHERE id = 1") == [("7",)]
    assert place.network.faults.counts["late units"] > 0


def test_its_clock_and_its_chance_are_the_worlds(place: Place) -> None:
    async def work(place: Place) -> None:
        connection = await connect()
        async with connection.transaction():
            began = await connection.fetchval("SELECT now()")
            await asyncio.sleep(3)
            now, clock, uuid = await connection.fetchrow(
                "SELECT now(), clock_timestamp(), gen_random_uuid()"
            )
            assert now == began
            assert timedelta(seconds=3) < clock - began < timedelta(seconds=4)
        assert clock < await connection.fetchval("SELECT now()")
        place.tell(str(uuid))

    place.finish(place.spawn("work", work))
    assert place.told[0][1] == "6512bd43-d9ca-a6e0-2c99-0b0a82652dca"


def test_a_failover_goes_back_to_a_snapshot(place: Place) -> None:
    """Connections break, and the position that eras are told by is that of then."""
    seen: list[Position] = []

    async def before(place: Place) -> None:
        connection = await connect()
        seen.append(await observe(connection))
        await connection.execute("UPDATE t SET v = 3 WHERE id = 1")
        seen.append(await observe(connection))

    async def after(place: Place) -> None:
        connection = await connect()
        seen.append(await observe(connection))
        assert await connection.fetchval("SELECT v FROM t WHERE id = 1") == 0

    files = place.directory / "snapshot"
    then = place.server.snapshot(files)
    place.finish(place.spawn("before", before))
    place.network.fail_over(
        SimulatedServer(place.directory / "standby", 1, files, then._replace(timeline=2))
    )
    place.finish(place.spawn("after", after))
    first, later, now = seen
    assert later.wal_bytes > first.wal_bytes
    assert (now.wal_bytes, now.timeline) == (first.wal_bytes, 2)
    assert now.system_identifier == first.system_identifier
