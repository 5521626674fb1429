"""Errors of messages that get no receipt: each says why, and whether the message may be stored."""

from __future__ import annotations

from packetboat.errors import (
    ApiError,
    NotDone,
    PacketboatError,
    PrecedingFailed,
    UnknownOutcome,
)
from packetboat.publisher.batch import Batch
from packetboat.publisher.pending import Pending
from packetboat.publisher.remembered import Remembered
from packetboat.publisher.verdict import PRECEDING_ITEM_FAILED, Verdict, copy_of, verdict_of


class Endings:
    """The errors of one publisher, and its memory of batches that may be stored."""

    def __init__(self, remembered: Remembered) -> None:
        self._remembered = remembered

    def refused(self, batch: Batch, index: int, error: PacketboatError) -> PacketboatError:
        """Return the error of a message that the server will never store, as far as this
        try is concerned.
        """
        if batch.may_be_stored and verdict_of(error) is not Verdict.WRONG:
            return self.unknown(batch, index, error)
        return error

    def held_back(self, batch: Batch, index: int, error: PacketboatError) -> PacketboatError:
        """Return the error of a message that may not be tried again.

        Behind a wrong message the server stores no other message of the same key, in any try of the
        batch.
        """
        says_so = isinstance(error, ApiError) and error.slug == PRECEDING_ITEM_FAILED
        if batch.may_be_stored and not says_so:
            return self.unknown(batch, index, error)
        return preceded(batch.messages[index])

    def given_up(self, batch: Batch, index: int, now_s: float) -> PacketboatError:
        """Return the error of a message in a batch whose time is over."""
        if batch.may_be_stored or batch.sent_s is not None:
            return self.unknown(batch, index)
        return self.not_sent(batch.messages[index], now_s)

    def not_sent(self, message: Pending, now_s: float) -> PacketboatError:
        """Return the error of an expired message that waits, or was refused at each try."""
        if message.refusal is not None:
            return copy_of(message.refusal)
        return NotDone(f"not sent within {now_s - message.accepted_s:.3g} s")

    def unknown(
        self, batch: Batch, index: int, cause: PacketboatError | None = None
    ) -> UnknownOutcome:
        """Return the error of a message that may be stored; keep its batch for a retry."""
        batch.may_be_stored = True
        if not batch.kind.own_keys:
            self._remembered.keep(batch)
        last = cause or batch.messages[index].refusal
        told = "no answer came" if last is None else f"the last answer was {last.text}"
        key = batch.key_of(index)
        return UnknownOutcome(f"it may be stored: {told}", idempotency_key=key)


def preceded(message: Pending) -> PrecedingFailed:
    """Return the error of a message that waited behind a failed one of its key."""
    return PrecedingFailed(f"an earlier message of key {message.key!r} failed; this is not stored")
