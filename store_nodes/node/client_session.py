"""Serves one client of a store node; answers each of its requests from the `ClientService`.

Bounds, per connection: `MAX_REQUESTS_IN_FLIGHT` requests and `MAX_COMMAND_BYTES_IN_FLIGHT` of
commands; beyond either bound, and while the client reads its replies too slowly, nothing more is
read from it (TCP pushes back). Watches are coalesced to the latest state per queue meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence

import msgspec
import structlog

from peering.rpc.frames import Buffer, Goodbye
from store_nodes.errors import Conflict, NotSupported, StoreError
from store_nodes.node.client_service import (
    ClientService,
    FetchResult,
    GroupSnapshot,
    StagedBatch,
)
from store_nodes.node.watches import Watch as QueueWatch
from store_nodes.transport import failures
from store_nodes.wire import (
    REQUESTS,
    Accepted,
    Appended,
    Cancel,
    Command,
    Durability,
    EntryHead,
    Fetch,
    Fetched,
    FetchStaged,
    Finished,
    Head,
    Locate,
    LocationIs,
    OffsetAt,
    OffsetIs,
    Offsets,
    OffsetsAre,
    Ping,
    Pong,
    QueueOffsets,
    Queues,
    QueuesAre,
    Released,
    Snapshot,
    SnapshotPart,
    Staged,
    StagedAre,
    StagedBatches,
    StagedHead,
    Status,
    StatusIs,
    StoreConnection,
    Unknown,
    Watch,
    Watched,
    WatchEdit,
)

MAX_REQUESTS_IN_FLIGHT = 8192
MAX_COMMAND_BYTES_IN_FLIGHT = 64 * 1024 * 1024
MAX_FETCHES_AT_ONCE = 8
MAX_FETCH_BYTES = 16 * 1024 * 1024
MAX_WATCHED_PER_FRAME = 10_000
MAX_STAGED_PER_FRAME = 10_000
MAX_QUEUES_PER_FRAME = 10_000
SNAPSHOT_PART_BYTES = 4 * 1024 * 1024

_log = structlog.get_logger("store_nodes.server")
_durabilities = {int(level): level for level in Durability}


class _Reply:
    """A `CommandReply` that is sent as frames."""

    __slots__ = ("_bytes", "_id", "_session")

    def __init__(self, session: ClientSession, request_id: int, command_bytes: int) -> None:
        """Begin the reply to a command."""
        self._session: ClientSession | None = session
        self._id = request_id
        self._bytes = command_bytes

    def accepted(self) -> None:
        if self._session is not None:
            self._session.connection.send_or_cut(Accepted(self._id))

    def appended(
        self, base_offset: int, count: int, log_time_us: int, *, duplicate: bool = False
    ) -> None:
        """Answer that the messages are stored."""
        self._finish(Appended(self._id, base_offset, count, log_time_us, duplicate))

    def released(self, offsets: tuple[int | None, ...], log_time_us: int) -> None:
        self._finish(Released(self._id, offsets, log_time_us))

    def finished(self, value: int, log_time_us: int) -> None:
        self._finish(Finished(self._id, value, log_time_us))

    def failed(self, error: StoreError, *, decided: bool) -> None:
        self._finish(failures.encode(self._id, error, decided=decided))

    def _finish(self, head: Head) -> None:
        """Send the answer once, and count the command as answered."""
        session, self._session = self._session, None
        if session is not None:
            session.connection.send_or_cut(head)
            session.release(self._bytes)


class _WatchStream:
    """One watch of a client: the latest state of each changed queue, sent as soon as the client
    reads.
    """

    def __init__(self, session: ClientSession, stream_id: int) -> None:
        self._session = session
        self._id = stream_id
        self._changed: dict[bytes, QueueOffsets] = {}
        self.handle: QueueWatch | None = None

    def sink(self, queues: Sequence[QueueOffsets]) -> None:
        """Send the states of changed queues; those that the client does not read yet are kept."""
        for queue in queues:
            self._changed[queue.queue] = queue
        self.flush()

    def flush(self) -> None:
        """Send the latest state of changed queues, as long as the client reads them."""
        connection = self._session.connection
        while self._changed and connection.open and not connection.congested:
            names = list(self._changed)[:MAX_WATCHED_PER_FRAME]
            queues = tuple(self._changed.pop(name) for name in names)
            connection.send(Watched(self._id, queues))

    def close(self) -> None:
        self._changed.clear()
        if self.handle is not None:
            self.handle.close()


class ClientSession:
    """Serves the connection of one admitted client."""

    def __init__(
        self,
        service: ClientService,
        connection: StoreConnection,
        on_closed: Callable[[ClientSession], None],
    ) -> None:
        self.connection = connection
        self._service = service
        self._on_closed = on_closed
        self._requests = 0
        self._command_bytes = 0
        self._paused = False
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._watches: dict[int, _WatchStream] = {}
        self._fetching = asyncio.Semaphore(MAX_FETCHES_AT_ONCE)
        self._drained = asyncio.Event()
        self._drained.set()
        self._snapshot: GroupSnapshot | None = None
        """The snapshot being sent in parts; it is dropped with its last part."""
        self._snapshot_number = 0
        self._handlers: dict[type[Head], Callable[[Head, bytes], None]] = {
            Command: self._on_command,  # type: ignore[dict-item]
            Ping: self._on_ping,  # type: ignore[dict-item]
            Fetch: self._on_fetch,  # type: ignore[dict-item]
            Offsets: self._on_offsets,  # type: ignore[dict-item]
            OffsetAt: self._on_offset_at,  # type: ignore[dict-item]
            Queues: self._on_queues,  # type: ignore[dict-item]
            Status: self._on_status,  # type: ignore[dict-item]
            Watch: self._on_watch,  # type: ignore[dict-item]
            WatchEdit: self._on_watch_edit,  # type: ignore[dict-item]
            Cancel: self._on_cancel,  # type: ignore[dict-item]
            Staged: self._on_staged,  # type: ignore[dict-item]
            Locate: self._on_locate,  # type: ignore[dict-item]
            FetchStaged: self._on_fetch_staged,  # type: ignore[dict-item]
            Snapshot: self._on_snapshot,  # type: ignore[dict-item]
            Goodbye: self._on_goodbye,  # type: ignore[dict-item]
        }

    # FrameHandler.

    def frame(self, head: Head | Unknown, body: bytes) -> None:
        if isinstance(head, Unknown):
            self._on_unknown(head)
            return
        handler = self._handlers.get(type(head))
        if handler is None:
            self.connection.close(f"unexpected {type(head).__name__}")
            return
        handler(head, body)

    def closed(self, reason: str) -> None:
        for watch in self._watches.values():
            watch.close()
        self._watches.clear()
        for task in self._tasks.values():
            task.cancel()
        self._drained.set()
        self._on_closed(self)

    def congestion(self, congested: bool) -> None:
        if congested:
            self._drained.clear()
        else:
            self._drained.set()
            for watch in self._watches.values():
                watch.flush()
        self._pace()

    async def join(self) -> None:
        """Wait until the session's calls have ended, after the connection is closed."""
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    # Replies and flow control.

    def release(self, command_bytes: int = 0) -> None:
        """Count a request as answered, and read from the client again below the bounds."""
        self._requests -= 1
        self._command_bytes -= command_bytes
        if self._paused:
            self._pace()

    def _take(self, command_bytes: int = 0) -> None:
        """Count a request as begun; stop reading from the client at the bounds."""
        self._requests += 1
        self._command_bytes += command_bytes
        if (
            self._requests >= MAX_REQUESTS_IN_FLIGHT
            or self._command_bytes >= MAX_COMMAND_BYTES_IN_FLIGHT
        ):
            self._pace()

    def _pace(self) -> None:
        """Pause or resume reading, by the requests in flight and the unsent bytes."""
        share = 0.5 if self._paused else 1.0
        pause = (
            self.connection.congested
            or self._requests >= MAX_REQUESTS_IN_FLIGHT * share
            or self._command_bytes >= MAX_COMMAND_BYTES_IN_FLIGHT * share
        )
        if pause and not self._paused:
            self.connection.pause_reading()
        elif self._paused and not pause:
            self.connection.resume_reading()
        self._paused = pause

    # Requests.

    def _on_command(self, head: Command, body: bytes) -> None:
        """Pass a command on, with a reply that sends its answer."""
        self._take(len(body))
        reply = _Reply(self, head.id, len(body))
        durability = _durabilities.get(head.durability)
        if durability is None:
            error = NotSupported(f"durability {head.durability}")
            reply.failed(error, decided=False)
            return
        self._service.command(head.group, body, durability, head.timeout_ms, reply)

    def _on_ping(self, head: Ping, body: bytes) -> None:
        self.connection.send_or_cut(Pong(head.id, tuple(self._service.leaders())))

    def _on_fetch(self, head: Fetch, body: bytes) -> None:
        """Answer a fetch in a task."""

        async def fetch() -> None:
            """Fetch batches and send them, once the client has read earlier replies."""
            async with self._fetching:
                await self._drained.wait()
                limit = min(head.max_bytes, MAX_FETCH_BYTES)
                result = await self._service.fetch(head.group, head.queue, head.offset, limit)
                self.connection.send_or_cut(*_fetched(head.id, result))

        self._run(head.id, fetch())

    def _on_offsets(self, head: Offsets, body: bytes) -> None:
        """Answer a request for the offsets of a queue in a task."""

        async def offsets() -> None:
            """Send the offsets of a queue, and the log time."""
            found, log_time_us = await self._service.offsets(
                head.group, head.queue, confirm=head.confirm
            )
            self.connection.send_or_cut(OffsetsAre(head.id, found, log_time_us))

        self._run(head.id, _within(head.timeout_ms, offsets()))

    def _on_offset_at(self, head: OffsetAt, body: bytes) -> None:
        async def offset_at() -> None:
            if head.last_bytes is None:
                offset = await self._service.offset_at(head.group, head.queue, head.time_us)
            else:
                offset = await self._service.offset_back(head.group, head.queue, head.last_bytes)
            self.connection.send_or_cut(OffsetIs(head.id, offset))

        self._run(head.id, offset_at())

    def _on_queues(self, head: Queues, body: bytes) -> None:
        async def queues() -> None:
            limit = min(head.limit, MAX_QUEUES_PER_FRAME)
            found = await self._service.queues(head.group, head.after, limit)
            self.connection.send_or_cut(QueuesAre(head.id, tuple(found)))

        self._run(head.id, queues())

    def _on_status(self, head: Status, body: bytes) -> None:
        async def status() -> None:
            said = await self._service.status(groups=head.groups)
            self.connection.send_or_cut(StatusIs(head.id), [msgspec.msgpack.encode(said)])

        self._run(head.id, status())

    def _on_watch(self, head: Watch, body: bytes) -> None:
        if head.id in self._watches:
            self.connection.close("a watch id was used twice")
            return
        stream = _WatchStream(self, head.id)
        try:
            stream.handle = self._service.watch(head.group, stream.sink)
        except StoreError as error:
            self.connection.send_or_cut(failures.encode(head.id, error, decided=False))
            return
        self._watches[head.id] = stream

    def _on_watch_edit(self, head: WatchEdit, body: bytes) -> None:
        stream = self._watches.get(head.id)
        if stream is None or stream.handle is None:
            return  # it failed to open, and the client has been told
        for queue in head.remove:
            stream.handle.remove(queue)
        for queue in head.add:
            stream.handle.add(queue)

    def _on_cancel(self, head: Cancel, body: bytes) -> None:
        stream = self._watches.pop(head.id, None)
        if stream is not None:
            stream.close()
        task = self._tasks.get(head.id)
        if task is not None:
            task.cancel()

    def _on_staged(self, head: Staged, body: bytes) -> None:
        async def staged() -> None:
            if head.changes_after is None:
                limit = min(head.limit, MAX_STAGED_PER_FRAME)
                found, changes = await self._service.staged(
                    head.group, head.queue, head.after, limit
                )
                self.connection.send_or_cut(StagedAre(head.id, tuple(found), changes))
                return
            changed, changes = await self._service.staged_changes(
                head.group, head.queue, head.changes_after
            )
            overrun = changed is None
            self.connection.send_or_cut(StagedAre(head.id, tuple(changed or ()), changes, overrun))

        self._run(head.id, staged())

    def _on_locate(self, head: Locate, body: bytes) -> None:
        async def locate() -> None:
            state, offset = await self._service.locate(head.group, head.queue, head.stage_number)
            self.connection.send_or_cut(LocationIs(head.id, state, offset))

        self._run(head.id, locate())

    def _on_fetch_staged(self, head: FetchStaged, body: bytes) -> None:
        async def fetch_staged() -> None:
            async with self._fetching:
                await self._drained.wait()
                limit = min(head.max_bytes, MAX_FETCH_BYTES)
                found = await self._service.fetch_staged(
                    head.group, head.queue, head.stage_number, limit
                )
                self.connection.send_or_cut(*_fetched_staged(head.id, found))

        self._run(head.id, fetch_staged())

    def _on_snapshot(self, head: Snapshot, body: bytes) -> None:
        async def snapshot() -> None:
            async with self._fetching:
                await self._drained.wait()
                if head.number == 0:
                    self._snapshot = await self._service.snapshot(
                        head.group, head.least, confirm=head.confirm
                    )
                    self._snapshot_number += 1
                held = self._snapshot
                if held is None or head.number not in (0, self._snapshot_number):
                    raise Conflict(self._snapshot_number)
                part = memoryview(held.raw)[head.offset : head.offset + SNAPSHOT_PART_BYTES]
                if head.offset + len(part) >= len(held.raw):
                    self._snapshot = None
                number, size = self._snapshot_number, len(held.raw)
                self.connection.send_or_cut(
                    SnapshotPart(head.id, number, size, held.applied, held.oldest), [part]
                )

        self._run(head.id, snapshot())

    def _on_unknown(self, head: Unknown) -> None:
        if head.number in REQUESTS:
            error = NotSupported(f"requests of type {head.number}")
            self.connection.send_or_cut(failures.encode(head.id, error, decided=False))

    def _on_goodbye(self, head: Goodbye, body: bytes) -> None:
        self.connection.abort(f"goodbye: {head.text}")

    def _run(self, request_id: int, call: Coroutine[None, None, None]) -> None:
        """Answer a request in a task of this session; `call` sends its own success."""
        if request_id in self._tasks:
            call.close()
            self.connection.close("a request id was used twice")
            return
        self._take()
        task = asyncio.get_running_loop().create_task(self._guard(request_id, call))
        self._tasks[request_id] = task

    async def _guard(self, request_id: int, call: Awaitable[None]) -> None:
        """Await the call of a request, send its StoreError, and count the request as answered."""
        try:
            await call
        except StoreError as error:
            self.connection.send_or_cut(failures.encode(request_id, error, decided=False))
        except Exception:
            # This is a bug: the client cannot be left waiting, and its other calls cannot be
            # trusted.
            _log.exception("a call failed", client=self.connection.peer_name)
            self.connection.abort("internal error")
            raise
        finally:
            self._tasks.pop(request_id, None)
            self.release()


async def _within(timeout_ms: int, call: Awaitable[None]) -> None:
    """Run a call with a time-out, after which nothing is sent, because nobody waits any more."""
    try:
        async with asyncio.timeout(timeout_ms / 1000):
            await call
    except TimeoutError:
        return


def _fetched(request_id: int, result: FetchResult) -> tuple[Head, list[Buffer]]:
    """Return the reply to a fetch: its head, and the batches that follow it."""
    heads = tuple(
        EntryHead(
            entry.base_offset, entry.log_time_us, entry.stage, entry.indices, len(entry.batch)
        )
        for entry in result.entries
    )
    head = Fetched(request_id, result.first_offset, result.readable_end, heads)
    return head, [entry.batch for entry in result.entries]


def _fetched_staged(request_id: int, batches: Sequence[StagedBatch]) -> tuple[Head, list[Buffer]]:
    heads = tuple(
        StagedHead(each.base_stage, each.messages, each.log_time_us, len(each.batch))
        for each in batches
    )
    return StagedBatches(request_id, heads), [each.batch for each in batches]
