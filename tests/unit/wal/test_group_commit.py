"""One flush for everything that queued while the last one ran."""

from __future__ import annotations

import asyncio
import errno
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from store_nodes.wal.errors import WalClosed
from store_nodes.wal.group_commit import GroupCommit
from store_nodes.wal.log import WriteAheadLog
from store_nodes.wal.position import Position
from tests.unit.wal.wal_support import SimDisk, accept, content, open_log


class SlowDisk(SimDisk):
    """Every fdatasync waits until the test lets one go."""

    def __init__(self) -> None:
        super().__init__()
        self.gate: threading.Semaphore | None = None
        self.syncing = threading.Event()
        self.most_buffers = 0

    def sync_data(self, fd: int) -> None:
        if self.gate is not None:
            self.syncing.set()
            assert self.gate.acquire(timeout=10)
        super().sync_data(fd)

    def write(self, fd: int, buffers: Sequence[bytes], offset: int) -> None:
        self.most_buffers = max(self.most_buffers, len(buffers))
        super().write(fd, buffers, offset)


class Bench:
    """A group commit on a slow disk, and what it told."""

    def __init__(self, idle_mark_s: float = 60.0, max_flush_bytes: int = 1 << 20) -> None:
        self.disk = SlowDisk()
        self.log, _ = open_log(self.disk)
        self.disk.calls.clear()
        self.fatal: list[BaseException] = []
        self.raised: list[BaseException] = []
        """The errors that a callback of the loop raised, such as an assertion of the product."""
        self.done: list[tuple[str, list[Position]]] = []
        self.commit = GroupCommit(
            self.log,
            on_fatal=self.fatal.append,
            idle_mark_s=idle_mark_s,
            max_flush_bytes=max_flush_bytes,
        )

    def submit(self, name: str, need_sync: bool = True, count: int = 1, size: int = 10) -> None:
        records = [accept(i, bytes(size)) for i in range(count)]
        self.commit.submit(records, need_sync, lambda at: self.done.append((name, at)))

    def hold(self) -> None:
        self.disk.gate = threading.Semaphore(0)
        self.disk.syncing.clear()

    def release(self, flushes: int = 1) -> None:
        assert self.disk.gate is not None
        self.disk.gate.release(flushes)

    async def until_syncing(self) -> None:
        async with asyncio.timeout(5):
            while not self.disk.syncing.is_set():
                await asyncio.sleep(0.001)

    async def until_done(self, count: int) -> None:
        async with asyncio.timeout(5):
            while len(self.done) < count:
                for error in self.raised:
                    raise error
                await asyncio.sleep(0.001)

    def names(self) -> list[str]:
        return [name for name, _ in self.done]


@asynccontextmanager
async def running(bench: Bench) -> AsyncIterator[Bench]:
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, raised: bench.raised.append(raised["exception"]))
    task = asyncio.create_task(bench.commit.run())
    await asyncio.sleep(0)
    try:
        yield bench
    finally:
        if bench.disk.gate is not None:
            bench.disk.gate.release(100)
        await bench.commit.close()
        await task


async def test_done_after_the_sync_with_positions() -> None:
    async with running(Bench()) as bench:
        bench.hold()
        bench.submit("a", count=3)
        await bench.until_syncing()
        await asyncio.sleep(0.02)
        assert bench.done == []
        bench.release()
        await bench.until_done(1)
        ((_, positions),) = bench.done
        assert [bench.log.read(position) for position in positions] == [bytes(10)] * 3


async def test_what_one_turn_of_the_loop_submits_shares_a_flush() -> None:
    async with running(Bench()) as bench:
        for i in range(100):
            bench.submit(str(i))
        await bench.until_done(100)
        assert bench.names() == [str(i) for i in range(100)]
        assert bench.commit.flushes == 1
        assert bench.disk.count("sync_data") == 1
        assert len({position for _, at in bench.done for position in at}) == 100


async def test_what_queues_during_a_flush_goes_in_the_next() -> None:
    async with running(Bench()) as bench:
        bench.hold()
        bench.submit("first")
        await bench.until_syncing()
        for i in range(50):
            bench.submit(str(i))
            await asyncio.sleep(0)
        bench.release(2)
        await bench.until_done(51)
        assert bench.commit.flushes == 2
        assert bench.disk.count("sync_data") == 2
        assert bench.commit.records == 51
        assert bench.commit.bytes == 510
        assert len(bench.commit.flush_samples) == 2


async def test_a_lone_record_waits_for_nothing() -> None:
    async with running(Bench()) as bench:
        for i in range(5):
            bench.submit(str(i))
            await bench.until_done(i + 1)
        assert bench.commit.flushes == 5


async def test_records_without_need_ride_along() -> None:
    async with running(Bench()) as bench:
        bench.submit("lazy", need_sync=False)
        await asyncio.sleep(0.05)
        assert bench.done == []
        assert bench.disk.count("sync_data") == 0
        bench.submit("needed")
        await bench.until_done(2)
        assert bench.names() == ["lazy", "needed"]
        assert bench.commit.flushes == 1


async def test_records_without_need_do_not_force_the_next_flush() -> None:
    async with running(Bench()) as bench:
        bench.hold()
        bench.submit("a")
        await bench.until_syncing()
        bench.submit("lazy", need_sync=False)
        bench.release(5)
        await bench.until_done(1)
        await asyncio.sleep(0.03)
        assert bench.names() == ["a"]
        assert bench.disk.count("sync_data") == 1


async def test_an_idle_log_is_marked_once_and_takes_what_waited() -> None:
    async with running(Bench(idle_mark_s=0.03)) as bench:
        bench.submit("a")
        bench.submit("lazy", need_sync=False)
        await bench.until_done(2)
        bench.submit("later", need_sync=False)
        await bench.until_done(3)
        assert bench.log.marked
        flushes = bench.commit.flushes
        await asyncio.sleep(0.1)
        assert bench.commit.flushes == flushes, "an idle log is left alone once marked"
        end = bench.log.tail.offset
        bench.disk.kill()
        log, _ = open_log(bench.disk)
        assert log.tail.offset == end


async def test_a_flush_has_a_size() -> None:
    async with running(Bench(max_flush_bytes=1000)) as bench:
        bench.submit("larger than a flush", size=3000)
        for i in range(10):
            bench.submit(str(i), size=500)
        assert bench.commit.queued_bytes == 8000
        await bench.until_done(11)
        assert bench.commit.flushes == 6
        assert bench.commit.queued_bytes == 0


async def test_what_was_submitted_before_run_is_flushed() -> None:
    bench = Bench()
    bench.submit("early")
    async with running(bench):
        await bench.until_done(1)


async def test_close_flushes_all_that_waits() -> None:
    bench = Bench()
    async with running(bench):
        bench.hold()
        bench.submit("a")
        await bench.until_syncing()
        bench.submit("b")
        bench.submit("lazy", need_sync=False)
        bench.release(10)
    assert bench.names() == ["a", "b", "lazy"]
    with pytest.raises(WalClosed):
        bench.submit("late")
    bench.log.close()
    assert len(content(open_log(bench.disk)[1])) == 3


@pytest.mark.parametrize("call", ["write", "sync_data"])
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
async def test_the_first_failure_is_fatal_and_nobody_is_told(call: str, code: int) -> None:
    bench = Bench()
    async with running(bench):
        bench.submit("fine")
        await bench.until_done(1)
        bench.disk.failing[call] = code
        bench.submit("fails")
        bench.submit("waits", need_sync=False)
        async with asyncio.timeout(5):
            while not bench.fatal:
                await asyncio.sleep(0.001)
        (error,) = bench.fatal
        assert isinstance(error, OSError)
        assert error.errno == code
        bench.disk.failing.clear()
        with pytest.raises(WalClosed):
            bench.submit("late")
        await asyncio.sleep(0.02)
    assert bench.names() == ["fine"]
    assert bench.disk.count("sync_data") <= 2


async def test_a_spare_that_cannot_be_made_is_fatal() -> None:
    bench = Bench()
    async with running(bench):
        bench.disk.failing["create"] = errno.ENOSPC
        for i in range(100):
            bench.submit(str(i), size=1000)
            if i % 10 == 9:
                await asyncio.sleep(0.01)
            if bench.fatal:
                break
        assert bench.fatal


async def test_a_submitter_that_raises_is_fatal() -> None:
    bench = Bench()

    def broken(_: list[Position]) -> None:
        raise ZeroDivisionError

    async with running(bench):
        bench.commit.submit([accept(1)], True, broken)
        async with asyncio.timeout(5):
            while not bench.fatal:
                await asyncio.sleep(0.001)
    assert isinstance(bench.fatal[0], ZeroDivisionError)
    assert [type(error) for error in bench.raised] == [ZeroDivisionError]


async def test_the_loop_is_woken_once_for_a_flush(monkeypatch: pytest.MonkeyPatch) -> None:
    async with running(Bench()) as bench:
        loop = asyncio.get_running_loop()
        wakes = []
        original = loop.call_soon_threadsafe

        def counted(*args: object) -> asyncio.Handle:
            wakes.append(args)
            return original(*args)  # type: ignore[arg-type]

        bench.hold()
        bench.submit("first")
        await bench.until_syncing()
        for i in range(20):
            bench.submit(str(i))
        bench.release(2)
        monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
        await bench.until_done(21)
        assert len(wakes) <= 2


async def test_rolls_and_spares_under_load() -> None:
    bench = Bench()
    async with running(bench):
        for i in range(200):
            bench.submit(str(i), size=1000)
            if i % 5 == 4:
                await bench.until_done(i + 1)
    assert bench.names() == [str(i) for i in range(200)]
    bench.log.close()
    log, recovery = open_log(bench.disk)
    assert len(content(recovery)) == 200
    assert isinstance(log, WriteAheadLog)
    assert len(recovery.segments) > 5
