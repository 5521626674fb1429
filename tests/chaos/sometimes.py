"""Situations that a run must have been in, or it has proved nothing about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable


class Sometimes:
    """Counts how often each listed situation was seen; `missing` are those that never were."""

    def __init__(self, listed: Iterable[str]) -> None:
        self.seen: Counter[str] = Counter()
        self.heard: Callable[[str], None] | None = None
        """Told of each situation as it is seen."""
        self._listed = tuple(listed)

    def hit(self, what: str, when: bool = True) -> None:
        """Note that a situation was seen, if `when`; an unlisted one is a mistake in the
        harness.
        """
        assert what in self._listed, what
        if when:
            self.seen[what] += 1
            if self.heard is not None:
                self.heard(what)

    @property
    def missing(self) -> list[str]:
        return [what for what in self._listed if not self.seen[what]]

    def require(self) -> None:
        """Raises AssertionError naming what was not seen."""
        assert not self.missing, f"never seen: {self.missing}; seen: {dict(self.seen)}"
