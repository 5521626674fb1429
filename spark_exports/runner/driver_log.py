"""What a driver writes to its stderr, bounded: the newest is kept until it is told."""

from __future__ import annotations

from collections import deque

MAX_LINE_CHARS = 2_000
MAX_UNTOLD_CHARS = 64_000
MAX_TOLD_CHARS = 16_000
TAIL_CHARS = 4_000


class DriverLog:
    """Lines that were not told yet, and the tail of all."""

    def __init__(self) -> None:
        self._untold: deque[str] = deque()
        self._untold_chars = 0
        self._left_out = 0
        self._tail: deque[str] = deque()
        self._tail_chars = 0

    def add(self, line: str) -> None:
        """Without its end. What is too long is cut; where nobody takes lines, the oldest go."""
        if len(line) > MAX_LINE_CHARS:
            line = line[:MAX_LINE_CHARS] + " …"
        self._untold.append(line)
        self._untold_chars += len(line) + 1
        while self._untold_chars > MAX_UNTOLD_CHARS:
            self._untold_chars -= len(self._untold.popleft()) + 1
            self._left_out += 1
        self._tail.append(line)
        self._tail_chars += len(line) + 1
        while self._tail_chars > TAIL_CHARS:
            self._tail_chars -= len(self._tail.popleft()) + 1

    def take(self) -> str | None:
        """The next lines to tell, each with its end; None: there are none. They count as told."""
        lines = []
        if self._left_out:
            lines.append(f"… {self._left_out} lines left out\n")
            self._left_out = 0
        size = 0
        while self._untold and size + len(self._untold[0]) < MAX_TOLD_CHARS:
            line = self._untold.popleft()
            self._untold_chars -= len(line) + 1
            size += len(line) + 1
            lines.append(line + "\n")
        return "".join(lines) or None

    def take_last(self) -> str | None:
        """The end of what was not told, where no more can be told after it."""
        while self._untold_chars > MAX_TOLD_CHARS:
            self._untold_chars -= len(self._untold.popleft()) + 1
            self._left_out += 1
        return self.take()

    @property
    def tail(self) -> str:
        """The end of it, for an error's message."""
        return "\n".join(self._tail)
