"""Hashes that are the same in each run, of what sets of the product hold.

A set is gone through in the order of its hashes, and an object's own is where it lies in memory.
Within `numbered` the objects of some classes are hashed by the order in which they were made.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock


class SimFuture(asyncio.Future[Any]):
    """Numbered by its loop."""

    simulated_number = 0

    def __hash__(self) -> int:
        return self.simulated_number


class SimTask(asyncio.Task[Any]):
    """Numbered by its loop."""

    simulated_number = 0

    def __hash__(self) -> int:
        return self.simulated_number


@contextmanager
def numbered(*classes: type) -> Iterator[None]:
    """Objects of these classes that are made within have such a hash."""
    numbers = itertools.count(1)
    number_at: dict[int, int] = {}
    """The numbers by address; a later object at the same address has another."""

    def numbering(init: Any) -> Any:
        def made(self: Any, *args: Any, **named: Any) -> None:
            number_at[id(self)] = next(numbers)
            init(self, *args, **named)

        return made

    with ExitStack() as stack:
        for each in classes:
            init = numbering(each.__init__)  # type: ignore[misc]
            stack.enter_context(mock.patch.object(each, "__init__", init))
            number = lambda self: number_at[id(self)]  # noqa: E731
            stack.enter_context(mock.patch.object(each, "__hash__", number))
        yield
