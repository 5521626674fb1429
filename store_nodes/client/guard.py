"""The seam at which calls to a group are refused while it does not answer."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any, Protocol

from store_nodes.errors import OutcomeUnknown, Unavailable


class GroupGuard(Protocol):
    """Stands before what only a group's leader can do; the product's is a circuit breaker each.

    Appends are told to it and never refused by it: they keep their order, and their callers' own
    deadlines.
    """

    def admits(self, group: int) -> bool:
        """Whether a call is worth its caller's time; where it is not, now and then one is."""
        ...

    def began(self, group: int) -> int:
        """A call is made; its number, for `left`."""
        ...

    def left(self, group: int, call: int, *, answered: bool | None) -> None:
        """It ended; `answered`: by the leader, be it with a refusal. None: that can't be said."""
        ...

    def has_leader(self, group: int) -> None:
        """It has a leader that is connected, and was without, or had another."""
        ...


def tell_of_append(guard: GroupGuard, group: int, append: asyncio.Future[Any]) -> None:
    """Of each append, as it begins."""
    call = guard.began(group)
    append.add_done_callback(partial(_tell_end, guard, group, call))


def is_answer(error: BaseException | None) -> bool:
    """Whether the group said so: not that nobody did in time."""
    return not isinstance(error, Unavailable | OutcomeUnknown)


def _tell_end(guard: GroupGuard, group: int, call: int, append: asyncio.Future[Any]) -> None:
    answered = None if append.cancelled() else is_answer(append.exception())
    guard.left(group, call, answered=answered)
