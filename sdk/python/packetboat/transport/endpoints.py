"""The choice among several servers: the client stays with the server that answered last."""

from __future__ import annotations

import random

REST_S = 1.0
MAX_REST_S = 30.0


class Endpoints:
    """The order in which servers are tried.

    A server that fails rests, twice as long each time, and is tried meanwhile only when all rest.
    The client stays with a server that answers, and does not return to another only because that
    one is first.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._current = 0
        self._failures = [0] * count
        self._rests_until_s = [0.0] * count

    def order(self, now_s: float) -> list[int]:
        """Return the servers to try for one request, in turn; each at most once."""
        turn = [(self._current + step) % self._count for step in range(self._count)]
        awake = [index for index in turn if self._rests_until_s[index] <= now_s]
        return awake or [min(turn, key=self._rests_until_s.__getitem__)]

    def answered(self, index: int) -> None:
        self._current = index
        self._failures[index] = 0
        self._rests_until_s[index] = 0.0

    def failed(self, index: int, now_s: float) -> None:
        """Let a server rest. When many requests fail at once, only the first lengthens the rest."""
        if self._rests_until_s[index] > now_s:
            return
        rest_s = min(MAX_REST_S, REST_S * 2 ** self._failures[index])
        self._failures[index] = min(self._failures[index] + 1, 10)
        self._rests_until_s[index] = now_s + random.uniform(rest_s / 2, rest_s)
