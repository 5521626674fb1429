"""A forwarder's lease: one row per incarnation, 4 s long, renewed each second.

Postgres' clock decides when others may take over; the holder goes by its own monotonic clock,
counted from *before* the renewal was sent and less a margin, so it always stops first.
"""

from __future__ import annotations

from dataclasses import dataclass

from metadata.database import Database
from metadata.types import Forwarder

LEASE_S = 4.0
RENEW_EVERY_S = 1.0
MARGIN_S = 0.5


@dataclass(frozen=True, slots=True)
class Lease:
    """What the holder knows: good while `held(now)`; `now_s` is time.monotonic()."""

    incarnation: bytes
    valid_until_s: float

    def held(self, now_s: float) -> bool:
        return now_s < self.valid_until_s


class LeaseRepository:
    """Rows of `forwarders`. A lease that has run out is never renewed: register anew."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def register(
        self, incarnation: bytes, *, role: str, address: str = "", sole: bool = False
    ) -> Lease:
        """A new row; with `sole`, LeaseHeld while another live row has that role."""
        raise NotImplementedError

    async def renew(self, incarnation: bytes) -> Lease:
        """LeaseLost when the row is gone or was over when the renewal arrived."""
        raise NotImplementedError

    async def release(self, incarnation: bytes) -> None:
        """Releases its assignments and drops the row, together. Idempotent."""
        raise NotImplementedError

    async def live(self, role: str) -> list[Forwarder]:
        """Rows whose lease is not over."""
        raise NotImplementedError
