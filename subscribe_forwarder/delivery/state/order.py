"""Order within a key: one message of each key may be delivered at a time, the oldest first.

Invariant: of two unsettled messages of a key, the later is never delivered before the earlier is
settled. The first one known of a key is its *head* and may be out; those behind it are held, and as
the head is settled, in whatever way, the next becomes head. The head stays head over nacks, ends of
leases and back-off: a redelivery blocks its key and no other.

A key is known by a hash: two keys with the same one wait for each other, and nothing else happens.
A parked key lets nothing go: its head waits for an operator, and what comes later is put behind it.

A head with a time to live unblocks its key when that is over (`overdue`), also while it is in
back-off and nobody looks.

Pure: no clock, no I/O. Offsets of a key come in ascending order.
"""

from __future__ import annotations

import enum
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence, Set
from hashlib import blake2b
from heapq import heappop, heappush


def hash_of(key: str) -> int:
    """Return the hash of a key, signed 64 bits. It never changes: rows of `deliveries` hold it."""
    return int.from_bytes(blake2b(key.encode(), digest_size=8).digest(), "big", signed=True)


class Verdict(enum.Enum):
    """go: it may go out now; hold: an earlier one of its key is not settled; behind: its key is
    parked."""

    GO = "go"
    HOLD = "hold"
    BEHIND = "behind"


class KeyOrder:
    """The unsettled messages with a key of one subscription in one lane, as far as it has read."""

    def __init__(self) -> None:
        self._heads: dict[int, int] = {}
        """The oldest unsettled offset of each key, by key hash."""
        self._behind: dict[int, OrderedDict[int, None]] = {}
        """The later offsets of each key, ascending, by key hash; a key without any has no entry."""
        self._key_of: dict[int, int] = {}
        self._parked: set[int] = set()
        self.set_aside = 0
        """The number of messages with a parked key, its head included."""
        self._expires_us: dict[int, int] = {}
        self._expiring: list[tuple[int, int]] = []
        self._overdue: set[int] = set()

    def __len__(self) -> int:
        """Return the number of messages that it knows."""
        return len(self._key_of)

    @property
    def held(self) -> int:
        """Return the number of messages that wait for an earlier one."""
        return len(self._key_of) - len(self._heads)

    @property
    def parked(self) -> Set[int]:
        """The hashes of parked keys."""
        return self._parked

    def key_of(self, offset: int) -> int | None:
        return self._key_of.get(offset)

    def head_of(self, key: int) -> int | None:
        return self._heads.get(key)

    def holds_up(self, offset: int) -> bool:
        """Return whether a message is the first of its key and others wait for it."""
        key = self._key_of.get(offset)
        return key in self._behind and self._heads.get(key) == offset

    def behind(self, key: int) -> Sequence[int]:
        return tuple(self._behind.get(key, ()))

    def is_head(self, offset: int) -> bool:
        key = self._key_of.get(offset)
        return key is not None and self._heads[key] == offset

    def admit(self, offset: int, key: int, expires_us: int = 0) -> Verdict:
        """Add the next message of a key; `expires_us` 0 means never."""
        assert offset not in self._key_of, f"offset {offset} has a place already"
        self._key_of[offset] = key
        if expires_us:
            self._expires_us[offset] = expires_us
        head = self._heads.setdefault(key, offset)
        if head == offset:
            self._at_head(offset)
            return Verdict.GO
        self._behind.setdefault(key, OrderedDict())[offset] = None
        if key in self._parked:
            self.set_aside += 1
            return Verdict.BEHIND
        return Verdict.HOLD

    def settled(self, offsets: Iterable[int]) -> list[int]:
        """Return the messages that are heads now and were not before. A settled head unparks its
        key.
        """
        freed = []
        key_of = self._key_of
        for offset in offsets:
            key = key_of.pop(offset, None)
            if key is None:
                continue
            if self._expires_us:
                self._expires_us.pop(offset, None)
                self._overdue.discard(offset)
            behind = self._behind.get(key)
            if self._heads[key] != offset:
                assert behind is not None, f"offset {offset} is behind nothing of its key"
                del behind[offset]
                self.set_aside -= key in self._parked
            elif behind is None:
                del self._heads[key]
                self._unpark(key, 1)
            else:
                self._unpark(key, 1 + len(behind))
                following, _ = behind.popitem(last=False)
                self._heads[key] = following
                self._at_head(following)
                freed.append(following)
            if behind is not None and not behind:
                del self._behind[key]
        # A message that was settled in the same call is no head, though it was for a moment.
        return [offset for offset in freed if offset in key_of]

    def below(self, bound: int) -> list[int]:
        """Return the known messages below an offset, ascending."""
        return sorted(offset for offset in self._key_of if offset < bound)

    def park(self, key: int) -> Sequence[int]:
        """Deliver nothing of the key until `unpark`; return the messages behind its head."""
        if key in self._heads and key not in self._parked:
            self._parked.add(key)
            self.set_aside += 1 + len(self._behind.get(key, ()))
        return self.behind(key)

    def unpark(self, key: int) -> int | None:
        """Return the head of the key, which may be delivered again; None if the key was not
        parked.
        """
        if key not in self._parked:
            return None
        self._unpark(key, 1 + len(self._behind.get(key, ())))
        return self._heads[key]

    def _unpark(self, key: int, messages: int) -> None:
        if key in self._parked:
            self._parked.discard(key)
            self.set_aside -= messages

    def parked_keys(self) -> Mapping[int, tuple[int, int]]:
        """Return the head of each parked key, and the number of messages behind it, by hash."""
        return {key: (self._heads[key], len(self._behind.get(key, ()))) for key in self._parked}

    # Times to live.

    def overdue(self, now_us: int) -> Set[int]:
        """Return unsettled heads whose time is over: to be settled unless they are leased."""
        while self._expiring and self._expiring[0][0] <= now_us:
            _, offset = heappop(self._expiring)
            if self.is_head(offset):
                self._overdue.add(offset)
        return self._overdue

    def next_expiry_us(self) -> int | None:
        """Return the time at which the next head expires; may be early, never late."""
        while self._expiring and not self.is_head(self._expiring[0][1]):
            heappop(self._expiring)
        return self._expiring[0][0] if self._expiring else None

    def expires(self, offset: int, expires_us: int) -> None:
        """Set the expiry of a message that was not known when the message was taken in."""
        if offset in self._key_of:
            self._expires_us[offset] = expires_us
            if self.is_head(offset):
                self._at_head(offset)

    def _at_head(self, offset: int) -> None:
        expires_us = self._expires_us.get(offset)
        if expires_us is not None:
            heappush(self._expiring, (expires_us, offset))
