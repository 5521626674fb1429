"""Chooses the order of requests that arrive, or end, at once, so that tenants take turns.

The loop reads all sockets that have data before anything else goes on, and a flood may have
thousands. So one pass of the loop looks at AT_ONCE of the requests that it has read, of which
HANDLERS_AT_ONCE get to their handlers; the others wait in lists, one for each tenant, and each pass
takes from the lists by turns. Requests of a tenant that has few get to the handlers, and back from
the store, past those of a tenant that has many. Requests whose client has left wait in the same
lists, because a handler takes as long to end as to begin.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

AT_ONCE = 16
HANDLERS_AT_ONCE = 6
"""Handlers that begin, or learn that they may end, in one pass. Each takes 0.1 to 0.2 ms, so they
share a millisecond. A publish waits for six passes or more.
"""
DIRECT = 0.25
"""The part of a handler that a request takes that is served directly."""
ANSWERS_AT_ONCE = 64
"""Answers in one pass to requests that are served directly. Each takes 15 µs, and some more for its
socket, so they share a millisecond or two.
"""
TakeTurn = Callable[[], None]


class RoundRobin:
    """Orders the requests of one listener, or their answers.

    Invariant: a connection that is told to wait is called once, whatever happens.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, at_once: int = AT_ONCE) -> None:
        """Begin with a pass that has room for `at_once`."""
        self._loop = loop
        self._at_once = self._left = at_once
        self._handlers_left: float = HANDLERS_AT_ONCE
        self._lines: dict[bytes, deque[TakeTurn]] = {}
        self._scheduled = False

    def admits(self, take_turn: TakeTurn, tenant_id: bytes) -> bool:
        """Return whether a connection may go on now; else `take_turn` is called when it may.

        It waits behind others of `tenant_id`, the tenant of its request, or of its last one.
        """
        if not self._scheduled:
            self._scheduled = True
            self._left, self._handlers_left = self._at_once, HANDLERS_AT_ONCE
            self._loop.call_soon(self._next_pass)
        if self._left and self._handlers_left > 0 and not self._lines:
            self._left -= 1
            return True
        line = self._lines.get(tenant_id)
        if line is None:
            line = self._lines[tenant_id] = deque()
        line.append(take_turn)
        return False

    def handled(self, part: float = 1) -> None:
        """Count a handler, or a part of one, that a turn makes run in this pass or the next."""
        self._handlers_left -= part

    def _next_pass(self) -> None:
        """Let the next connections that wait go on, from each tenant by turns."""
        self._left, self._handlers_left = self._at_once, HANDLERS_AT_ONCE
        self._scheduled = bool(self._lines)
        if self._scheduled:
            # Before the turns: one that fails costs the others no more than this pass.
            self._loop.call_soon(self._next_pass)
        while self._lines and self._left and self._handlers_left > 0:
            self._left -= 1
            tenant_id = next(iter(self._lines))
            line = self._lines.pop(tenant_id)
            take_turn = line.popleft()
            if line:
                self._lines[tenant_id] = line  # behind the others
            take_turn()
