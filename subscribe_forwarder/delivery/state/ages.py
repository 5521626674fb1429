"""The age of delivered messages, at no cost per message: one mark every few seconds."""

from __future__ import annotations

from collections import deque

_EVERY_MS = 1_000
_KEPT = 64


class Ages:
    """Offsets are handed out for the first time in ascending order. Pure."""

    __slots__ = ("_marks", "_out_to")

    def __init__(self, floor: int) -> None:
        self._marks: deque[tuple[int, int]] = deque(maxlen=_KEPT)
        self._out_to = floor

    def out_to(self, offset: int) -> None:
        """All below it was handed out, held or settled."""
        self._out_to = max(self._out_to, offset)

    def mark(self, now_ms: int) -> None:
        if not self._marks or now_ms - self._marks[-1][0] >= _EVERY_MS:
            self._marks.append((now_ms, self._out_to))

    def older(self, age_ms: int) -> int:
        """Return an offset below which messages were delivered `age_ms` before the last
        mark; 0: nothing known.
        """
        latest = self._marks[-1][0] if self._marks else 0
        return max((out for at, out in self._marks if latest - at >= age_ms), default=0)

    @property
    def all(self) -> int:
        return self._out_to
