"""The knowledge of the job load: its jobs, when each lease held for certain, and which task was
completed under it.

A lease began before the answer to its claim was here, and lasts its time from when the claim was
sent, or until its worker sent what it made of the task: within these it held, whatever else
happened. So too many at one moment, or two of one task, are too many indeed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from metadata.jobs.types import Lease
from tests.chaos.delivery.job_plans import Plan

Place = tuple[bytes, int]
"""A job's uid and the number of its task: names may be given again, to a child that is made anew
when its parent is retried."""
MARGIN_S = 0.5
"""The tolerance between Postgres' clock, which may be put right, and ours."""


@dataclass
class Held:
    """One lease. It held for certain from `from_s` until `until_s`, both of the monotonic clock;
    by `over_s` it had ended, if nobody extended it."""

    lease_id: str
    job: str
    pool: str
    from_s: float
    until_s: float
    over_s: float

    @property
    def place(self) -> Place:
        return place_of(self.lease_id)

    @property
    def text(self) -> str:
        """The task, for people."""
        return f"{self.job}[{self.place[1]}]"

    def settled(self, sent_s: float) -> None:
        """Note when the request that settles it was sent."""
        self.until_s = min(self.until_s, sent_s)

    def maybe_extended(self, got_s: float, lease_s: float) -> None:
        self.over_s = max(self.over_s, got_s + lease_s)

    def extended(self, sent_s: float, got_s: float, lease_s: float) -> None:
        self.until_s = max(self.until_s, sent_s + lease_s)
        self.maybe_extended(got_s, lease_s)


def place_of(lease_id: str) -> Place:
    lease = Lease.parse(lease_id)
    return lease.job_uid, lease.number


class Book:
    """The book of all owners and workers; `broke` is told of impossible things."""

    def __init__(self, broke: Callable[[str], None]) -> None:
        self.broke = broke
        self.plans: dict[str, Plan] = {}
        """The plans by name, children too."""
        self.repaired: set[str] = set()
        """Jobs whose hopeless tasks succeed from now on."""
        self.over: dict[str, float] = {}
        """Since when a job is known to have ended, and was not told to go on."""
        self.gone: set[str] = set()
        """Jobs that are being deleted, or were."""
        self.held: dict[str, Held] = {}
        self.completed: dict[Place, str] = {}
        """The lease whose output was accepted."""

    def granted(self, held: Held, sent_s: float) -> None:
        """Note the leases in the answer to a claim that was sent then."""
        if held.lease_id in self.held:
            self.broke(f"a lease of {held.text} was given twice")
        self.held[held.lease_id] = held
        if self.over.get(held.job, sent_s) < sent_s:
            self.broke(f"{held.text} was handed out after its job had ended")

    def accepted(self, held: Held) -> None:
        """A completion with an output was answered as done."""
        first = self.completed.setdefault(held.place, held.lease_id)
        if first != held.lease_id:
            self.broke(f"{held.text} was completed under two leases")

    def crowds(self, pool: str, most: int) -> list[str]:
        """Return the moments at which more than `most` of the pool held, or two of one task.

        Jobs of that pool do not end while leases hold.
        """
        found = []
        for now in moments(each for each in self.held.values() if each.pool == pool):
            places = [each.place for each in now]
            if len(now) > most:
                found.append(f"{len(now)} leases of {pool} at once, of {most}")
            if len(set(places)) < len(places):
                found.append(f"a task was leased twice at once: {sorted(e.text for e in now)}")
        return found


def moments(held: Iterable[Held]) -> list[list[Held]]:
    """Return the leases that held at each moment at which one began."""
    lasting = [each for each in held if each.from_s < each.until_s]
    now: list[Held] = []
    found = []
    for each in sorted(lasting, key=lambda each: each.from_s):
        now = [other for other in now if other.until_s > each.from_s] + [each]
        found.append(now)
    return found
