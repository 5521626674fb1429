"""How a request that waits learns that nobody is to be answered any more."""

from __future__ import annotations

import asyncio

from edge.asgi import ClientGone, Receive
from edge.problem import Problem


async def disconnected(receive: Receive) -> None:
    """Returns when the client has gone; the request was read before. Raises the Problem when its
    caller may not wait any longer."""
    while (await receive())["type"] != "http.disconnect":
        pass


def ended_by(gone: asyncio.Future[None]) -> Problem:
    """Why the wait is over, of a `disconnected` that is done: what is still to be told to the
    client. Raises ClientGone where the client has gone."""
    error = gone.exception()
    if error is None:
        raise ClientGone
    if not isinstance(error, Problem):
        raise error
    return error
