"""Tells every owner which consumers want partitions of their own.

Each owner deals the partitions of the topic by the consumers that it sees, so all should see the
same. A pull that is answered by one owner at once asks the others nothing, nor does a stream whose
window has a turn elsewhere: so the others are told. Where that is lost, or late, a partition is
dealt to somebody else for a while; its one owner still sees to it that one consumer works it.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from subscribe_forwarder.delivery.hub import Hub
from subscribe_forwarder.delivery.places import PartitionChoice
from subscribe_forwarder.fleet.proxy.routing import HERE, Found, Routing

SUBJECT = "attends"
ATTENDS_S = 10.0
"""Seconds after a pull for which its consumer keeps the partitions assigned to it."""


class Attends(msgspec.Struct, frozen=True, array_like=True):
    """The news that a consumer attends a subscription."""

    subscription_uid: bytes
    consumer: str
    stays_s: float


_encode = msgspec.msgpack.encode
_decode = msgspec.msgpack.Decoder(Attends).decode


class Attending:
    """One per process. `open_hub` returns a subscription's hub, if it is in use here."""

    def __init__(self, routing: Routing, open_hub: Callable[[bytes], Hub | None]) -> None:
        self._routing = routing
        self._open_hub = open_hub
        if routing.links is not None:
            routing.links.hears(SUBJECT, lambda _, body: self._take(_decode(body)))

    def tell(
        self,
        found: Found,
        consumer: str,
        places: PartitionChoice | None,
        stays_s: float = ATTENDS_S,
    ) -> None:
        """Tell each owner of a part of the subscription, if it matters there; never waits."""
        if places is None or not places.affinity:
            return
        attends = Attends(found.subscription.uid, consumer, max(stays_s, ATTENDS_S))
        for owner in found.partitions:
            if owner == HERE:
                self._take(attends)
            elif (peer := self._routing.peer(owner)) is not None:
                peer.note(SUBJECT, _encode(attends))

    def _take(self, attends: Attends) -> None:
        """Where nobody has asked for any of it yet, nothing is dealt."""
        hub = self._open_hub(attends.subscription_uid)
        if hub is not None:
            hub.attend(attends.consumer, attends.stays_s)
