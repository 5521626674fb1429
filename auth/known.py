"""A cache of the rows that decide about tokens, in memory until the change feed reports a change.

A missing row is never remembered. Rows in memory stay in use while Postgres is down.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from auth.errors import VerifierUnavailable
from metadata.errors import MetadataError

MAX_KNOWN = 10_000
MAX_LOOKS = 4
"""Reads at a time, so that tokens that nobody issued take no more of the connections to
Postgres.
"""
K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Known(Generic[K, V]):
    """A bounded cache; a row that changed while it was read is not kept."""

    def __init__(self, read: Callable[[K], Awaitable[V | None]]) -> None:
        self._read = read
        self._values: dict[K, V] = {}
        self._changed = 0
        self._looks = asyncio.Semaphore(MAX_LOOKS)

    async def get(self, key: K) -> V | None:
        """Return a row, or None if it does not exist.

        Raises VerifierUnavailable if it cannot be read now.
        """
        value = self._values.get(key)
        if value is not None:
            return value
        async with self._looks:
            value = self._values.get(key)
            if value is not None:
                return value
            before = self._changed
            try:
                value = await self._read(key)
            except MetadataError as error:
                raise VerifierUnavailable("the metadata store cannot be reached") from error
        if value is not None and before == self._changed:
            while len(self._values) >= MAX_KNOWN:
                self._values.pop(next(iter(self._values)))
            self._values[key] = value
        return value

    def forget(self, which: Callable[[V], bool]) -> None:
        self._changed += 1
        self._values = {key: value for key, value in self._values.items() if not which(value)}
