"""One who wants to hear of some subscriptions' backlogs."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

from subscribe_forwarder.fleet.backlogs.part import Wanted
from subscribe_forwarder.fleet.backlogs.reported import Backlog


class Watch:
    """Bounded by what it follows: what changed twice before it was taken is there once."""

    def __init__(
        self,
        followed: Callable[[Watch, Mapping[bytes, Wanted], Mapping[bytes, Wanted]], None],
        view: Callable[[Wanted], Backlog],
    ) -> None:
        """`followed` is told what was followed before and what is from now on."""
        self._followed = followed
        self._view = view
        self._wanted: dict[bytes, Wanted] = {}
        self._changed: set[bytes] = set()
        self.woken = asyncio.Event()
        """Set when something has changed."""

    @property
    def wanted(self) -> Mapping[bytes, Wanted]:
        return self._wanted

    def follow(self, wanted: Mapping[bytes, Wanted]) -> None:
        """Follow these subscriptions, and no others."""
        before, self._wanted = self._wanted, dict(wanted)
        self._changed &= wanted.keys()
        self._followed(self, before, self._wanted)

    def view(self, subscription_uid: bytes) -> Backlog:
        """Return the backlog of a followed subscription, as far as it is known."""
        return self._view(self._wanted[subscription_uid])

    def changed(self, subscription_uid: bytes) -> None:
        self._changed.add(subscription_uid)
        self.woken.set()

    def take(self) -> set[bytes]:
        """Return the subscriptions that have changed since the last call."""
        self.woken.clear()
        taken, self._changed = self._changed, set()
        return taken

    def close(self) -> None:
        """Close it; idempotent."""
        self.follow({})
