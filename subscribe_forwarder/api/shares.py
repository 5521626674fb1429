"""The division of a stream's window among its owners; pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

BACKLOGGED = 4
"""The factor by which an owner with messages gets more than one without."""


class Amount(NamedTuple):
    """Messages, and bytes of their data."""

    messages: int
    size_bytes: int

    def minus(self, other: Amount) -> Amount:
        return Amount(self.messages - other.messages, self.size_bytes - other.size_bytes)

    def plus(self, other: Amount) -> Amount:
        return Amount(self.messages + other.messages, self.size_bytes + other.size_bytes)

    def most(self, other: Amount) -> Amount:
        return Amount(max(self.messages, other.messages), max(self.size_bytes, other.size_bytes))

    def least(self, other: Amount) -> Amount:
        return Amount(min(self.messages, other.messages), min(self.size_bytes, other.size_bytes))


NONE = Amount(0, 0)


def targets(total: Amount, backlogs: Mapping[bytes, int]) -> dict[bytes, Amount]:
    """Divide the window by owner, at least one message each: there are no more owners than
    messages.

    The first owners get the remainder, so that all of it is given.
    """
    assert len(backlogs) <= total.messages
    weights = {owner: BACKLOGGED if backlogs[owner] else 1 for owner in backlogs}
    messages = _divided(total.messages, weights)
    sizes = _divided(max(total.size_bytes, len(weights)), weights)
    return {owner: Amount(messages[owner], sizes[owner]) for owner in weights}


def chosen(owners: Sequence[bytes], open_: Mapping[bytes, int], most: int) -> list[bytes]:
    """Choose the owners to be open, where more own something than fit.

    They are those that are open and have a backlog, and then, in turn, those that are not. `open_`:
    by owner, what it is known to have.
    """
    if len(owners) <= most:
        return list(owners)
    busy = [owner for owner in owners if open_.get(owner)]
    new = [owner for owner in owners if owner not in open_]
    idle = [owner for owner in owners if owner in open_ and not open_[owner]]
    kept = busy[: max(1, most - 1)] if new else busy  # nobody waits for ever
    return [*kept, *new, *idle][:most]


def _divided(total: int, weights: Mapping[bytes, int]) -> dict[bytes, int]:
    spare, whole = total - len(weights), sum(weights.values())
    shares = {owner: 1 + spare * weight // whole for owner, weight in weights.items()}
    rest = total - sum(shares.values())
    for owner in list(shares)[:rest]:
        shares[owner] += 1
    return shares
