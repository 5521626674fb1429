"""The backlogs that all forwarders have told, joined.

A partition's share stays as its last owner told it until another forwarder tells of it, for
`STALE_S` at most: a takeover is no empty subscription. Meanwhile the whole says that it is
incomplete. Pure: times are seconds of the caller's monotonic clock.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from subscribe_forwarder.fleet.backlogs.part import Part, Share, Totals

STALE_S = 15.0
"""Three takeovers: what nobody has told anew by then is nobody's knowledge."""


@dataclass(frozen=True, slots=True)
class Backlog(Totals):
    """The backlog of one subscription over all its partitions."""

    shares: tuple[Share, ...]
    complete: bool
    """Every partition's present owner has told; else the numbers may be old, or too low."""
    waiting: int
    streams: int
    """The most at one forwarder: a consumer that waits at several is one."""
    delivered_per_s: float
    paused: str | None


class _Known:
    """The parts of one subscription."""

    __slots__ = ("parts", "stale")

    def __init__(self) -> None:
        self.parts: dict[bytes, Part] = {}
        """The parts by forwarder; the last told is the last of them."""
        self.stale: dict[int, tuple[Share, float]] = {}
        """By partition: what was last told, and when its teller gave it up."""


class ReportedBacklogs:
    """The backlogs by subscription; `forget` those that nobody asks for any more."""

    def __init__(self) -> None:
        self._known: dict[bytes, _Known] = {}
        self._stale: set[bytes] = set()
        """The subscriptions that may have something stale."""

    def __len__(self) -> int:
        return len(self._known)

    @property
    def any_stale(self) -> bool:
        """Whether `expire` is to be called."""
        return bool(self._stale)

    def take(self, forwarder: bytes, part: Part, now_s: float) -> bool:
        """Take a part; returns whether it says anything new.

        A part that is older than the known one does not.
        """
        known = self._known.get(part.subscription_uid)
        before = None if known is None else known.parts.get(forwarder)
        if before is None and not part.shares and not part.waiting and not part.streams:
            return False
        if before is not None and before.number >= part.number:
            return False
        known = known or self._known.setdefault(part.subscription_uid, _Known())
        known.parts.pop(forwarder, None)
        known.parts[forwarder] = part
        told = {share.partition for share in part.shares}
        for partition in told:
            known.stale.pop(partition, None)
        if before is not None:
            self._keep(known, before, now_s)
        return before is None or not before.says_the_same(part)

    def gone(self, forwarder: bytes, now_s: float) -> set[bytes]:
        """Forget a forwarder that reports no more; return the subscriptions of which it had
        reported.
        """
        changed = set()
        for uid, known in self._known.items():
            part = known.parts.pop(forwarder, None)
            if part is not None:
                self._keep(known, part, now_s)
                changed.add(uid)
        return changed

    def expire(self, now_s: float) -> set[bytes]:
        """Drops what is stale for too long; the subscriptions that had it."""
        changed = set()
        for uid in list(self._stale):
            stale = self._known[uid].stale
            late = [p for p, (_, since_s) in stale.items() if now_s - since_s >= STALE_S]
            for partition in late:
                del stale[partition]
                changed.add(uid)
            if not stale:
                self._stale.discard(uid)
        return changed

    def forget(self, subscription_uid: bytes) -> None:
        self._known.pop(subscription_uid, None)
        self._stale.discard(subscription_uid)

    def view(self, subscription_uid: bytes, partitions: int) -> Backlog:
        """Return the backlog of the subscription over the topic's `partitions`."""
        known = self._known.get(subscription_uid) or _Known()
        shares = {partition: share for partition, (share, _) in known.stale.items()}
        stale = set(shares)
        for part in known.parts.values():
            for share in part.shares:
                shares[share.partition] = share
                stale.discard(share.partition)
        parts = known.parts.values()
        return Backlog(
            tuple(share for _, share in sorted(shares.items()) if share.partition < partitions),
            not stale and all(partition in shares for partition in range(partitions)),
            max((part.waiting for part in parts), default=0),
            max((part.streams for part in parts), default=0),
            sum(part.delivered_per_s for part in parts),
            next((part.paused for part in parts if part.paused is not None), None),
        )

    def most_backlog_first(
        self, subscription_uid: bytes, forwarders: Iterable[bytes]
    ) -> list[bytes]:
        """Return the forwarders with the most messages that nobody has leased first.

        Those that have told nothing follow; those that have told of nothing to do come last.
        """
        known = self._known.get(subscription_uid) or _Known()

        def rank(forwarder: bytes) -> tuple[int, int]:
            part = known.parts.get(forwarder)
            ready = 0 if part is None else part.messages - part.leased
            return (0 if ready > 0 else 1 if part is None else 2, -ready)

        return sorted(forwarders, key=rank)

    def _keep(self, known: _Known, gone: Part, now_s: float) -> None:
        """Keep the shares of that part as stale, unless another forwarder tells of them."""
        told = {share.partition for part in known.parts.values() for share in part.shares}
        for share in gone.shares:
            if share.partition not in told:
                known.stale[share.partition] = (share, now_s)
                self._stale.add(gone.subscription_uid)
