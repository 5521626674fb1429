"""Jobs that the load starts: what their tasks are to do, and what must come of them. Pure."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MAP, REDUCE = "torture-map", "torture-reduce"
NARROW, WIDE = "torture-narrow", "torture-wide"
"""The narrow pool is limited. Jobs in it end only by their last task, so that a lease in it is over
only when its worker says so, or its time comes."""
MAX_RUNNING = 8
MAX_ATTEMPTS = 100
"""As many as there may be: how often a worker or a server dies is not for the load to know."""

ADD, FLAKY, HOPELESS, SPLIT = "add", "flaky", "hopeless", "split"
"""The kinds of task.

It gives its value; it does so at its third attempt; it never does, unless it was repaired; or it
makes a job of its parts and waits for that.
"""

ENDS, BEARS, FAILS, CANCELLED = "ends", "bears", "fails", "cancelled"
"""The ends of a job.

It succeeds; it succeeds without some of its tasks; it succeeds when it was repaired and retried; it
is cancelled, if it does not end before.
"""

Input = Mapping[str, Any]


@dataclass(frozen=True)
class Plan:
    """One job: what is asked for, and what its tasks must add up to."""

    name: str
    fate: str
    pool: str
    inputs: tuple[Input, ...]
    parent: tuple[str, int] | None = None

    def body(self) -> dict[str, Any]:
        """Return the body of `PUT /jobs/NAME`."""
        parent = (
            None if self.parent is None else dict(zip(("job", "index"), self.parent, strict=True))
        )
        return {
            "map": MAP,
            "reduce": REDUCE,
            "pool": self.pool,
            "max_attempts": MAX_ATTEMPTS,
            "retry": {"min_backoff_seconds": 0.02, "max_backoff_seconds": 0.2},
            "on_failure": "continue" if self.fate == BEARS else "fail",
            "parent": parent,
        }

    def value(self, index: int) -> int | None:
        """Return the output that the task must give; None: it fails for good."""
        given = self.inputs[index]
        if given["does"] == HOPELESS and self.fate == BEARS:
            return None
        return sum(given["parts"]) if given["does"] == SPLIT else int(given["value"])

    def total(self) -> int:
        """Return the output that the job must give."""
        return sum(self.value(index) or 0 for index in range(len(self.inputs)))

    def child(self, index: int) -> Plan:
        """Return the plan of a task that splits; it is the same with each call."""
        parts = self.inputs[index]["parts"]
        inputs = tuple({"does": ADD, "value": part} for part in parts)
        return Plan(f"{self.name}.{index}", ENDS, self.pool, inputs, (self.name, index))

    def children(self) -> list[Plan]:
        return [self.child(at) for at, each in enumerate(self.inputs) if each["does"] == SPLIT]


def planned(name: str, dice: random.Random) -> Plan:
    """Draw a plan of 20 to 60 tasks."""
    fate = dice.choice([ENDS, BEARS, FAILS, CANCELLED, CANCELLED])
    inputs = [_input(dice) for _ in range(dice.randint(20, 60))]
    if fate in (BEARS, FAILS):
        for _ in range(dice.randint(1, 3)):
            inputs[dice.randrange(len(inputs))] = {"does": HOPELESS, "value": dice.randint(1, 999)}
    pool = NARROW if fate in (ENDS, BEARS) else WIDE
    return Plan(name, fate, pool, tuple(inputs))


def _input(dice: random.Random) -> Input:
    chance = dice.random()
    if chance < 0.03:
        return {"does": SPLIT, "parts": [dice.randint(1, 999) for _ in range(dice.randint(0, 4))]}
    return {"does": FLAKY if chance < 0.1 else ADD, "value": dice.randint(1, 999)}
