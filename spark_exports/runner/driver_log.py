"""The bounded log of a driver's stderr, which keeps the newest lines until they are sent."""

from __future__ import annotations

from collections import deque

MAX_LINE_CHARS = 2_000
MAX_UNTOLD_CHARS = 64_000
MAX_TOLD_CHARS = 16_000
TAIL_CHARS = 4_000


class DriverLog:
    """The lines that were not sent yet, and the tail of all lines."""

    def __init__(self) -> None:
        self._untold: deque[str] = deque()
        self._untold_chars = 0
        self._left_out = 0
        self._tail: deque[str] = deque()
        self._tail_chars = 0

    def add(self, line: str) -> None:
        """Add a line without its end.

        Long lines are cut; if nobody takes lines, the oldest are dropped.
        """
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
        """Return the next lines to send, each with its end; None if there are none.

        They count as sent.
        """
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
        """Return the last lines that were not sent, if no more can be sent afterwards."""
        while self._untold_chars > MAX_TOLD_CHARS:
            self._untold_chars -= len(self._untold.popleft()) + 1
            self._left_out += 1
        return self.take()

    @property
    def tail(self) -> str:
        """The last lines, for an error's message."""
        return "\n".join(self._tail)
