"""Flushes all records that queued during the last flush together (as in rabbitmq/ra).

The loop hands the queued records of all groups to one thread: one write, one fdatasync. Then the
loop is woken once, hands over the records that queued meanwhile, and tells the submitters. A
submitter is told only after its records are durable. There is no timer on the way: a lone record is
flushed at once, and a busy node shares each flush.

The first exception of the thread is final: `on_fatal` is called, no submitter is told anything any
more, and the process must exit. Whether the records of that flush are on disk is then unknown.
"""

from __future__ import annotations

import asyncio
import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from store_nodes.beats import ROUND_S, until_next_s
from store_nodes.wal.errors import WalClosed
from store_nodes.wal.frame import Record
from store_nodes.wal.log import WriteAheadLog
from store_nodes.wal.position import Position

DEFAULT_MAX_FLUSH_BYTES = 16 * 1024 * 1024
IDLE_MARK_S = ROUND_S
FLUSH_SAMPLES = 4096

Done = Callable[[list[Position]], None]


class _Submission(NamedTuple):
    records: Sequence[Record]
    size: int
    done: Done


class _Job(NamedTuple):
    records: list[Record]
    mark: bool


class GroupCommit:
    """The flushes of a log; it belongs to one event loop, and owns the log's writing from `run` to
    `close`.
    """

    def __init__(
        self,
        log: WriteAheadLog,
        *,
        on_fatal: Callable[[BaseException], None],
        max_flush_bytes: int = DEFAULT_MAX_FLUSH_BYTES,
        idle_mark_s: float = IDLE_MARK_S,
    ) -> None:
        self._log = log
        self._on_fatal = on_fatal
        self._max_flush_bytes = max_flush_bytes
        self._idle_mark_s = idle_mark_s
        self._queue: deque[_Submission] = deque()
        self._flight: list[_Submission] = []
        self._wanted = False
        """Whether a record in the queue must not wait."""
        self._busy = True
        """Whether a flush is under way or about to start; also before `run` and after the end."""
        self._open = True
        self._closing = False
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ended: asyncio.Event = asyncio.Event()
        self._idle_timer: asyncio.TimerHandle | None = None
        self._flush_ended_s = 0.0
        self.queued_bytes = 0
        """Bytes of payloads that were submitted and not answered yet."""
        self.flushes = 0
        self.records = 0
        self.bytes = 0
        self.flush_seconds = 0.0
        """Seconds of write + fdatasync over all flushes."""
        self.flush_samples: deque[float] = deque(maxlen=FLUSH_SAMPLES)
        """Seconds of the newest flushes; a reader that exports them may clear it."""

    def submit(self, records: Sequence[Record], need_sync: bool, done: Done) -> None:
        """Queue records that belong together.

        `done` is called on the loop with their positions when they are durable. Without `need_sync`
        they force no flush: they go with the next one, or when the log has been idle for a second.
        """
        if not self._open:
            raise WalClosed("group commit is closed")
        size = 0
        for record in records:
            size += len(record.payload)
        self.queued_bytes += size
        self._queue.append(_Submission(records, size, done))
        if need_sync:
            self._wanted = True
            if not self._busy:
                self._start_soon()

    async def run(self) -> None:
        """Start flushing; return after `close`, or after a fatal error was reported."""
        assert self._thread is None, "run once"
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._flush_thread, name="wal-flush", daemon=True)
        self._thread.start()
        self._busy = False
        self._flush_ended_s = time.monotonic()
        if self._wanted:
            self._start_soon()
        self._arm_idle_timer()
        await self._ended.wait()

    async def close(self) -> None:
        """Flush everything queued, and end the thread; the log stays open.

        After a fatal error nothing is flushed.
        """
        self._open = False
        self._closing = True
        if self._loop is None:
            self._ended.set()
            return
        if not self._busy:
            self._start_soon()
        await self._ended.wait()
        assert self._thread is not None
        self._thread.join()

    # On the loop.

    def _start_soon(self) -> None:
        """Start a flush at the end of this turn of the loop, so that submissions share it."""
        assert self._loop is not None
        self._busy = True
        self._loop.call_soon(self._start_flush)

    def _start_flush(self, mark: bool = False) -> None:
        """Hand queued records to the thread: `max_flush_bytes` at most, one submission at least."""
        flight = self._flight = []
        records: list[Record] = []
        size = 0
        while self._queue and (size < self._max_flush_bytes or not flight):
            submission = self._queue.popleft()
            flight.append(submission)
            records += submission.records
            size += submission.size
        if not self._queue:
            self._wanted = False
        if not records and self._closing:
            self._end()
            return
        self._jobs.put(_Job(records, mark))

    def _flushed(self, positions: list[Position], seconds: float, ended_s: float) -> None:
        """Start the next flush, then tell the submitters that their records are durable."""
        flight = self._flight
        size = 0
        for submission in flight:
            size += submission.size
        self.queued_bytes -= size
        self.bytes += size
        self.flushes += 1
        self.records += len(positions)
        self.flush_seconds += seconds
        self.flush_samples.append(seconds)
        self._flush_ended_s = ended_s
        if self._wanted or self._closing:
            self._start_flush()
        else:
            self._busy = False
        try:
            assert not positions or positions[-1] <= self._log.tail, (
                f"{positions[-1]} is told of, the log is synced to {self._log.tail}"
            )
            at = 0
            for records, _, done in flight:
                end = at + len(records)
                done(positions[at:end])
                at = end
            assert at == len(positions), f"{len(positions)} records for those who gave {at}"
        except BaseException as error:
            self._failed(error)
            raise

    def _arm_idle_timer(self) -> None:
        assert self._loop is not None
        self._idle_timer = self._loop.call_later(
            until_next_s(self._loop.time(), self._idle_mark_s), self._check_idle
        )

    def _check_idle(self) -> None:
        """Have an idle log marked (`log.mark`); called once a round, off the path of any flush."""
        if self._closing:
            return
        idle = not self._busy and time.monotonic() - self._flush_ended_s >= self._idle_mark_s
        if idle and (self._queue or not self._log.marked):
            self._busy = True
            self._start_flush(mark=True)
        self._arm_idle_timer()

    def _end(self) -> None:
        self._busy = True
        self._jobs.put(None)
        if self._idle_timer is not None:
            self._idle_timer.cancel()
        self._ended.set()

    def _failed(self, error: BaseException) -> None:
        if self._ended.is_set():
            return
        self._open = False
        self._closing = True
        self._queue.clear()
        self._flight = []
        self._end()
        self._on_fatal(error)

    # On the flush thread.

    def _flush_thread(self) -> None:
        assert self._loop is not None
        call = self._loop.call_soon_threadsafe
        log = self._log
        try:
            while (job := self._jobs.get()) is not None:
                started_s = time.monotonic()
                positions = log.write(job.records) if job.records else []
                if job.mark:
                    log.mark()
                log.sync()
                ended_s = time.monotonic()
                call(self._flushed, positions, ended_s - started_s, ended_s)
                if log.wants_spare:
                    log.prepare_spare()
        except OSError as error:
            call(self._failed, error)
        except BaseException as error:
            call(self._failed, error)
            raise
