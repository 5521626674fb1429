"""Named situations that a set of runs must have reached, or it proved nothing about them."""

from __future__ import annotations

REQUIRED = (
    "leader change with two or more open instances",
    "hole recovered as no-op",
    "repeated sequence answered with its old receipt on a new leader",
    "torn tail",
    "lost unsynced accept",
)
"""The set of runs fails unless each of these occurred."""

ALSO_EXPECTED = (
    "caught up from the log on disk",
    "all nodes lost power at once",
    "leadership transferred",
    "leader stepped down",
    "minority partitioned",
    "connections of a live node broken",
    "one-way partition",
    "bridge partition",
    "append refused for its deadline",
    "append refused by a seal",
    "refused sequence repeated",
    "sequence gap refused",
    "stale read refused",
    "read confirmed by a quorum",
    "clock jumped",
    "replicated everywhere",
    "leader crashed with instances open",
    "elected while the leader before was down",
    "all nodes lost power within 10 ms of an acknowledgement",
    "pre-vote refused",
    "message delivered twice",
    "leader paused",
    "node added",
    "node removed",
    "leader removed",
    "dead node replaced",
    "voter demoted and promoted",
    "change of membership finished by a new leader",
    "change of membership during a crash",
    "node learned that it was removed",
    "damaged voter demoted",
    "damaged voter promoted again",
    "all of a node's disk lost",
    "slow disk handed the group over",
)
"""The big set fails without these too: each is a part of the workload or a fault."""


class Coverage:
    """Counts of situations reached in one run."""

    def __init__(self) -> None:
        self.hits: dict[str, int] = {}

    def hit(self, name: str) -> None:
        assert name in REQUIRED or name in ALSO_EXPECTED, name
        self.hits[name] = self.hits.get(name, 0) + 1
