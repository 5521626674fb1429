"""When changes are told: the first at once, later ones of the same thing together.

Pure: times are seconds of the caller's monotonic clock.
"""

from __future__ import annotations


class Pace:
    """A pace for keys: each is due at most once in `interval_s`, and unchanged keys cost
    nothing.
    """

    def __init__(self, interval_s: float) -> None:
        self._interval_s = interval_s
        self._ready: set[bytes] = set()
        self._resting: dict[bytes, float] = {}
        """The time until which each key rests that was due lately, in that order."""
        self._again: set[bytes] = set()
        """The resting keys that have changed since."""

    def changed(self, key: bytes) -> None:
        if key in self._resting:
            self._again.add(key)
        else:
            self._ready.add(key)

    def forget(self, key: bytes) -> None:
        self._ready.discard(key)
        self._again.discard(key)
        self._resting.pop(key, None)

    def due(self, now_s: float) -> set[bytes]:
        """Return the keys to tell now; they rest from then on."""
        rested = []
        for key, until_s in self._resting.items():
            if until_s > now_s:
                break
            rested.append(key)
        for key in rested:
            del self._resting[key]
            if key in self._again:
                self._again.remove(key)
                self._ready.add(key)
        due, self._ready = self._ready, set()
        self._resting.update(dict.fromkeys(due, now_s + self._interval_s))
        return due

    def next_s(self) -> float | None:
        """Return when to ask for the keys that are due; 0: at once, None: after a change.

        The time may be early, never late.
        """
        if self._ready:
            return 0.0
        return next(iter(self._resting.values())) if self._again else None
