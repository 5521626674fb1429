"""Tells other forwarders that a subscription was changed, before its caller is answered.

An owner with a link to us has followed when `tell` returns, or the bound has passed. One that could
not be reached follows by the change feed within two seconds; its writes for an earlier cursor
generation are refused meanwhile, and so are the ack ids of that generation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import msgspec

from edge.problem import Problem
from metadata.catalog import Catalog
from metadata.errors import MetadataError
from metadata.types import Subscription
from subscribe_forwarder.peers import Links, Peer, PeerGone

SUBJECT = "subscription changed"
BOUND_S = 1.0


class Changed(msgspec.Struct, frozen=True, array_like=True):
    """The news of a change."""

    tenant_id: bytes
    name: str
    uid: bytes
    moved: bool
    """Whether its positions changed, not only its settings."""


_encode = msgspec.msgpack.encode
_decode = msgspec.msgpack.Decoder(Changed).decode


class Following:
    """One per process; `links` is None where it is alone."""

    def __init__(
        self,
        catalog: Catalog,
        links: Links | None,
        follow: Callable[[Subscription], Awaitable[None]],
        reload: Callable[[Subscription], Awaitable[None]],
    ) -> None:
        """Make it with the functions of this process: `follow` takes in a change of settings,
        `reload` goes on from the committed rows. Both may raise Problems and MetadataError.
        """
        self._catalog = catalog
        self._follow_here = follow
        self._reload_here = reload
        self._links = links
        if links is not None:
            links.answers(SUBJECT, self._heard)

    async def tell(self, subscription: Subscription, *, moved: bool) -> None:
        """Tell this process and every peer at once; the failure of one does not keep others
        from hearing.
        """
        told = Changed(subscription.tenant_id, subscription.name, subscription.uid, moved)
        peers = [] if self._links is None else self._links.peers()
        await asyncio.gather(
            self._follow(subscription, moved=moved),
            *(self._ask(peer, _encode(told)) for peer in peers),
        )

    async def _ask(self, peer: Peer, body: bytes) -> None:
        with suppress(PeerGone, TimeoutError, Problem):
            await peer.ask(SUBJECT, body, BOUND_S)

    async def _heard(self, incarnation: bytes, body: bytes) -> bytes:
        told = _decode(body)
        with suppress(MetadataError):
            subscription = await self._catalog.subscription(told.tenant_id, told.name, refresh=True)
            if subscription.uid == told.uid:
                await self._follow(subscription, moved=told.moved)
        return b""

    async def _follow(self, subscription: Subscription, *, moved: bool) -> None:
        with suppress(Problem, MetadataError):
            await (self._reload_here if moved else self._follow_here)(subscription)
