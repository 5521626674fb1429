"""The turn of a request that changes something: its handler gives it back while it waits.

`gateway/write_limit.py` says who gets a turn, and puts it into the scope.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from edge.asgi import Scope
from edge.problem import Problem
from edge.shares import Permit, TooManyWaiting

PERMIT = "packetboat.turn"
"""The key in the scope for the turn that the request has; other requests have none."""


@asynccontextmanager
async def aside(scope: Scope) -> AsyncIterator[None]:
    """Give the turn to others while a part of a change waits for something else.

    The caller holds nothing of Postgres then.
    """
    permit: Permit | None = scope.get(PERMIT)
    if permit is None:
        yield
        return
    try:
        async with permit.aside():
            yield
    except TooManyWaiting as error:
        raise too_many_changes() from error


def too_many_changes() -> Problem:
    return Problem.of(
        "too-many-changes",
        "As many changes of this tenant wait for their turn here as may. Nothing of this request "
        "was done; send it again after the seconds of Retry-After.",
        retry_after_s=2,
    )
