"""Runs this process as one of many forwarders: its lease, its peers, ownership, and leaving."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from metadata.delivery.assignments import AssignmentRepository
from metadata.delivery.hints import HintRepository
from metadata.delivery.leases import Lease, LeaseRepository
from metadata.types import Unit
from subscribe_forwarder.delivery.flush import Commit
from subscribe_forwarder.delivery.ownership import Ownership
from subscribe_forwarder.delivery.partitions import OwnedPartitions
from subscribe_forwarder.fleet.activity import Activity
from subscribe_forwarder.fleet.announcer import Announcer
from subscribe_forwarder.fleet.claims import Claims
from subscribe_forwarder.fleet.directory import OwnerDirectory
from subscribe_forwarder.fleet.lease_keeper import LeaseKeeper
from subscribe_forwarder.fleet.links.network import LinkNetwork
from subscribe_forwarder.fleet.load import LoadReporter
from subscribe_forwarder.fleet.members import Members


class Fleet:
    """One per process. Without `links` it lives with no others: it waits until they are gone."""

    def __init__(
        self,
        *,
        assignments: AssignmentRepository,
        leases: LeaseRepository,
        partitions: OwnedPartitions,
        flush: Commit,
        require_lease: Callable[[], None],
        renewed_late: Callable[[], None],
        links: LinkNetwork | None,
        hints: HintRepository | None,
        address: Callable[[], str],
        weight: float,
        activity: Activity,
        waiting_of: Callable[[bytes], int],
        longest_lag_s: Callable[[], float],
        clock: Callable[[], float],
    ) -> None:
        """Make the fleet's member.

        `renewed_late`: the lease was over by our clock, and is good again. The load that it
        reports is `activity`, `waiting_of`, the consumers that wait for a subscription, and
        `longest_lag_s`, the longest lag of the loop since the last call.
        """
        self._links = links
        self._clock = clock
        self._renewed_late = renewed_late
        self.directory = OwnerDirectory()
        self.members = Members()
        self._load = LoadReporter(
            activity,
            units=lambda: len(self.owners),
            waiting_of=waiting_of,
            longest_lag_s=longest_lag_s,
        )
        self.lease = LeaseKeeper(
            leases,
            self,
            address=address,
            weight=weight,
            load=lambda: self._load.report(clock()),
            clock=clock,
        )
        self.announcer = Announcer(
            self.directory,
            links,
            on_free=lambda units: self.claims.free(units),
            on_leaving=self._on_leaving,
            on_gone=lambda _: self.lease.renew_early(),
        )
        self.owners = Ownership(
            assignments, partitions, self.announcer, lambda: self.lease.lease, require_lease, flush
        )
        self.claims = Claims(
            assignments,
            self.owners,
            self.members,
            lambda: self.lease.lease,
            links=links,
            hints=hints,
            ask=self.announcer.wanted,
            clock=clock,
        )

        if links is not None:
            links.on_peer(self._on_peer)

    def start(self) -> None:
        self.lease.start()
        self.claims.start()

    def not_ready_reason(self) -> str | None:
        """None when the lease is held, there were links to all others that live, and what was
        nobody's is claimed: so that calls find whom they need from the first on."""
        if (missing := self.lease.missing_reason) is not None:
            return missing
        if self.claims.settled:
            return None
        if self.claims.silent():
            return "another subscribe forwarder lives, by its lease, and there is no link to it"
        return f"claiming partitions; {len(self.owners)} are claimed"

    def leaves_others(self) -> bool:
        """Return whether another forwarder is there to take over."""
        if self._links is None:
            return False
        living = self.members.living(self._clock())
        return bool(living.keys() - {self.members.me} or self._links.peers())

    async def look_for(self, units: Sequence[Unit]) -> None:
        """Claim the units that nobody is known to own, here or elsewhere."""
        nobodys = [
            unit for unit in units if self.directory.owner_of(unit) in (None, self.members.me)
        ]
        if nobodys:
            await self.claims.look_for(nobodys)

    async def hand_over(self, timeout_s: float) -> None:
        """Give away all owned units to any forwarder that claims them; the lease goes on."""
        self.claims.leave()
        units = [owner.key for owner in self.owners]
        await self.owners.give(units)
        self.owners.tell_leases()
        if not await self.lease.leave(timeout_s):
            return
        for unit in units:
            await self.owners.drop(unit)
        self.announcer.leaving()
        self.announcer.released(units)

    async def close(self, timeout_s: float) -> None:
        """Releases every unit and the lease."""
        self.claims.leave()
        await self.claims.stop()
        await self.lease.stop()
        units = [owner.key for owner in self.owners]
        await self.lease.release(timeout_s)
        self.announcer.disown(units)
        self.announcer.leaving()
        self.announcer.released(units)
        self.owners.clear()

    # The lease.

    def lease_began(self, incarnation: bytes) -> None:
        """Begin under a new lease: whatever was owned under the last one is in doubt."""
        self.members.began(incarnation)
        self.directory.began(incarnation)
        self.owners.freeze()
        self.claims.began()
        if self._links is not None:
            self._links.identify(incarnation)

    def lease_renewed(self, lease: Lease, *, late: bool) -> None:
        """Go on under the lease.

        `late` says that it was over by our clock; nobody else had it meanwhile.
        """
        now_s = self._clock()
        moved = self.members.update(lease.live, now_s)
        if self._links is not None:
            self._links.follow(
                {
                    one.incarnation: address
                    for one in self.members.others(now_s)
                    if (address := _address(one.address)) is not None
                }
            )
        self.announcer.repeat()
        self.claims.renewed(moved=moved)
        if late:
            self._renewed_late()

    # Calls of peers.

    def _on_peer(self, incarnation: bytes, opened: bool) -> None:
        if opened and not self.claims.settled:
            self.claims.kick()

    def _on_leaving(self, incarnation: bytes) -> None:
        if self.members.leaves(incarnation):
            self.claims.kick(listing=True)


def _address(text: str) -> tuple[str, int] | None:
    """Parse `host:port`; None for a text that is no address."""
    host, _, port = text.rpartition(":")
    return (host.strip("[]"), int(port)) if host and port.isdigit() else None
