"""The signal to a waiting request that its client has gone, or that its caller must not wait."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from edge.asgi import ClientGone, Receive, Scope
from edge.problem import Problem

DEPARTURE = "packetboat.departure"
"""The scope key of a function that returns a future that ends as `disconnected` does. A server adds
it if it knows of departures without a task that receives.
"""
T = TypeVar("T")


async def disconnected(receive: Receive) -> None:
    """Return when the client has gone; the request was read before.

    Raises the Problem if its caller may not wait any longer.
    """
    while (await receive())["type"] != "http.disconnect":
        pass


def departure(scope: Scope, receive: Receive) -> asyncio.Future[None]:
    """Return a future that ends as `disconnected` does; call `unwatch` with it at the end."""
    offered: Callable[[], asyncio.Future[None]] | None = scope.get(DEPARTURE)
    return asyncio.ensure_future(disconnected(receive)) if offered is None else offered()


async def unwatch(gone: asyncio.Future[None]) -> None:
    """End the task behind a future of `departure`, if there is one."""
    if isinstance(gone, asyncio.Task):
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)


def ended_by(gone: asyncio.Future[None]) -> Problem:
    """Return the Problem to answer with, from a `disconnected` that is done.

    Raises ClientGone if the client has gone.
    """
    error = gone.exception()
    if error is None:
        raise ClientGone
    if not isinstance(error, Problem):
        raise error
    return error


async def unless_gone(
    receive: Receive, work: Coroutine[Any, Any, T], undo: Callable[[T], None] = lambda _: None
) -> T:
    """Return the result of `work`, which is cancelled when the client goes.

    Raises ClientGone then, or the Problem if its caller may not wait any longer; `undo` gets a
    result that comes at that moment.
    """
    working = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(disconnected(receive))
    try:
        await asyncio.wait((working, gone), return_when=asyncio.FIRST_COMPLETED)
        if gone.done():
            raise ended_by(gone)
        return working.result()
    except BaseException:
        if working.done() and not working.cancelled() and not working.exception():
            undo(working.result())
        raise
    finally:
        working.cancel()
        gone.cancel()
        await asyncio.gather(working, gone, return_exceptions=True)
