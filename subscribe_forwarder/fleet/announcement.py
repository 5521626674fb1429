"""The announcements of forwarders about what they own, as bytes of a note."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from metadata.types import Unit
from subscribe_forwarder.delivery.ownership import Owned

UNITS = "fleet.units"
"""An announcement."""
LEAVING = "fleet.leaving"
"""The sender owns nothing any more, and will not: no body."""
WANTED = "fleet.wanted"
"""Units that nobody serves and that the sender believes the hearer is to claim: as `released`."""
MAX_UNITS = 1000
"""The limit of units in one note."""


class Announcement(msgspec.Struct, frozen=True, array_like=True):
    """`full`: what the sender owned before is forgotten, but for what this and the announcements
    that follow name."""

    full: bool = False
    owned: tuple[Owned, ...] = ()
    released: tuple[Unit, ...] = ()


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Announcement)


def decode(body: bytes) -> Announcement:
    """Raises msgspec.MsgspecError."""
    return _decoder.decode(body)


def announcements(
    owned: Sequence[Owned] = (), released: Sequence[Unit] = (), *, full: bool = False
) -> Iterator[bytes]:
    """Yield the notes of an announcement; one at least where `full`."""
    for at in range(0, len(released), MAX_UNITS):
        yield _encoder.encode(Announcement(released=tuple(released[at : at + MAX_UNITS])))
    for at in range(0, max(len(owned), 1 if full else 0), MAX_UNITS):
        part = tuple(owned[at : at + MAX_UNITS])
        yield _encoder.encode(Announcement(full=full and at == 0, owned=part))
