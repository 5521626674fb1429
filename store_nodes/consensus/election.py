"""A candidacy: pre-vote, then phase 1 over every open instance at once.

    PRE_VOTE   asks whether a majority would promise; changes nothing anywhere
    PROMISING  this node's own promise is on its way to its disk
    PREPARING  Prepare is out; promises are coming in

A candidacy ends in leadership (a majority promised), or is dropped: on a Nack, on hearing of a
higher ballot, or when its time is over.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

from store_nodes.consensus.ballot import Ballot


class Stage(enum.Enum):
    """PRE_VOTE → PROMISING → PREPARING; a transfer starts at PROMISING."""

    PRE_VOTE = "pre_vote"
    PROMISING = "promising"
    PREPARING = "preparing"


@dataclass(slots=True)
class Candidacy:
    """One attempt of this node to lead in `ballot`."""

    ballot: Ballot
    start: int
    deadline_us: int
    stage: Stage
    promise_number: int = 0
    granted: set[int] = field(default_factory=set)
    reported: dict[int, tuple[Ballot, bytes]] = field(default_factory=dict)

    def add_promise(self, node: int, accepted: tuple[tuple[int, Ballot, bytes], ...]) -> None:
        """Keep, per instance, the value of the highest ballot any promiser reported."""
        assert self.stage is Stage.PREPARING, f"a promise counted while {self.stage.value}"
        self.granted.add(node)
        for instance, ballot, value in accepted:
            held = self.reported.get(instance)
            if held is None or ballot > held[0]:
                self.reported[instance] = (ballot, value)
