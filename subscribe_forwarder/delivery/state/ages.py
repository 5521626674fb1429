"""Estimates the age of delivered messages, at no cost per message: one mark every few seconds."""

from __future__ import annotations

from collections import deque

_EVERY_MS = 1_000
_KEPT = 64


class Ages:
    """Marks how far messages were delivered; first deliveries come in ascending order. Pure."""

    __slots__ = ("_marks", "_out_to")

    def __init__(self, floor: int) -> None:
        self._marks: deque[tuple[int, int]] = deque(maxlen=_KEPT)
        self._out_to = floor

    def out_to(self, offset: int) -> None:
        """Note that all below an offset is delivered, held or settled."""
        self._out_to = max(self._out_to, offset)

    def mark(self, now_ms: int) -> None:
        """Note the time at which all offsets so far were delivered, every few seconds."""
        if not self._marks or now_ms - self._marks[-1][0] >= _EVERY_MS:
            self._marks.append((now_ms, self._out_to))

    def older(self, age_ms: int) -> int:
        """Return an offset below which messages are older than `age_ms` at the last mark, or 0."""
        latest = self._marks[-1][0] if self._marks else 0
        return max((out for at, out in self._marks if latest - at >= age_ms), default=0)

    @property
    def all(self) -> int:
        return self._out_to
