"""Passes events in a forwarder on to counters elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from metadata.types import Unit


def _unheard(_: Any) -> None:
    """Ignore an event that nobody listens to."""


class Listeners:
    """Passes on the events of one process; each call is on the loop, and must return at once."""

    __slots__ = ("grew", "moved", "worked")

    def __init__(self) -> None:
        self.grew: Callable[[Unit], None] = _unheard
        """More of a partition may be readable, or less kept."""
        self.moved: Callable[[Unit], None] = _unheard
        """A unit is owned here from now on, or no more."""
        self.worked: Callable[[bytes], None] = _unheard
        """Messages of a subscription were delivered or settled, or a consumer came or went."""

    def listen(
        self,
        *,
        grew: Callable[[Unit], None],
        moved: Callable[[Unit], None],
        worked: Callable[[bytes], None],
    ) -> None:
        """Call these from now on; there is one listener."""
        self.grew, self.moved, self.worked = grew, moved, worked
