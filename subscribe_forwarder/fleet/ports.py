"""The ownership of units, as the code that routes calls asks for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from metadata.types import Subscription, Unit
from subscribe_forwarder.peers import Links


class Place(NamedTuple):
    """Some partitions of a subscription, at one forwarder."""

    forwarder: bytes
    """The incarnation of the forwarder."""
    partitions: tuple[int, ...]


class Whereabouts(NamedTuple):
    """The places where the partitions of a subscription are served now."""

    here: tuple[int, ...]
    """Owned by this process."""
    elsewhere: tuple[Place, ...]
    nowhere: tuple[int, ...]
    """The partitions between two owners, or of one without a link to us: soon somewhere."""
    version: int
    """The version of the knowledge; another one means that it may have changed."""

    @property
    def all_here(self) -> bool:
        return not self.elsewhere and not self.nowhere


class Directory(Protocol):
    """The units that this process owns and that its peers have announced."""

    def find(self, subscription: Subscription, partitions: Sequence[int]) -> Whereabouts: ...

    async def changed(self, subscription: Subscription, version: int) -> None:
        """Returns when the whereabouts may be others than at that version."""
        ...

    def owners(self) -> Mapping[bytes, int]:
        """Return how many units each forwarder has announced, this one included."""
        ...


class Hints(Protocol):
    """The part of `metadata.delivery.hints.HintRepository` that claims use."""

    async def all(self) -> Mapping[Unit, bytes]:
        """Return where the scheduler wants units to be, by incarnation; raises MetadataError."""
        ...


class FleetLinks(Links, Protocol):
    """Links that are told between whom they are to be."""

    def identify(self, incarnation: bytes) -> None:
        """We are another from now on: our lease is a new one."""
        ...

    def follow(self, live: Mapping[bytes, tuple[str, int]]) -> None:
        """Follow the other forwarders that live, and where their links are accepted."""
        ...
