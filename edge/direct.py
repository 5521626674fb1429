"""The interface of operations that are also served directly: by calls, without a task or a scope.

A request is served directly when its head came before and its whole body is here. The operation
makes a `Prepare` of the head, which holds only what follows from its bytes. Each request asks it
for an `Accept`, which is called with the body, and replies once, at once or later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from edge.asgi import Header


class Answer(NamedTuple):
    """A whole answer in JSON."""

    status: int
    body: bytes
    headers: Sequence[Header]


Reply = Callable[[Callable[[], Answer]], None]
"""Takes a function, which is called in turn: it makes the answer, or raises the error that the
dispatcher would answer.
"""
Accept = Callable[[bytes, Reply], None]
"""Takes the body of a request, and replies. It raises a Problem if it accepts nothing."""
Prepare = Callable[[bytes], Accept | None]
"""Looks up, for the tenant of a request, how to accept it; it neither waits nor changes anything.

Returns None if the request must be dispatched as any other, which may refuse it.
"""
Plan = Callable[[Mapping[str, str], Iterable[Header]], Prepare | None]
"""Reads the parameters of a path and the headers; None for a head that is not served directly."""
