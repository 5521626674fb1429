"""A transport that stores what is published, and can be told to fail or to hold its answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

import msgspec
from packetboat.aio.sender import AsyncSender
from packetboat.calls import Producer
from packetboat.errors import ApiError, PacketboatError
from packetboat.options import Options
from packetboat.publisher.pending import Pending
from packetboat.publisher.results import Result
from packetboat.publisher.settings import PublisherSettings
from packetboat.transport.seam import AsyncStreamResponse, Request, Response

from tests.unit.sdk.publisher_model import Store, message

PRODUCER = Producer()


class Server:
    """`failures` are the ends of the next requests, in turn; None is a success. While it is `held`
    nothing is answered."""

    def __init__(self, *failures: PacketboatError | None) -> None:
        self.store = Store()
        self.failures = list(failures)
        self.requests: list[Request] = []
        self.held = False
        self.closed = False

    async def send(self, request: Request) -> Response:
        self.requests.append(request)
        while self.held:
            await asyncio.sleep(0.001)
        failure = self.failures.pop(0) if self.failures else None
        if failure is not None:
            raise failure
        return response(self.store.store(request, lambda partition: None))

    def stream(self, request: Request) -> AbstractAsyncContextManager[AsyncStreamResponse]:
        raise NotImplementedError

    async def close(self) -> None:
        self.closed = True

    def bodies(self) -> list[bytes]:
        """Return the bodies of all stored messages."""
        return [item["data"] for partition in self.store.partitions for item in partition]

    def sender(self) -> AsyncSender:
        return AsyncSender(Options(), self)


def response(results: Sequence[Result]) -> Response:
    encoded = [
        msgspec.to_builtins(each.problem if isinstance(each, ApiError) else each)
        for each in results
    ]
    return Response(200, {}, msgspec.json.encode({"results": encoded}))


def settings(**given: Any) -> PublisherSettings:
    return PublisherSettings(**given)


def numbered(count: int, key: str | None = None) -> list[Pending]:
    return [message(b"%d" % number, key) for number in range(count)]
