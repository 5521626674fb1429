"""The signal to a waiting request that its client has gone, or that its caller must not wait."""

from __future__ import annotations

import asyncio

from edge.asgi import ClientGone, Receive
from edge.problem import Problem


async def disconnected(receive: Receive) -> None:
    """Return when the client has gone; the request was read before.

    Raises the Problem if its caller may not wait any longer.
    """
    while (await receive())["type"] != "http.disconnect":
        pass


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
