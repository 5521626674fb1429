"""Does a node's work besides its groups, about once a second: disk space, checkpoints, peers.

It checks the free space, writes checkpoints, and records its peers and the synced end of the log
that they may be told. Blocking calls run in a thread, one at a time; any OSError is fatal. A new
end of the log is durable in `boot` before peers are told of it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import TypeVar

import structlog

from store_nodes.beats import ROUND_S, until_next_s
from store_nodes.checkpoint.format import Checkpoint
from store_nodes.disk_room import no_room
from store_nodes.node.boot import BootRecord, pack_tail
from store_nodes.node.known_peers import FLUSH_S, KnownPeers
from store_nodes.node.start import CheckpointDraft, Started
from store_nodes.settings import StoreNodeSettings
from store_nodes.wal.disk import Disk
from store_nodes.wal.group_commit import GroupCommit

CHECKPOINT_BYTES = 64 * 1024 * 1024
CHECKPOINT_S = 600.0

log = structlog.get_logger()
_Result = TypeVar("_Result")


class DiskWatch:
    """Watches the free space of the disk.

    Below the reserve, appends are refused; below half of it, values of peers are refused, too.
    """

    def __init__(self, settings: StoreNodeSettings, disk: Disk) -> None:
        self._settings = settings
        self._disk = disk
        self.full = False
        self.free_bytes = 0

    @property
    def critical(self) -> bool:
        """Whether so little space is left that values of peers are refused."""
        return self.free_bytes < self._settings.disk_reserve_bytes // 2

    def without_room(self) -> str | None:
        """Return why appends are refused; None while they are accepted."""
        if not self.full:
            return None
        settings = self._settings
        return no_room(
            settings.node_id, str(settings.data_dir), self.free_bytes, settings.disk_reserve_bytes
        )

    def look(self) -> None:
        self.free_bytes = self._disk.free_bytes(self._settings.data_dir)
        full = self.free_bytes < self._settings.disk_reserve_bytes
        if full != self.full:
            log.warning("disk watermark", free_bytes=self.free_bytes, appends_refused=full)
        self.full = full


class Housekeeping:
    """The regular work of a node, in a task of its own from `start` to `stop`."""

    def __init__(
        self,
        started: Started,
        commit: GroupCommit,
        boot: BootRecord,
        known: KnownPeers,
        draft_checkpoint: Callable[[], CheckpointDraft],
        tell: Callable[[], None],
        age: Callable[[], None],
        fatal: Callable[[str], None],
    ) -> None:
        self.disk = DiskWatch(started.settings, started.wal.disk)
        self.told_tail = pack_tail(started.wal.tail)
        """The synced end of the log that peers may be told; it is durable here."""
        self._started = started
        self._commit = commit
        self._boot = boot
        self._known = known
        self._draft_checkpoint = draft_checkpoint
        self._tell = tell
        self._age = age
        self._fatal = fatal
        self._wanted = False
        # A node that never lives long enough to write this much would replay ever more of its log.
        self._checkpointed_bytes = -started.replayed_bytes
        self._checkpointed_s = time.monotonic()
        self._flushed_s = 0.0
        self._stopping = asyncio.Event()
        self._writing = asyncio.Lock()
        self._wrote_last = False
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        self.disk.look()
        self._task = asyncio.create_task(self._run(), name="store-node-housekeeping")
        self._task.add_done_callback(self._on_done)

    async def stop(self) -> None:
        """End the work under way; the caller asks for the last checkpoint."""
        await self._end()
        await self.blocking(self._known.flush)

    async def _end(self) -> None:
        self._stopping.set()
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    def want_checkpoint(self) -> None:
        """Write a checkpoint at the next turn, however little was written since the last."""
        self._wanted = True

    def want_flush(self) -> None:
        """Write down the news of peers at the next turn."""
        self._flushed_s = 0.0

    async def checkpoint(self) -> bool:
        """Write a checkpoint now; return False after `write_last`.

        The thread that writes asks the loop for one group after the other.
        """
        self._wanted = False
        self._checkpointed_bytes = self._commit.bytes
        self._checkpointed_s = time.monotonic()
        loop = asyncio.get_running_loop()
        async with self._writing:
            if self._wrote_last:
                return False
            draft = self._draft_checkpoint()
            groups = (_on_loop(loop, partial(draft.of, group)) for group in draft.groups)
            await self.blocking(
                lambda: self._started.checkpoints.write_groups(
                    len(draft.groups), groups, lambda: _on_loop(loop, draft.rest)
                )
            )
        return True

    async def write_last(self, draft: Callable[[], Checkpoint]) -> None:
        """Write this checkpoint, drafted when no other is under way, and none after it."""
        await self._end()
        async with self._writing:
            self._wrote_last = True
            checkpoint = draft()
            await self.blocking(lambda: self._started.checkpoints.write(checkpoint))

    async def blocking(self, call: Callable[[], _Result]) -> _Result:
        """Run a call in a thread; an OSError ends the node."""
        try:
            return await asyncio.get_running_loop().run_in_executor(None, call)
        except OSError as error:
            self._fatal(f"housekeeping: {error}")
            raise

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while not self._stopping.is_set():
            try:
                async with asyncio.timeout(until_next_s(loop.time(), ROUND_S)):
                    await self._stopping.wait()
            except TimeoutError:
                await self._turn()

    async def _turn(self) -> None:
        tail = pack_tail(self._started.wal.tail)
        if tail != self.told_tail:
            await self.blocking(lambda: self._boot.tell(tail))
            self.told_tail = tail
            self._tell()
        self._age()
        now_s = time.monotonic()
        if now_s - self._flushed_s >= FLUSH_S:
            self._flushed_s = now_s
            await self.blocking(self._known.flush)
        written = self._commit.bytes - self._checkpointed_bytes
        if (
            self._wanted
            or written >= CHECKPOINT_BYTES
            or (written and now_s - self._checkpointed_s >= CHECKPOINT_S)
        ):
            await self.checkpoint()

    def _on_done(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fatal(f"{task.get_name()}: {error!r}")


def _on_loop(loop: asyncio.AbstractEventLoop, call: Callable[[], _Result]) -> _Result:
    """Return the result of `call` on the loop, for a caller in a thread."""
    done: Future[_Result] = Future()

    def run() -> None:
        try:
            done.set_result(call())
        except BaseException as error:
            done.set_exception(error)

    loop.call_soon_threadsafe(run)
    return done.result()
