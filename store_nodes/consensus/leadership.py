"""What a leader keeps: open instances and their votes, who was heard when, read rounds, digests."""

from __future__ import annotations

from dataclasses import dataclass, field

from store_nodes.consensus.ballot import Ballot


@dataclass(slots=True)
class OpenInstance:
    """A proposal that is not yet chosen here, or not yet everywhere where that was asked for."""

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
    """The leader's state in one ballot; dropped whole when it steps down."""

    ballot: Ballot
    since_us: int
    next_instance: int
    recovered_upto: int
    """Reads wait until all that phase 1 found is applied."""
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
    """Phase 1 found a change of membership: this ballot only carries it out (reconfiguring.py)."""
    change_at: int = -1
    """The instance of the latest change proposed: until it is chosen nothing else is."""
    settle_at: int = -1
    """The first instance under the membership it made: until it is chosen no further change is."""
    leaving: bool = False
    """The latest change took this node out of the voters: it hands over."""
    leave_by_us: int = 0
    quiet_until_us: int = 0
    """No new work until then, so that a change can be proposed."""
    quiet_asked: bool = False
    behind_for: int = 0
    behind_since_us: int = 0
    """`behind_for` was chosen and not on the disk here at that time; 0: the disk is level."""
    late_in_a_row: int = 0
    flags: dict[int, int] = field(default_factory=dict)
    repairs: dict[int, int] = field(default_factory=dict)
    """Flags and repair tokens as last reported."""

    def drop_chosen(self, chosen: int) -> None:
        """Instances below `chosen` are chosen; those nobody watches further are forgotten."""
        for instance in [i for i, entry in self.open.items() if i < chosen]:
            entry = self.open[instance]
            entry.chosen = True
            self.open_bytes -= len(entry.value)
            entry.value = b""
            if not entry.everywhere:
                del self.open[instance]
