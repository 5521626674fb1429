"""Wrong secrets are answered late, and the later the more there are of one client id.

A guesser gets a few answers at once and then one a second, however many connections it opens: a
guess that would wait too long is refused unlooked at. A client with the right secret never waits,
so nobody is locked out by others' guesses. Pure; times are seconds of any one clock.
"""

from __future__ import annotations

import math

FREE = 5
"""Wrong answers that come at once."""
EVERY_S = 1.0
MOST_WAIT_S = 3.0
MAX_CLIENTS = 10_000


class SlowDown:
    """Tracks when each client id's next wrong answer is due; the least recently wrong are
    forgotten.
    """

    def __init__(self) -> None:
        self._due_s: dict[str, float] = {}

    def failed(self, client_id: str, now_s: float) -> float | None:
        """Return the seconds to delay the answer that a secret is wrong; None: refuse to
        look again.
        """
        due_s = max(self._due_s.pop(client_id, -math.inf), now_s - FREE * EVERY_S) + EVERY_S
        wait_s = max(0.0, due_s - now_s)
        refused = wait_s > MOST_WAIT_S
        while len(self._due_s) >= MAX_CLIENTS:
            self._due_s.pop(next(iter(self._due_s)))
        self._due_s[client_id] = due_s - EVERY_S if refused else due_s
        return None if refused else wait_s
