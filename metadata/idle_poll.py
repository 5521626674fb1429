"""A poll for rows that control-plane transactions make: none while there can be nothing new.

Each control-plane transaction takes a version (changes.py), and the change feed of the process asks
for the latest one anyhow. So after a look that found nothing, there is nothing to find before the
version is another one.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

ANYWAY_EVERY_S = 15.0
"""Seconds after which a look happens without a change: other processes, like those of an
older version, may have made rows.
"""


class IdlePoll:
    """The state of one poller; `version` is the feed's, None while that is not known."""

    def __init__(
        self, version: Callable[[], int | None], *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._version = version
        self._clock = clock
        self._nothing_at: int | None = None
        """The version as of before the last look, when that found nothing."""
        self._looked_s = 0.0

    async def look(self, look: Callable[[], Awaitable[bool]]) -> None:
        """Call `look` if it may find something; it returns whether it did.

        An exception counts as found.
        """
        version, now_s = self._version(), self._clock()
        recent = now_s - self._looked_s < ANYWAY_EVERY_S
        if recent and version is not None and version == self._nothing_at:
            return
        self._nothing_at, self._looked_s = None, now_s
        if not await look():
            self._nothing_at = version
