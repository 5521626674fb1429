"""Announces the units that are owned here, and enters those that peers announce."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import structlog

from metadata.types import Unit
from subscribe_forwarder.delivery.ownership import Owned
from subscribe_forwarder.fleet import announcement
from subscribe_forwarder.fleet.announcement import LEAVING, UNITS, WANTED
from subscribe_forwarder.fleet.directory import OwnerDirectory
from subscribe_forwarder.peers import Links, Peer

_log = structlog.get_logger("packetboat.subscribe")


class Announcer:
    """One per process; without links it tells the directory alone."""

    def __init__(
        self,
        directory: OwnerDirectory,
        links: Links | None,
        *,
        on_free: Callable[[Sequence[Unit]], None],
        on_leaving: Callable[[bytes], None],
        on_gone: Callable[[bytes], None],
    ) -> None:
        """`on_free`: nobody owns these, or so it is said; `on_leaving`: this peer is to get nothing
        any more; `on_gone`: its link has ended."""
        self._directory = directory
        self._links = links
        self._on_free = on_free
        self._on_leaving = on_leaving
        self._on_gone = on_gone
        self._behind: set[bytes] = set()
        """Peers that could not be told something: they are told everything."""
        if links is not None:
            links.hears(UNITS, self._hear)
            links.hears(LEAVING, lambda peer, _: on_leaving(peer))
            links.hears(WANTED, self._hear_wanted)
            links.on_peer(self._on_peer)

    def own(self, owned: Sequence[Owned]) -> None:
        for one in owned:
            self._directory.own(one)
        self._tell(owned=owned)

    def disown(self, units: Sequence[Unit]) -> None:
        """Announce that the units are ours no more; nobody else can have them yet."""
        for unit in units:
            self._directory.disown(unit)

    def released(self, units: Sequence[Unit]) -> None:
        """Announce that others can claim the units."""
        self._tell(released=units)
        self._on_free(units)

    def leaving(self) -> None:
        """We own nothing any more, and will not."""
        if self._links is not None:
            self._links.tell(LEAVING, b"")

    def wanted(self, peer: bytes, units: Sequence[Unit]) -> None:
        """Ask a peer to claim units that nobody serves."""
        found = None if self._links is None else self._links.peer(peer)
        for body in announcement.announcements(released=units) if found is not None else ():
            if found is not None:
                found.note(WANTED, body)

    def repeat(self) -> None:
        """Tell everything to the peers that missed something."""
        if self._links is not None and self._behind:
            behind, self._behind = self._behind, set()
            for incarnation in behind:
                peer = self._links.peer(incarnation)
                if peer is not None:
                    self._tell_all(peer)

    def _tell(self, owned: Sequence[Owned] = (), released: Sequence[Unit] = ()) -> None:
        peers = [] if self._links is None else self._links.peers()
        if not peers:
            return
        for body in announcement.announcements(owned, released):
            for peer in peers:
                if not peer.note(UNITS, body):
                    self._behind.add(peer.incarnation)

    def _tell_all(self, peer: Peer) -> None:
        for body in announcement.announcements(self._directory.mine(), full=True):
            if not peer.note(UNITS, body):
                self._behind.add(peer.incarnation)
                return

    def _on_peer(self, incarnation: bytes, opened: bool) -> None:
        if not opened:
            self._behind.discard(incarnation)
            self._directory.lose(incarnation)
            self._on_gone(incarnation)
            return
        peer = None if self._links is None else self._links.peer(incarnation)
        if peer is not None:
            self._tell_all(peer)

    def _hear(self, peer: bytes, body: bytes) -> None:
        try:
            told = announcement.decode(body)
        except msgspec.MsgspecError as error:
            _log.error("announcement not understood", peer=peer.hex(), error=str(error))
            return
        self._directory.hear(peer, told)
        if told.released:
            self._on_free(told.released)

    def _hear_wanted(self, peer: bytes, body: bytes) -> None:
        try:
            told = announcement.decode(body)
        except msgspec.MsgspecError as error:
            _log.error("announcement not understood", peer=peer.hex(), error=str(error))
            return
        self._on_free(told.released)
