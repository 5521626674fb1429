"""Sends the inputs of a job: a page is sent while the next is read, with a limit of pages
in flight.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable, AsyncIterator, Iterable
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any, NamedTuple

import msgspec

from packetboat.aio.sender import AsyncSender
from packetboat.calls import jobs as calls
from packetboat.calls.work import MAX_INPUT_BYTES, MAX_TASKS
from packetboat.sync.sender import Sender
from packetboat.tasks.values import encode

PAGES_IN_FLIGHT = 4
PAGE_BYTES = 1024 * 1024


class Page(NamedTuple):
    """Inputs of tasks that follow each other."""

    first_index: int
    inputs: list[msgspec.Raw]


class Pages:
    """Gathers inputs to pages. The same inputs always make the same pages."""

    def __init__(self) -> None:
        self.count: int = 0
        self._inputs: list[msgspec.Raw] = []
        self._bytes = 0

    def add(self, value: Any) -> Page | None:
        """Add an input; return a page if it is full now.

        Raises ValueError for an input that is too large.
        """
        raw = encode(value)
        size = len(bytes(raw))
        if size > MAX_INPUT_BYTES:
            text = f"input {self.count} has {size} bytes of JSON, and may have {MAX_INPUT_BYTES}"
            raise ValueError(f"{text}: pass a reference to what is larger")
        full = len(self._inputs) == MAX_TASKS or self._bytes + size > PAGE_BYTES
        page = self.rest() if full else None
        self._inputs.append(raw)
        self._bytes += size
        self.count += 1
        return page

    def rest(self) -> Page | None:
        """Return the gathered inputs as a page, whether or not it is full."""
        if not self._inputs:
            return None
        page = Page(self.count - len(self._inputs), self._inputs)
        self._inputs, self._bytes = [], 0
        return page


class AsyncUpload:
    """The upload of one job's inputs.

    It may be repeated from the start: the server knows the inputs that it has.
    """

    def __init__(self, sender: AsyncSender, job: str, timeout_s: float | None = None) -> None:
        self._sender = sender
        self._timeout_s = timeout_s
        self._job = job
        self._in_flight: set[asyncio.Task[None]] = set()

    async def send(self, inputs: Iterable[Any] | AsyncIterable[Any]) -> int:
        """Send all inputs; return their number. An iterator that blocks holds up the loop."""
        pages = Pages()
        try:
            async for value in _each(inputs):
                await self._put(pages.add(value))
            await self._put(pages.rest())
            while self._in_flight:
                await self._await_some()
        finally:
            for task in self._in_flight:
                task.cancel()
            await asyncio.gather(*self._in_flight, return_exceptions=True)
        return pages.count

    async def _put(self, page: Page | None) -> None:
        if page is None:
            return
        while len(self._in_flight) >= PAGES_IN_FLIGHT:
            await self._await_some()
        call = calls.add_tasks(self._job, page.first_index, page.inputs)
        self._in_flight.add(asyncio.ensure_future(self._sender.send(call, self._timeout_s)))

    async def _await_some(self) -> None:
        done, self._in_flight = await asyncio.wait(
            self._in_flight, return_when=asyncio.FIRST_COMPLETED
        )
        for task in done:
            task.result()


class Upload:
    """The upload of one job's inputs by threads."""

    def __init__(self, sender: Sender, job: str, timeout_s: float | None = None) -> None:
        self._sender = sender
        self._timeout_s = timeout_s
        self._job = job
        self._in_flight: set[Future[None]] = set()

    def send(self, inputs: Iterable[Any]) -> int:
        """Send all inputs; return their number."""
        pages = Pages()
        with ThreadPoolExecutor(PAGES_IN_FLIGHT, "packetboat-upload") as threads:
            for value in inputs:
                self._put(pages.add(value), threads)
            self._put(pages.rest(), threads)
            while self._in_flight:
                self._await_some()
        return pages.count

    def _put(self, page: Page | None, threads: ThreadPoolExecutor) -> None:
        if page is None:
            return
        while len(self._in_flight) >= PAGES_IN_FLIGHT:
            self._await_some()
        call = calls.add_tasks(self._job, page.first_index, page.inputs)
        self._in_flight.add(threads.submit(self._sender.send, call, self._timeout_s))

    def _await_some(self) -> None:
        done, self._in_flight = wait(self._in_flight, return_when=FIRST_COMPLETED)
        for future in done:
            future.result()


async def _each(inputs: Iterable[Any] | AsyncIterable[Any]) -> AsyncIterator[Any]:
    if isinstance(inputs, AsyncIterable):
        async for value in inputs:
            yield value
    else:
        for value in inputs:
            yield value
