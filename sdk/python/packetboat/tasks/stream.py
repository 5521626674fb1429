"""Stream tasks: handlers that turn a message into others, acked and published in one transaction.

A chain of them is exactly once from its first topic to its last, whatever dies on the way: an ack
with its outputs is one commit, and sending it again changes nothing. Other effects of a handler,
such as a call to a shop's payment service, may happen more than once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, overload

from packetboat.worker.emit import Emit
from packetboat.worker.handlers import STREAM_TASK, StreamTask

__all__ = ["Emit", "stream_task"]
H = TypeVar("H", bound=Callable[..., Any])


@overload
def stream_task(handler: H) -> H: ...
@overload
def stream_task(*, to: str | None = None) -> Callable[[H], H]: ...
def stream_task(handler: Any = None, *, to: str | None = None) -> Any:
    """Marks a handler for `Worker.run` or above `@app.subscription(…)`; it stays the function it
    was.

    It returns or yields `Emit(topic, data, …)`: one, many (at most 100 and 10 MiB a message), or
    nothing. With `to`, whatever else it gives is published there under the key of its message;
    without, that is an error, and the message is tried again. The subscription can't be
    at_most_once: there is no ack to publish with.
    """

    def mark(function: Any) -> Any:
        setattr(function, STREAM_TASK, StreamTask(to))
        return function

    return mark if handler is None else mark(handler)
