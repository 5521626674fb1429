"""New filters of requests are read in short pieces, one filter at a time.

A long filter takes up to some twenty milliseconds of the event loop to read. Two of them in one
pass made all other requests wait for forty. So a request that brings a new filter waits until the
filter is read: a piece of some milliseconds, then a rest, in which the event loop is there for
others. Tenants take turns, so a tenant waits for its own filters, and for one of each other tenant.
"""

from __future__ import annotations

import asyncio
import math
import time
from contextlib import suppress

from edge.asgi import Scope, tenant_of
from edge.expressions.expression import (
    MESSAGE_VARIABLES,
    BadExpression,
    compile_filter,
    is_read,
    read_in_pieces,
)
from edge.shares import FairSemaphore, Shares
from edge.write_permit import aside

SHORT_CHARS = 256
"""A filter that is no longer takes a millisecond; it is read when it is compiled."""
PART = 0.25
"""The part of the event loop's time that new filters have."""
AT_ONCE = 1
_permits = FairSemaphore(Shares(AT_ONCE), Shares(math.inf))
"""Nobody is refused: a request that waits counts among those under way, which are bounded."""


async def read_ahead(
    scope: Scope, text: str | None, variables: tuple[str, ...] = MESSAGE_VARIABLES
) -> None:
    """Read the new filter of a request, so that compiling it costs nothing and says what is wrong.

    A request that changes something gives its turn to others meanwhile.
    """
    if text is None or len(text) <= SHORT_CHARS or is_read(text, variables):
        return
    async with aside(scope):
        await _read(tenant_of(scope), text, variables)
        if variables is MESSAGE_VARIABLES:
            with suppress(BadExpression):
                # The index of attributes answers one part; the rest is compiled by itself.
                equalities, rest = compile_filter(text).conjunction()
                if equalities and rest is not None:
                    await _read(tenant_of(scope), rest, variables)


async def _read(tenant_id: bytes, text: str, variables: tuple[str, ...]) -> None:
    async with _permits.permit(tenant_id):
        if is_read(text, variables):
            return
        pieces = read_in_pieces(text, variables)
        left = True
        while left:
            began_s = time.thread_time()
            left = next(pieces, False) is None
            await asyncio.sleep((1 / PART - 1) * (time.thread_time() - began_s))
