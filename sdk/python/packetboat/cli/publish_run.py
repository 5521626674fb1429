"""Publishing what is read. A thread reads, so that a pipe that waits holds nothing up."""

from __future__ import annotations

import asyncio
import json
import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import Protocol

import msgspec

from packetboat.cli.publish_input import InputFailed, Item
from packetboat.cli.publish_summary import Summary
from packetboat.errors import PacketboatError
from packetboat.models import Outgoing, Receipt
from packetboat.publisher.pending import Pending, pending

READ_AHEAD = 2000
"""The limit of items that the reader reads ahead."""
TAKE_AT_ONCE = 500
LET_GO_S = 5.0
"""Seconds after Ctrl-C in which requests in progress may still be answered."""


class Publisher(Protocol):
    """The part of the SDK's publisher that a run uses."""

    def publish(self, topic: str, message: Pending) -> asyncio.Future[Receipt]: ...
    async def room(self) -> None: ...
    async def flush(self) -> None: ...
    async def close(self, timeout_s: float | None = None) -> None: ...


class Reader:
    """A thread that reads ahead; it is a daemon, as nobody can end a read of stdin."""

    def __init__(self, items: Iterator[Item]) -> None:
        self._items = items
        self._queue: queue.Queue[Item | BaseException | None] = queue.Queue(READ_AHEAD)
        threading.Thread(target=self._run, daemon=True, name="packetboat-reader").start()

    def take(self) -> list[Item]:
        """Return some items, once there is one; none at the end. Raises an error of the reader."""
        found = [self._queue.get()]
        while len(found) < TAKE_AT_ONCE and found[-1] is not None:
            try:
                found.append(self._queue.get_nowait())
            except queue.Empty:
                break
        for each in found:
            if isinstance(each, BaseException):
                raise each
        if None in found:
            self._queue.put(None)  # and so it is at the end from now on
        return [each for each in found if isinstance(each, Item)]

    def stop(self) -> None:
        """End a call that waits in `take`."""
        while True:
            try:
                self._queue.put_nowait(None)
                return
            except queue.Full:
                self._queue.get()

    def _run(self) -> None:
        try:
            for item in self._items:
                self._queue.put(item)
        except BaseException as error:
            self._queue.put(error)
        else:
            self._queue.put(None)


class Run:
    """One `packetboat publish`."""

    def __init__(
        self,
        publisher: Publisher,
        topic: str,
        *,
        rate: float | None = None,
        receipt: Callable[[str], None] | None = None,
        progress: Callable[[Summary], None] = lambda summary: None,
    ) -> None:
        self.summary: Summary = Summary()
        self._publisher = publisher
        self._topic = topic
        self._rate = rate
        self._receipt = receipt
        self._progress = progress
        self._sent = 0
        self._out = 0
        self._began_s = time.monotonic()

    async def run(self, items: Iterator[Item]) -> Summary:
        """Publish until all items are read and answered.

        Ctrl-C ends it early, with a complete summary.
        """
        reader = Reader(items)
        try:
            try:
                await self._publish_all(reader)
            except InputFailed as error:
                self.summary.input_failure = str(error)
            await self._publisher.flush()
        except asyncio.CancelledError:
            self.summary.interrupted = True
            await self._publisher.close(LET_GO_S)
        finally:
            reader.stop()
        await asyncio.sleep(0)  # callbacks of settled messages run in the next iteration
        self.summary.unknown += self._out
        return self.summary

    async def _publish_all(self, reader: Reader) -> None:
        loop = asyncio.get_running_loop()
        while not self._hopeless() and (taken := await loop.run_in_executor(None, reader.take)):
            for item in taken:
                if self._hopeless():
                    return
                await self._publish(item)
            self._progress(self.summary)

    def _hopeless(self) -> bool:
        return self.summary.hopeless is not None

    async def _publish(self, item: Item) -> None:
        if item.message is None:
            self.summary.bad(item.line, item.error or "")
            return
        if self._rate is not None:
            due_s = self._began_s + self._sent / self._rate
            await asyncio.sleep(max(due_s - time.monotonic(), 0))
        self._sent += 1
        self._out += 1
        try:
            await self._publisher.room()
            future = self._publisher.publish(self._topic, _pending(item.message))
        except PacketboatError as error:
            self._out -= 1
            self.summary.failed(item.line, error)
            return
        future.add_done_callback(lambda done: self._settled(item.line, done))

    def _settled(self, line: int, done: asyncio.Future[Receipt]) -> None:
        if done.cancelled():
            return  # still counted as on its way
        self._out -= 1
        error = done.exception()
        if isinstance(error, PacketboatError):
            self.summary.failed(line, error)
        elif error is not None:
            self.summary.bad(line, f"{type(error).__name__}: {error}")
        else:
            self.summary.stored(done.result())
            if self._receipt is not None:
                self._receipt(_line(line, done.result()))


def _pending(message: Outgoing) -> Pending:
    return pending(
        message.data,
        message.key,
        message.attributes,
        message.content_type,
        message.priority,
        message.idempotency_key,
        message.delay_seconds,
        message.deliver_at,
        message.ttl_seconds,
        publisher_id=None,
        durability=None,
        traceparent=message.traceparent,
        tracestate=message.tracestate,
    )


def _line(line: int, receipt: Receipt) -> str:
    shown = {"line": line, **json.loads(msgspec.json.encode(receipt))}
    return json.dumps(shown, separators=(",", ":")) + "\n"
