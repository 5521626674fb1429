"""Ballots: (round, node id) packed into one int, so that they compare as Paxos wants them to."""

from __future__ import annotations

Ballot = int
NODE_BITS = 16
NO_BALLOT: Ballot = 0
CHOSEN: Ballot = (1 << 64) - 1
"""Stands in for the ballot of a value known to be chosen: it beats every proposal."""


def make(round_number: int, node: int) -> Ballot:
    assert 0 < node < 1 << NODE_BITS, f"node {node} has no ballots"
    return round_number << NODE_BITS | node


def round_of(ballot: Ballot) -> int:
    return ballot >> NODE_BITS


def node_of(ballot: Ballot) -> int:
    return ballot & ((1 << NODE_BITS) - 1)
