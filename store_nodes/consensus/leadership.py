"""The state of a leader: open instances and their votes, when peers were heard, read rounds."""

from __future__ import annotations

from dataclasses import dataclass, field

from store_nodes.consensus.ballot import Ballot


@dataclass(slots=True)
class OpenInstance:
    """A proposal that is not chosen here yet, or not on every voter's disk if that was asked
    for.
    """

    value: bytes
    sent_us: int
    everywhere: bool = False
    chosen: bool = False
    votes: set[int] = field(default_factory=set)


@dataclass(slots=True)
class ReadRound:
    """One heartbeat round that confirms leadership for every reader that waited for it."""

    sequence: int
    tokens: list[int]
    index: int
    confirmed: set[int]


@dataclass(slots=True)
class Leadership:
    """The state of a leader in one ballot; it is dropped as a whole when the leader steps down."""

    ballot: Ballot
    since_us: int
    next_instance: int
    recovered_upto: int
    """The instance up to which phase 1 found values; reads wait until those are applied."""
    open: dict[int, OpenInstance] = field(default_factory=dict)
    open_bytes: int = 0
    heard_us: dict[int, int] = field(default_factory=dict)
    peer_delivered: dict[int, int] = field(default_factory=dict)
    sequence: int = 0
    next_heartbeat_us: int = 0
    waiting_reads: list[int] = field(default_factory=list)
    read_round: ReadRound | None = None
    transfer_to: int | None = None
    transfer_deadline_us: int = 0
    transfer_asked: bool = False
    next_transfer_us: int = 0
    finishing: bool = False
    """Whether phase 1 found a change of membership: this ballot only carries it out
    (reconfiguring.py).
    """
    change_at: int = -1
    """The instance of the latest proposed change; until it is chosen, nothing else is proposed."""
    settle_at: int = -1
    """The first instance under the new membership; until it is chosen, no further change is
    proposed.
    """
    leaving: bool = False
    """Whether the latest change removed this node from the voters, so that it hands over."""
    leave_by_us: int = 0
    quiet_until_us: int = 0
    """The time until which new work is refused, so that a change can be proposed."""
    quiet_asked: bool = False
    behind_for: int = 0
    behind_since_us: int = 0
    """The time since which `behind_for` is chosen and not on the disk here; 0 if the disk is
    level.
    """
    late_in_a_row: int = 0
    flags: dict[int, int] = field(default_factory=dict)
    repairs: dict[int, int] = field(default_factory=dict)
    """Repair tokens as last reported by peers, like `flags`."""

    def drop_chosen(self, chosen: int) -> None:
        """Count instances below `chosen` as chosen; forget those that no caller watches further."""
        for instance in [i for i, entry in self.open.items() if i < chosen]:
            entry = self.open[instance]
            entry.chosen = True
            self.open_bytes -= len(entry.value)
            entry.value = b""
            if not entry.everywhere:
                del self.open[instance]
