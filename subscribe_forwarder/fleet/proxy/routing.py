"""Finds where the partitions of a subscription are served now, for one request."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple

from edge.asgi import Handler, Scope, path_param, tenant_of
from edge.problem import Problem, not_found, unavailable
from metadata.catalog import Catalog
from metadata.errors import MetadataError
from metadata.types import Subscription, Topic
from subscribe_forwarder.delivery.places import PartitionChoice
from subscribe_forwarder.fleet.backlogs.part import Wanted
from subscribe_forwarder.fleet.directory import OwnerDirectory
from subscribe_forwarder.peers import Links, Peer, is_misdirected

MAX_KNOWN = 100_000
FAIR_EVERY = 4
"""The number of requests of which one asks another peer first than the one with the most.

Each peer has its turn: the peer that is asked first mostly wins, and the others would starve while
it has something.
"""
LookFor = Callable[[Subscription, Iterable[int]], Awaitable[None]]
Order = Callable[[Wanted, Iterable[bytes]], list[bytes]]
HERE = b""
"""Stands for this process where others stand with their incarnations."""


def in_any_order(_: Wanted, peers: Iterable[bytes]) -> list[bytes]:
    return list(peers)


class Found(NamedTuple):
    """A subscription, and who serves which of its partitions."""

    subscription: Subscription
    partitions: dict[bytes, tuple[int, ...]]
    """The partitions that can be asked, by incarnation, HERE among them."""
    nowhere: tuple[int, ...]
    version: int
    total: int
    """Partitions of the topic, asked for or not."""

    @property
    def only(self) -> bytes | None:
        """Return the forwarder that serves all of it, if one does."""
        return next(iter(self.partitions)) if len(self.partitions) == 1 and self.whole else None

    @property
    def whole(self) -> bool:
        return not self.nowhere


class Routing:
    """Routes calls of one process to owners; `links` is None if it has no peers."""

    def __init__(
        self,
        catalog: Catalog,
        directory: OwnerDirectory,
        links: Links | None,
        holds_lease: Callable[[], bool],
        look_for: LookFor,
        order: Order = in_any_order,
    ) -> None:
        """Make the routing of a process.

        `holds_lease` tells of our own lease; `look_for` has partitions claimed that nobody serves;
        `order` is the order in which peers are asked for messages of a subscription.
        """
        self.catalog = catalog
        self.holds_lease = holds_lease
        self._directory = directory
        self._links = links
        self._look_for = look_for
        self._order = order
        self._ordered = itertools.count(1)
        self._elsewhere: set[tuple[bytes, str]] = set()
        self._stopping = asyncio.Event()

    @property
    def links(self) -> Links | None:
        return self._links

    def serve(self, operation: str, local: Handler) -> None:
        """Answer other forwarders' requests for an operation with that handler."""
        if self._links is not None:
            self._links.serve(operation, local)

    async def served_here(self, scope: Scope, serve: Callable[[], Awaitable[object]]) -> bool:
        """Serve a call from the units owned here, if those are all of the subscription.

        Return False where it is not: nothing was done, and the owners are to be asked. All is
        thought to be here until `serve` raises the Problem `misdirected`. From then on the
        directory is asked with each call, until it says that all is here again.
        """
        key = tenant_of(scope), path_param(scope, "name")
        if key in self._elsewhere:
            if (await self.find(scope)).only != HERE:
                return False
            self._elsewhere.discard(key)
        try:
            await serve()
        except Problem as problem:
            if not is_misdirected(problem):
                raise
        else:
            return True
        if len(self._elsewhere) >= MAX_KNOWN:
            self._elsewhere.clear()
        self._elsewhere.add(key)
        return False

    async def look_for(self, found: Found) -> None:
        """Claim unowned partitions here or ask for them elsewhere, if Postgres lets us."""
        if found.nowhere:
            with suppress(MetadataError):
                await self._look_for(found.subscription, found.nowhere)

    async def subscription(self, scope: Scope) -> Subscription:
        """Return the subscription of the path.

        Raises a 404 as a Problem, NotFound or MetadataUnavailable of the catalog.
        """
        name, topic_name = path_param(scope, "name"), scope["path_params"].get("topic")
        subscription = await self.catalog.subscription(tenant_of(scope), name)
        if topic_name is not None and subscription.topic_name != topic_name:
            raise not_found("subscription", name)
        return subscription

    async def topic(self, subscription: Subscription) -> Topic:
        return await self.catalog.topic_by_uid(subscription.tenant_id, subscription.topic_uid)

    async def find(self, scope: Scope, places: PartitionChoice | None = None) -> Found:
        """Find all of its partitions, or those that are named; raises what `subscription` does."""
        subscription = await self.subscription(scope)
        total = (await self.topic(subscription)).partition_count
        named = () if places is None else places.partitions or ()
        known = sorted(number for number in named if number < total)
        # A request that names only unknown partitions waits with all others.
        found = self.find_of(subscription, known or range(total))
        return found._replace(total=total)

    def find_of(self, subscription: Subscription, partitions: Sequence[int]) -> Found:
        """Find those partitions only."""
        where = self._directory.find(subscription, partitions)
        nowhere = list(where.nowhere)
        served = {HERE: where.here} if where.here else {}
        for place in where.elsewhere:
            if self.peer(place.forwarder) is None:
                nowhere += place.partitions
            else:
                served[place.forwarder] = place.partitions
        return Found(subscription, served, tuple(nowhere), where.version, len(partitions))

    def in_order(self, found: Found) -> list[bytes]:
        """Return the owners in the order in which they are to be asked, this process among them."""
        here = [owner for owner in found.partitions if owner == HERE]
        peers = [owner for owner in found.partitions if owner != HERE]
        if len(peers) > 1:
            one = found.subscription
            peers = self._order(Wanted(one.tenant_id, one.topic_uid, one.uid, found.total), peers)
            turn, left = divmod(next(self._ordered), FAIR_EVERY)
            if not left:
                at = turn % len(peers)
                peers = peers[at:] + peers[:at]
        return here + peers

    async def changed(self, found: Found) -> None:
        """Returns when another answer may be right than was found."""
        await self._directory.changed(found.subscription, found.version)

    async def changed_within(self, found: Found, wait_s: float) -> None:
        """Return after a change or after that time; unowned partitions are looked for meanwhile."""
        await self.look_for(found)
        try:
            async with asyncio.timeout(wait_s):
                await self.changed(found)
        except TimeoutError:
            return

    def peer(self, incarnation: bytes) -> Peer | None:
        return None if self._links is None else self._links.peer(incarnation)

    def peers(self) -> list[Peer]:
        return [] if self._links is None else self._links.peers()

    def drain(self) -> None:
        """Long-polls that wait at other forwarders answer now, and streams end."""
        self._stopping.set()

    @property
    def stopping(self) -> bool:
        return self._stopping.is_set()

    async def until_stopping(self) -> None:
        await self._stopping.wait()


def nowhere() -> Problem:
    """503: what the request needs is between two owners."""
    return unavailable("subscription", "A partition is changing hands; ask again.")
