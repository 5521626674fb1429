"""Dialling a peer, and going on with it for as long as it is wanted."""

from __future__ import annotations

import os

Address = tuple[str, int]


class Backoff:
    """How long to wait before the next try: doubling up to a bound, each up to a half shorter at
    random."""

    def __init__(self, first_s: float, most_s: float) -> None:
        self._first_s = self._next_s = first_s
        self._most_s = most_s

    def reset(self) -> None:
        self._next_s = self._first_s

    def next_s(self) -> float:
        """Grows with each call."""
        wait_s = self._next_s
        self._next_s = min(self._most_s, wait_s * 2)
        return wait_s * (0.5 + os.urandom(1)[0] / 512)
