"""Defines the interface that refuses calls to a group while the group does not answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from store_nodes.errors import OutcomeUnknown, Unavailable


class GroupGuard(Protocol):
    """Guards the calls that only a group's leader can answer; the product uses a circuit breaker.

    It is told of appends and never refuses them: they keep their order, and their callers' own
    deadlines.
    """

    def admits(self) -> bool:
        """Return whether a call is worth its caller's time; now and then one is, even if most are
        not.
        """
        ...

    def began(self) -> int:
        """Learn that a call begins; return its number for `left`."""
        ...

    def left(self, call: int, *, answered: bool | None) -> None:
        """Learn that a call ended.

        `answered` says whether the leader answered, if only with a refusal; None if that is
        unknown.
        """
        ...

    def has_leader(self) -> None:
        """Learn that the group has a connected leader, after it had none or another."""
        ...


GuardOf = Callable[[int], GroupGuard]
"""Returns the guard of a group."""


def tell_of_append(guard: GroupGuard, append: asyncio.Future[Any]) -> None:
    """Report an append to the guard, now and when it ends."""
    call = guard.began()
    append.add_done_callback(partial(_tell_end, guard, call))


def is_answer(error: BaseException | None) -> bool:
    """Return whether the group answered, if only with an error."""
    return not isinstance(error, Unavailable | OutcomeUnknown)


def _tell_end(guard: GroupGuard, call: int, append: asyncio.Future[Any]) -> None:
    """Report to the guard how an append ended."""
    answered = None if append.cancelled() else is_answer(append.exception())
    guard.left(call, answered=answered)
