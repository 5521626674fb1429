"""The simulated machine room keeps what it promises: one seed is one history, and its loops,
threads, sockets, disks and clocks behave as the real ones do at their worst."""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.simulation.kernel import network
from tests.simulation.kernel.disk import ProcessDisk
from tests.simulation.kernel.loop import run
from tests.simulation.kernel.stdlib import installed
from tests.simulation.kernel.world import SECOND, WALL_START_US, Process, World

SEEDS = range(20)


@contextmanager
def world_of(seed: int) -> Iterator[World]:
    """Return a world that ends with the block."""
    world = World(seed)
    with installed(world, seed):
        yield world
        world.close()


def spawn(world: World, host: str, work: Coroutine[Any, Any, int | None]) -> Process:
    return world.machine(host).spawn(host, lambda process: run(process, work))


def finish(world: World, process: Process, within_s: float = 100) -> None:
    assert world.run(world.now_us + int(within_s * SECOND), lambda: process.dead), "it goes on"
    assert process.status == 0


class Echo(asyncio.Protocol):
    def connection_made(self, transport: Any) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


async def serve(factory: Callable[[], asyncio.BaseProtocol] = Echo) -> None:
    await asyncio.get_running_loop().create_server(factory, "", 80)
    await asyncio.sleep(3600)


def history(seed: int) -> str:
    """Return the trace of two clients that talk to a server, use threads and draw numbers."""

    async def client() -> None:
        await asyncio.sleep(random.random())
        reader, writer = await asyncio.open_connection("server", 80)
        for _ in range(5):
            sent = os.urandom(random.randrange(1, 50_000))
            writer.write(sent)
            assert await reader.readexactly(len(sent)) == sent
            await asyncio.to_thread(time.sleep, random.random())
        writer.close()

    with world_of(seed) as world:
        spawn(world, "server", serve())
        for process in [spawn(world, host, client()) for host in ("a", "b")]:
            finish(world, process)
        return world.trace()


def test_a_seed_is_one_history() -> None:
    assert history(1) == history(1)
    assert history(1) != history(2)


def test_an_executor_joins_its_threads_in_one_order_in_each_run() -> None:
    """The threads of an executor are in a set, and lie elsewhere in memory in each run."""
    space: list[object] = []

    def joined(seed: int) -> str:
        def work(_: Process) -> int:
            with ThreadPoolExecutor(12) as pool:
                for number in range(12):
                    space.append(bytearray(random.randrange(100, 900)))
                    pool.submit(time.sleep, 0.01 * number)
            return 0

        with world_of(seed) as world:
            finish(world, world.machine("client").spawn("client", work))
            return world.trace()

    assert len({joined(1) for _ in range(5)}) == 1


def test_callbacks_of_a_loop_run_in_the_order_in_which_they_were_scheduled() -> None:
    async def work() -> None:
        ran: list[int] = []
        loop = asyncio.get_running_loop()
        for number in range(50):
            loop.call_soon(ran.append, number)
        await asyncio.sleep(0)
        assert ran == list(range(50))
        for number in range(20):
            loop.call_later(0.5 - number / 100, ran.append, -number)
        await asyncio.sleep(1)
        assert ran[50:] == [-number for number in range(19, -1, -1)]

    with world_of(1) as world:
        finish(world, spawn(world, "a", work()))


def test_which_of_two_processes_goes_first_is_drawn() -> None:
    firsts = set()
    for seed in SEEDS:
        ran: list[str] = []

        async def work(name: str, ran: list[str] = ran) -> None:
            ran.append(name)

        with world_of(seed) as world:
            for process in [spawn(world, host, work(host)) for host in ("a", "b")]:
                finish(world, process)
        firsts.add(ran[0])
    assert firsts == {"a", "b"}


def test_threads_of_a_process_run_beside_its_loop_and_exclude_each_other() -> None:
    async def work() -> None:
        loop = asyncio.get_running_loop()
        lock = threading.Lock()
        inside: list[int] = []

        def enter(number: int) -> int:
            with lock:
                inside.append(number)
                assert len(inside) == 1
                time.sleep(0.1)
                inside.remove(number)
            return number

        pool = ThreadPoolExecutor(4)
        asked = [loop.run_in_executor(pool, enter, number) for number in range(4)]
        ticks = 0
        while not all(one.done() for one in asked):
            await asyncio.sleep(0.01)
            ticks += 1
        assert 35 <= ticks <= 45, "the loop ran meanwhile"
        assert await asyncio.gather(*asked) == [0, 1, 2, 3]
        pool.shutdown()

        def ask_the_loop() -> str:
            answer: Future[str] = Future()
            loop.call_soon_threadsafe(answer.set_result, "said the loop")
            return answer.result()

        assert await asyncio.to_thread(ask_the_loop) == "said the loop"

    with world_of(1) as world:
        finish(world, spawn(world, "a", work()))


def test_clocks_are_virtual_and_each_machine_has_its_own() -> None:
    async def work() -> None:
        before_s, wall_s = time.monotonic(), time.time()
        await asyncio.sleep(1000)
        assert 1000 <= time.monotonic() - before_s < 1001
        assert 1000 <= time.time() - wall_s < 1001
        assert wall_s < WALL_START_US / 1e6 - 90

    began_s = time.perf_counter()
    with world_of(1) as world:
        world.machine("late").wall_skew_us = -100 * SECOND
        finish(world, spawn(world, "late", work()), 2000)
    assert time.perf_counter() - began_s < 10


def test_a_blocked_link_delivers_late_and_its_sender_gives_up_in_the_end() -> None:
    async def client() -> None:
        reader, writer = await asyncio.open_connection("server", 80)
        net = network.of(world)
        net.block("client", "server")
        writer.write(b"held")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await reader.readexactly(4)
        net.heal("client", "server")
        assert await reader.readexactly(4) == b"held"
        net.block("server", "client")
        writer.write(b"lost")
        net.heal("nobody", "server")
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(30):
                await reader.read()  # a half-open connection: nobody says anything

    with world_of(1) as world:
        spawn(world, "server", serve())
        finish(world, spawn(world, "client", client()))


def test_a_killed_process_closes_its_connections_and_one_without_power_does_not() -> None:
    async def client() -> None:
        reader, writer = await asyncio.open_connection("server", 80)
        world.after(SECOND, server.kill)
        before_s = time.monotonic()
        assert await reader.read() == b""
        assert 0.9 < time.monotonic() - before_s < 1.2
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("server", 80)
        spawn(world, "server", serve())
        await asyncio.sleep(0.1)
        reader, writer = await asyncio.open_connection("server", 80)
        world.machine("server").cut_power()
        writer.write(b"is anybody there?")
        before_s = time.monotonic()
        with pytest.raises(TimeoutError):
            await reader.read()
        assert 10 <= time.monotonic() - before_s < 11
        with pytest.raises(OSError, match="no route"):
            await asyncio.open_connection("server", 80)

    with world_of(1) as world:
        server = spawn(world, "server", serve())
        finish(world, spawn(world, "client", client()))


def test_a_stream_is_cut_into_pieces_and_loses_nothing() -> None:
    async def client() -> None:
        reader, writer = await asyncio.open_connection("server", 80)
        sent = random.randbytes(2_000_000)
        writer.write(sent)
        assert await reader.readexactly(len(sent)) == sent
        writer.close()
        await writer.wait_closed()

    for seed in range(3):
        with world_of(seed) as world:
            network.of(world).cut = 0.5
            spawn(world, "server", serve())
            finish(world, spawn(world, "client", client()))


def write_some(process: Process) -> int:
    """Write two files, and sync one of them, with its name."""
    disk = ProcessDisk(process)
    disk.make_directory(Path("/data"))
    for name in ("synced", "unsynced"):
        fd = disk.open(Path("/data") / name, create=True)
        for at in range(0, 4096, 1024):
            disk.write(fd, [name.encode().ljust(1024, b".")], at)
        if name == "synced":
            disk.sync(fd)
            disk.sync_directory(Path("/data"))
    return 0


def test_a_power_cut_loses_what_was_not_synced_in_any_way() -> None:
    found: set[bytes | None] = set()
    for seed in range(40):
        with world_of(seed) as world:
            machine = world.machine("a")
            process = machine.spawn("writer", write_some)
            finish(world, process)
            machine.cut_power()
            names = machine.files.directories["/data"].names
            assert bytes(names["synced"].live).startswith(b"synced....")
            assert len(names["synced"].live) == 4096
            other = names.get("unsynced")
            found.add(None if other is None else bytes(other.live))
    assert None in found
    assert b"" in found
    assert any(one and len(one.strip(b"\0")) < len(one) for one in found), "torn"
    assert any(one and one.count(b"unsynced") == 4 for one in found), "whole"


def test_a_process_dies_at_every_one_of_its_effects() -> None:
    names = set()
    for effect in range(20):
        with world_of(effect) as world:
            machine = world.machine("a")
            process = machine.spawn("writer", write_some)
            process.doom = effect
            assert world.run(10 * SECOND, lambda process=process: process.dead)
            if process.status == 0:
                break
            files = machine.files.directories["/data"].names
            names.add(tuple((name, len(inode.live)) for name, inode in files.items()))
    else:
        pytest.fail("it has more effects than it should")
    assert len(names) > 8


def test_a_dead_process_does_nothing_more() -> None:
    """Even the `finally` blocks of its stacks have no effect."""
    heard: list[str] = []

    class Hear(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            heard.append(data.decode())

    async def client() -> None:
        _, writer = await asyncio.open_connection("server", 80)
        writer.write(b"alive")
        try:
            await asyncio.sleep(1000)
        finally:
            writer.write(b"dead")

    with world_of(1) as world:
        spawn(world, "server", serve(Hear))
        process = spawn(world, "client", client())
        world.run(SECOND)
        process.kill()
        world.run(2 * SECOND)
    assert heard == ["alive"]
