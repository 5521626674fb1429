"""The calls that a worker makes of a client: one try each, as the worker knows when to try again.

Tests put others in their place.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from packetboat.aio.sender import AsyncSender
from packetboat.calls import Call, consuming, messaging
from packetboat.calls.call import long_poll_s
from packetboat.calls.consuming import Ids
from packetboat.calls.pages import settled_again, unknown_pages
from packetboat.calls.streams import Splitter, decode_line
from packetboat.errors import NotAuthorized, UnknownOutcome, error_of
from packetboat.models import Message, Output, Settled
from packetboat.worker.emit import Emit

P = ParamSpec("P")
T = TypeVar("T")
TIMEOUT_S = 30.0
MAX_CONSUMER_CHARS = 128
SHORT_S = 1.0
"""A stream that is refused so soon is refused for good."""


class Lease(Protocol):
    """The delivery settings of a subscription that a worker needs."""

    @property
    def delivery(self) -> str: ...
    @property
    def ack_deadline_seconds(self) -> float: ...


class WorkerCalls(Protocol):
    """The calls that a worker makes for one subscription. Each raises what the client raises."""

    async def describe(self) -> Lease: ...
    async def pull(
        self, max_messages: int, max_bytes: int, wait_seconds: float
    ) -> list[Message]: ...
    def stream(
        self, max_messages: int, max_bytes: int, max_seconds: float
    ) -> AbstractAsyncContextManager[AsyncIterator[list[Message]]]:
        """Yield the messages of a stream; those that arrive together form one list.

        Ends when the server ends the stream, or raises.
        """
        ...

    async def ack(self, messages: Sequence[Message], publish: Sequence[Emit] = ()) -> Settled: ...
    async def nack(
        self, messages: Sequence[Message], delay_s: float | None, reason: str | None
    ) -> Settled: ...
    async def reject(self, messages: Sequence[Message], reason: str | None) -> Settled: ...
    async def release(self, messages: Sequence[Message]) -> Settled: ...
    async def extend(self, messages: Sequence[Message], seconds: float) -> Settled: ...


class SenderCalls:
    """The calls of a worker for one subscription, made with a client's sender."""

    def __init__(self, sender: AsyncSender, subscription: str, consumer: str | None) -> None:
        self._sender = sender
        self._subscription = subscription
        self._consumer = consumer or consumer_name()

    async def describe(self) -> Lease:
        return await self._send(messaging.get_subscription(self._subscription))

    async def pull(self, max_messages: int, max_bytes: int, wait_seconds: float) -> list[Message]:
        # A pull that timed out here might leave leased what it was answered.
        wait_seconds = long_poll_s(wait_seconds, self._sender.options.timeout_s)
        call = consuming.pull(
            self._subscription, max_messages, wait_seconds, max_bytes, consumer=self._consumer
        )
        return await self._send(call)

    @asynccontextmanager
    async def stream(
        self, max_messages: int, max_bytes: int, max_seconds: float
    ) -> AsyncIterator[AsyncIterator[list[Message]]]:
        call = consuming.stream(
            self._subscription,
            max_outstanding_messages=max_messages,
            max_outstanding_bytes=max_bytes,
            max_seconds=max_seconds,
            consumer=self._consumer,
        )
        async with self._sender.stream(call) as response:
            yield read_messages(response.chunks())

    async def ack(self, messages: Sequence[Message], publish: Sequence[Emit] = ()) -> Settled:
        return await self._settle(consuming.ack, messages, [_output(each) for each in publish])

    async def nack(
        self, messages: Sequence[Message], delay_s: float | None, reason: str | None
    ) -> Settled:
        return await self._settle(consuming.nack, messages, delay_s, reason)

    async def reject(self, messages: Sequence[Message], reason: str | None) -> Settled:
        return await self._settle(consuming.reject, messages, reason)

    async def release(self, messages: Sequence[Message]) -> Settled:
        return await self._settle(consuming.release, messages)

    async def extend(self, messages: Sequence[Message], seconds: float) -> Settled:
        return await self._settle(consuming.modify_ack_deadline, messages, seconds)

    async def _settle(
        self,
        call_of: Callable[Concatenate[str, Ids, bool, P], Call[Settled]],
        messages: Sequence[Message],
        *more: P.args,
        **named: P.kwargs,
    ) -> Settled:
        """Settle messages; those of pages that an earlier server does not know, by message id."""
        settled = await self._send(call_of(self._subscription, messages, False, *more, **named))
        places = unknown_pages(settled)
        if not places:
            return settled
        again = [messages[at] for at in places]
        call = call_of(self._subscription, again, True, *more, **named)
        return settled_again(settled, places, await self._send(call))

    async def _send(self, call: Call[T]) -> T:
        return await self._sender.send_once(call, TIMEOUT_S)


async def read_messages(chunks: AsyncIterator[bytes]) -> AsyncIterator[list[Message]]:
    """Yield the messages of each chunk as one list; raises UnknownOutcome where the stream
    has no end.
    """
    splitter = Splitter()
    opened_s = time.monotonic()
    async for chunk in chunks:
        messages = []
        for text in splitter.feed(chunk):
            line = decode_line(text)
            if line.message is not None:
                messages.append(line.message)
            elif line.end is not None:
                if messages:
                    yield messages
                if line.end.problem is not None:
                    _raise_of(error_of(line.end.problem), time.monotonic() - opened_s)
                return
        yield messages
    raise UnknownOutcome("the stream was cut off")


def _raise_of(error: Exception, seconds: float) -> None:
    """Raise the problem that ended a stream; ignore the expiry of a token after `SHORT_S`
    seconds, which ends only this stream.
    """
    expired = isinstance(error, NotAuthorized) and error.status == 401 and seconds > SHORT_S
    if not expired:
        raise error


def _output(emit: Emit) -> Output:
    return Output(
        topic=emit.topic,
        data=emit.data,
        content_type=emit.content_type,
        key=emit.key,
        attributes=emit.attributes,
        priority=emit.priority,
        ttl_seconds=emit.ttl_seconds,
        traceparent=emit.traceparent,
        tracestate=emit.tracestate,
    )


def consumer_name() -> str:
    """Return host and process id in printable ASCII, whatever name the host has."""
    name = f"{socket.gethostname()}-{os.getpid()}"
    return name.encode("ascii", "replace").decode()[-MAX_CONSUMER_CHARS:]
