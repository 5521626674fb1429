"""Moves the time of an installation on, so that no part of it takes that for a fault."""

from __future__ import annotations

import contextlib

from gateway.testing import postgres_clock
from gateway.testing.installation import Installation, NotStarted

SMALL_S = 2.0
"""Leases of four seconds, renewed each second, live through a step of this size."""
LAST_S = 1.2
"""The part of a larger step that comes last: pauses before a next try are over after it."""
TAKEN_S = 30.0
READY_S = 60.0
_NOTICED_S = 1.0


def advance(installation: Installation, seconds: float) -> None:
    """Move time on by `seconds` everywhere.

    Returns when the server is ready again. Raises NotStarted.
    """
    if seconds > SMALL_S:
        _step(installation, seconds - LAST_S)
        _until_noticed(installation)
        _step(installation, LAST_S)
    else:
        _step(installation, seconds)
    installation.until(installation.log_follows, "on the new time in the log", READY_S)
    installation.until(installation.ready, "ready again", READY_S)


def _step(installation: Installation, by_s: float) -> None:
    shared = installation.shared
    postgres_clock.move(installation.database_url, by_s)
    shared.ask(shared.asked_us + round(by_s * 1e6))
    installation.until(lambda: shared.taken_us == shared.asked_us, "on the new time", TAKEN_S)


def _until_noticed(installation: Installation) -> None:
    """Wait until the scheduler sees that it may have lost its lock, and starts its work again."""
    with contextlib.suppress(NotStarted):
        installation.until(lambda: not installation.shared.leading, "noticed", _NOTICED_S)
