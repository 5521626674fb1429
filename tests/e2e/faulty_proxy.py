"""A reverse proxy that does to requests what networks do: it loses them or their answers, cuts
answers short, delays, sends twice, and lets some arrive after their client gave up."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections import Counter
from collections.abc import AsyncIterator
from enum import Enum
from typing import NamedTuple

import aiohttp
from aiohttp import web

SLOW_S = 0.4
_HOP_BY_HOP = frozenset({"connection", "host", "keep-alive", "transfer-encoding", "content-length"})


class Fault(Enum):
    """What happens to one request."""

    NONE = "none"
    LOST = "the request is lost, and its connection"
    ANSWER_LOST = "it was served, and its answer is lost"
    CUT = "its answer ends in the middle"
    LATE = "it arrives after its connection was lost"
    SLOW = "it arrives later, so that others overtake it"
    TWICE = "it arrives twice; the second answer is given"


FAULTS = tuple(fault for fault in Fault if fault is not Fault.NONE)


class _Answer(NamedTuple):
    status: int
    headers: list[tuple[str, str]]
    body: bytes


class FaultyProxy:
    """In front of the server at `target`; `share` of the requests have a fault, by `seed`."""

    def __init__(self, target: str, seed: int, share: float = 0.5) -> None:
        self.url = ""
        self.share = share
        self.always: Fault | None = None
        self.seen: Counter[Fault] = Counter()
        self._target = target
        self._dice = random.Random(seed)
        self._late: set[asyncio.Task[_Answer]] = set()
        self._onward: aiohttp.ClientSession

    def fault(self) -> Fault:
        """Of the next request."""
        fault = self.always
        if fault is None:
            fault = self._dice.choice(FAULTS) if self._dice.random() < self.share else Fault.NONE
        self.seen[fault] += 1
        return fault

    async def serve(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            body = await request.read()
        except (OSError, aiohttp.ClientError):
            return web.Response(status=400)  # whoever asked has gone
        fault = self.fault()
        if fault in (Fault.LOST, Fault.LATE):
            _cut(request)
            if fault is Fault.LATE:
                task = asyncio.create_task(self._forward(request, body, SLOW_S))
                self._late.add(task)
                task.add_done_callback(self._late.discard)
            return web.Response(status=502)
        if fault is Fault.TWICE:
            await self._forward(request, body)
        answer = await self._forward(request, body, SLOW_S if fault is Fault.SLOW else 0.0)
        if fault is Fault.ANSWER_LOST:
            _cut(request)
        return await _given(request, answer, cut=fault is Fault.CUT)

    async def _forward(
        self, request: web.BaseRequest, body: bytes, after_s: float = 0.0
    ) -> _Answer:
        await asyncio.sleep(after_s)
        headers = [(k, v) for k, v in request.headers.items() if k.lower() not in _HOP_BY_HOP]
        async with self._onward.request(
            request.method, self._target + request.raw_path, headers=headers, data=body
        ) as answer:
            kept = [(k, v) for k, v in answer.headers.items() if k.lower() not in _HOP_BY_HOP]
            return _Answer(answer.status, kept, await answer.read())

    async def settle(self) -> None:
        """Returns when nothing is on its way any more."""
        await asyncio.gather(*self._late, return_exceptions=True)

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[FaultyProxy]:
        async with aiohttp.ClientSession(auto_decompress=False) as self._onward:
            runner = web.ServerRunner(web.Server(self.serve), shutdown_timeout=0.5)
            await runner.setup()
            site = web.TCPSite(runner, "127.0.0.1", 0)
            await site.start()
            host, port = runner.addresses[0][:2]
            self.url = f"http://{host}:{port}"
            try:
                yield self
            finally:
                await self.settle()
                await runner.cleanup()


def _cut(request: web.BaseRequest) -> None:
    if request.transport is not None:
        request.transport.abort()


async def _given(request: web.BaseRequest, answer: _Answer, *, cut: bool) -> web.StreamResponse:
    response = web.StreamResponse(status=answer.status)
    for name, value in answer.headers:
        response.headers.add(name, value)
    response.content_length = len(answer.body)
    with contextlib.suppress(OSError):
        await response.prepare(request)
        if cut:
            await response.write(answer.body[: len(answer.body) // 2])
            _cut(request)
        else:
            await response.write(answer.body)
    return response
