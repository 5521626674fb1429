"""The rounds in which a forwarder brings what it owns nearer to what is wanted of it.

A round comes after each renewal of the lease, and at once when a peer releases something, when the
lease of one ends, and when ownership came into doubt. It claims what nobody owns and is wanted
here, gives away what is wanted elsewhere, and splits and merges by the scheduler's hints. None of
it needs the scheduler, nor any peer: every few seconds Postgres is asked what nobody owns.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence

import structlog

from edge.problem import Problem
from metadata.delivery.assignments import AssignmentRepository
from metadata.delivery.hints import HintRepository
from metadata.delivery.leases import Lease
from metadata.errors import MetadataError
from metadata.types import Unit
from subscribe_forwarder.delivery.ownership import Ownership
from subscribe_forwarder.fleet.members import Members
from subscribe_forwarder.fleet.plan import Plan, WantedOwners, plan
from subscribe_forwarder.peers import Links

LIST_EVERY_S = 5.0
HINTS_EVERY_S = 3.0
HINTS_AGAIN_S = 0.25
"""At the soonest, where they may have changed."""
RETRY_S = 0.25
AFTER_END_S = 0.02
LOOK_EVERY_S = 0.25
MAX_LOOKED = 10_000
_log = structlog.get_logger("packetboat.subscribe")


class Claims:
    """One loop per process. Without `links` it shares with nobody: all that is nobody's is wanted
    here."""

    def __init__(
        self,
        assignments: AssignmentRepository,
        owners: Ownership,
        members: Members,
        lease: Callable[[], Lease | None],
        *,
        links: Links | None,
        hints: HintRepository | None,
        ask: Callable[[bytes, Sequence[Unit]], None],
        clock: Callable[[], float],
    ) -> None:
        """`ask`: this peer is to claim what nobody owns."""
        self._assignments = assignments
        self._owners = owners
        self._members = members
        self._lease = lease
        self._links = links
        self._hints_of = hints
        self._ask = ask
        self._clock = clock
        self._hints: Mapping[Unit, bytes] = {}
        self._hints_at_s = self._listed_at_s = -1e9
        self._places: tuple[object, WantedOwners] | None = None
        self._still: object = None
        """The state under which no unit had to be given away, split or merged."""
        self._free: set[Unit] = set()
        self._hopeless: set[Unit] = set()
        """Hinted to be split off, in vain."""
        self._looked_s: dict[Unit, float] = {}
        self._wake = asyncio.Event()
        self._may_give = False
        self._leaving = False
        self._end: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self.settled = False
        """The first round under the present lease is done."""

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def stop(self) -> None:
        if self._end is not None:
            self._end.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
            self._task = None

    def leave(self) -> None:
        """Claim nothing more."""
        self._leaving = True

    # Reasons for a round.

    def began(self) -> None:
        """Begin anew under a new lease."""
        self.settled = False
        self._listed_at_s = -1e9

    def renewed(self, *, moved: bool) -> None:
        """`moved`: somebody came or went."""
        self._may_give = True
        self.kick(listing=moved)
        self._set_end()

    def kick(self, *, listing: bool = False) -> None:
        """Ask for a round soon; `listing`: a round that asks what nobody owns."""
        if listing:
            self._listed_at_s = -1e9
        self._wake.set()

    def free(self, units: Iterable[Unit]) -> None:
        """Note units of which a peer said that nobody owns them.

        The peer may have given them away for a hint that was not read here yet.
        """
        self._free.update(units)
        if self._clock() - self._hints_at_s > HINTS_AGAIN_S:
            self._hints_at_s = -1e9
        self._wake.set()

    # The places where units are wanted.

    def wanted_at(self, unit: Unit) -> bytes | None:
        """Return the incarnation of a living forwarder: our own where we share with nobody."""
        if self._links is None:
            return self._members.me
        return self._places_now().of(unit)

    async def look_for(self, units: Sequence[Unit]) -> None:
        """Look for units that nobody is known to own.

        Claims the units that are wanted here, and tells other forwarders of theirs; for each unit
        only now and then.
        """
        if self._leaving:
            return
        if self._links is None:
            await self._owners.claim(units)
            return
        wanted: dict[bytes | None, list[Unit]] = {}
        now_s = self._clock()
        for unit in units:
            if now_s - self._looked_s.get(unit, -1e9) >= LOOK_EVERY_S:
                self._looked_s[unit] = now_s
                wanted.setdefault(self.wanted_at(unit), []).append(unit)
        if len(self._looked_s) > MAX_LOOKED:
            self._looked_s.clear()
        mine = wanted.pop(self._members.me, [])
        for peer, theirs in wanted.items():
            if peer is not None:
                self._ask(peer, theirs)
        if mine:
            await self._owners.claim(mine)

    def silent(self) -> set[bytes]:
        """Return the other forwarders that live, by their leases, but have no link to us.

        They may be dead, and then nobody owns their units soon.
        """
        linked = () if self._links is None else self._links.peers()
        others = {one.incarnation for one in self._members.others(self._clock())}
        return others.difference(peer.incarnation for peer in linked)

    # The round.

    async def _run(self) -> None:
        """Run for the life of the process; only cancellation ends it."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self._round()
            except (MetadataError, Problem):
                await asyncio.sleep(RETRY_S)
                self.kick(listing=True)
            except Exception as error:
                _log.error("round of claims failed", exc_info=error)
                await asyncio.sleep(RETRY_S)
                self.kick(listing=True)

    async def _round(self) -> None:
        lease = self._lease()
        if lease is None or self._members.me != lease.incarnation or self._leaving:
            return
        all_heard = not self.silent()
        await self._owners.claim_again()
        await self._owners.release()
        await self._read_hints()
        free = await self._take_free(lease.incarnation)
        if self._links is None:
            await self._owners.claim(sorted(free))
        else:
            todo = self._plan(free)
            self._free |= free.difference(todo.claim, todo.merge)
            await self._do(todo)
        self.settled |= all_heard

    async def _do(self, todo: Plan) -> None:
        if todo.give and self._may_give:
            self._may_give = False
            given = await self._owners.give(todo.give)
            await self._owners.release(given)
        for unit in todo.split:
            if unit not in self._hopeless and not await self._owners.split(unit):
                self._hopeless.add(unit)
        for unit in todo.merge:
            await self._owners.merge(unit)
        await self._owners.claim(todo.claim)

    def _plan(self, free: set[Unit]) -> Plan:
        places, now_s = self._places_now(), self._clock()
        me = self._members.me
        state = (places, self._owners.version)
        if not free and self._still == state:
            return Plan()
        reachable = {me} | {
            peer.incarnation for peer in (self._links.peers() if self._links else ())
        }
        todo = plan(me, places, self._owners.split_off(), free, now_s, reachable=reachable)
        all_settled = all(one.settled_s <= now_s for one in places.living.values())
        if all_settled and reachable >= places.living.keys() and not (todo.give or todo.split):
            self._still = state
        return todo

    async def _take_free(self, incarnation: bytes) -> set[Unit]:
        """Take the units that nobody owns, as peers said or Postgres told when it was last
        asked.
        """
        free, self._free = self._free, set()
        if self._clock() - self._listed_at_s < LIST_EVERY_S:
            return free
        self._listed_at_s = self._clock()
        try:
            return set(await self._assignments.claimable(incarnation))
        except MetadataError:
            self._listed_at_s = -1e9
            raise

    async def _read_hints(self) -> None:
        if self._hints_of is None or not self._members.others(self._clock()):
            return
        if self._clock() - self._hints_at_s >= HINTS_EVERY_S:
            hints = await self._hints_of.all()
            self._hints_at_s = self._clock()
            if hints != self._hints:
                self._hints, self._places = hints, None
                self._hopeless.clear()

    def _places_now(self) -> WantedOwners:
        living = self._members.living(self._clock())
        key = {incarnation: one.weight for incarnation, one in living.items()}
        if self._places is None or self._places[0] != key:
            self._places = (key, WantedOwners(living, self._hints))
        self._places[1].living = living
        return self._places[1]

    def _set_end(self) -> None:
        """Run a round when the lease of another forwarder ends, if it is not renewed."""
        if self._end is not None:
            self._end.cancel()
        now_s = self._clock()
        end_s = self._members.next_end_s(now_s)
        if end_s is not None:
            delay_s = max(0.0, end_s - now_s) + AFTER_END_S
            loop = asyncio.get_running_loop()
            self._end = loop.call_later(delay_s, lambda: self.kick(listing=True))
