"""A server that is a list of answers, and what it was asked."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import msgspec
from packetboat.errors import PacketboatError
from packetboat.transport import Request, Response

Answer = Response | PacketboatError


def ok(body: object, status: int = 200) -> Response:
    return Response(status, {}, msgspec.json.encode(body))


def problem(status: int, slug: str, headers: Mapping[str, str] | None = None) -> Response:
    body = {
        "type": f"https://packetboat.dev/problems/{slug}",
        "title": "A title",
        "status": status,
        "detail": "A detail.",
        "errors": [{"field": "name", "detail": "is wrong"}],
    }
    return Response(status, headers or {}, msgspec.json.encode(body))


class StreamScript:
    """An answer, a line at a time."""

    def __init__(self, answer: Response) -> None:
        self.status = answer.status
        self.headers = answer.headers
        self.body = answer.body

    def chunks(self) -> Iterator[bytes]:
        yield from self.body.splitlines(keepends=True)

    def read(self) -> bytes:
        return self.body


class AsyncStreamScript:
    """A script of streams for asyncio."""

    def __init__(self, answer: Response) -> None:
        self.status = answer.status
        self.headers = answer.headers
        self.body = answer.body

    async def chunks(self) -> AsyncIterator[bytes]:
        for line in self.body.splitlines(keepends=True):
            yield line

    async def read(self) -> bytes:
        return self.body


class Script:
    """A transport that gives its answers in turn."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.requests: list[Request] = []

    def send(self, request: Request) -> Response:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, PacketboatError):
            raise answer
        return answer

    @contextmanager
    def stream(self, request: Request) -> Iterator[StreamScript]:
        yield StreamScript(self.send(request))

    def close(self) -> None:
        self.answers.clear()

    def body(self, index: int = -1) -> Any:
        return msgspec.json.decode(self.requests[index].body)


class AsyncScript:
    """A script for the asyncio client."""

    def __init__(self, *answers: Answer) -> None:
        self.script = Script(*answers)

    async def send(self, request: Request) -> Response:
        return self.script.send(request)

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncIterator[AsyncStreamScript]:
        yield AsyncStreamScript(self.script.send(request))

    async def close(self) -> None:
        self.script.close()


RECEIPT = {
    "message_id": "m" * 40,
    "topic": "orders",
    "partition": 3,
    "offset": 17,
    "publish_time": "2026-01-31T23:59:59.123456Z",
    "duplicate": False,
}
