"""What became of the ids of an ack or a nack."""

from __future__ import annotations

import msgspec


class ItemFailure(msgspec.Struct, frozen=True):
    """Why one id of an ack or nack failed."""

    index: int
    status: int
    type: str
    detail: str = ""
    ack_id: str | None = None
    message_id: str | None = None

    @property
    def slug(self) -> str:
        return self.type.rpartition("/")[2]


class Settled(msgspec.Struct, frozen=True):
    """How many ids were acked, nacked, …, and which were not."""

    count: int
    failures: tuple[ItemFailure, ...] = ()
