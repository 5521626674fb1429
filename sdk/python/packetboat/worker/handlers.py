"""Any function that a user gives, as one coroutine function of contexts."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from packetboat.codec import decoder
from packetboat.models import Message
from packetboat.worker.context import Context
from packetboat.worker.emit import Emit
from packetboat.worker.outcomes import Reject
from packetboat.worker.threads import Threads

Handler = Callable[..., Any]
"""A function of a message, or of a list of messages; a second parameter receives the
context, or the list of contexts.
"""
Middleware = Callable[[Any, Callable[[], Any]], Any]
"""A function of the context (or the list of contexts) and a function that calls the
handler; it returns what that function returns, or raises. A coroutine function runs around
the handler on the event loop; a plain function runs in the handler's own thread, so it fits
plain handlers only.
"""


STREAM_TASK = "packetboat_stream_task"
"""The attribute of a handler that is one."""


class StreamTask(NamedTuple):
    """`to`: where what is no `Emit` goes; None: nowhere."""

    to: str | None

    def outputs(self, value: Any, message: Message) -> list[Any]:
        """Return the handler's values as a list; the caller refuses each that is no `Emit`."""
        if value is None:
            return []
        given = value if isinstance(value, list | tuple) else [value]
        if self.to is None:
            return list(given)
        return [
            each if isinstance(each, Emit) else Emit(self.to, each, message.key) for each in given
        ]


class Handling:
    """The way in which one worker calls its handler."""

    def __init__(
        self,
        handler: Handler,
        *,
        batches: bool,
        body: Any = None,
        middleware: Sequence[Middleware] = (),
        threads: int = 1,
    ) -> None:
        self.batches = batches
        self.stream_task: StreamTask | None = getattr(handler, STREAM_TASK, None)
        if batches and self.stream_task is not None:
            raise ValueError("a stream task takes one message at a time: its acks are its own")
        self._decode = None if body is None else decoder_of(body)
        self._takes_context = takes_context(handler)
        self._is_async = _is_async(handler)
        self._around = [each for each in middleware if _is_async(each)]
        inner = [each for each in middleware if not _is_async(each)]
        if inner and self._is_async:
            raise TypeError("an async handler needs async middleware")
        self._function = _gathering(handler, inner, is_async=self._is_async)
        self._thread_count = threads
        self._threads: Threads | None = None

    def decode(self, context: Context) -> None:
        """Sets its body. Raises Reject where the data is none."""
        if self._decode is None:
            return
        try:
            context.body = self._decode(context.message)
        except Exception as error:
            raise Reject(f"{type(error).__name__}: {error}") from error

    async def __call__(self, given: Context | list[Context]) -> Any:
        """Return the handler's value; for a generator, all values that it yields."""
        call: Callable[[], Awaitable[Any]] = functools.partial(self._call, given)
        for middleware in reversed(self._around):
            call = functools.partial(middleware, given, call)
        return await call()

    async def free(self) -> None:
        """Until another handler may begin: a thread that outlived its time is not."""
        if self._threads is not None:
            await self._threads.free()

    def close(self) -> None:
        if self._threads is not None:
            self._threads.close()

    async def _call(self, given: Context | list[Context]) -> Any:
        if self._is_async:
            return await self._function(given, *self._arguments(given))
        if self._threads is None:
            self._threads = Threads(self._thread_count)
        value = await self._threads.submit(self._function, given, *self._arguments(given))
        return await value if inspect.isawaitable(value) else value

    def _arguments(self, given: Context | list[Context]) -> tuple[Any, ...]:
        first: Any
        if isinstance(given, list):
            first = [self._first(context) for context in given]
        else:
            first = self._first(given)
        return (first, given) if self._takes_context else (first,)

    def _first(self, context: Context) -> Any:
        return context.message if self._decode is None else context.body


def decoder_of(body: Any) -> Callable[[Message], Any]:
    """Return a decoder to a type: one that msgspec knows, a pydantic model, or bytes and
    str unchanged.
    """
    if body is bytes:
        return lambda message: message.body
    if body is str:
        return lambda message: message.text
    validate = getattr(body, "model_validate_json", None)
    if validate is not None:
        return lambda message: validate(message.body)
    decode = decoder(body)
    return lambda message: decode(message.body)


def _is_async(function: Callable[..., Any]) -> bool:
    while isinstance(function, functools.partial):
        function = function.func
    candidates = (function, getattr(function, "__call__", None))  # noqa: B004
    return any(
        inspect.iscoroutinefunction(each) or inspect.isasyncgenfunction(each) for each in candidates
    )


def takes_context(handler: Handler) -> bool:
    """Return whether the second positional parameter has no default, or is named context."""
    try:
        parameters = list(inspect.signature(handler).parameters.values())
    except (TypeError, ValueError):
        return False  # Something built in, such as list.append.
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if len(places) < 2:
        return False
    return places[1].default is inspect.Parameter.empty or places[1].name == "context"


def _gathering(
    handler: Handler, inner: Sequence[Middleware], *, is_async: bool
) -> Callable[..., Any]:
    """Return a function of the argument of middleware and the handler's arguments."""
    if is_async:
        return _gathering_async(handler)

    def gather(given: Any, *arguments: Any) -> Any:
        def call() -> Any:
            value = handler(*arguments)
            return list(value) if inspect.isgenerator(value) else value

        for middleware in reversed(inner):
            call = functools.partial(middleware, given, call)
        return call()

    return gather


def _gathering_async(handler: Handler) -> Callable[..., Any]:
    async def gather(given: Any, *arguments: Any) -> Any:
        value = handler(*arguments)
        if inspect.isasyncgen(value):
            return [each async for each in value]
        return await value

    return gather
