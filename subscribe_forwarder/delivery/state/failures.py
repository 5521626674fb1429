"""The outcome for a message whose lease ended without an ack. Pure."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from metadata.delivery.deliveries import OpenDelivery, Reason
from subscribe_forwarder.delivery.state.retry import Policy

TO_DEAD_LETTERS = (Reason.EXHAUSTED, Reason.REJECTED)
"""The reasons for which a message becomes a dead letter."""
PARKED = (Reason.PARKED, Reason.BEHIND_PARKED)


def failed(
    row: OpenDelivery,
    policy: Policy,
    *,
    leased_us: int,
    now_us: int,
    delay_ms: int | None,
    detail: str | None,
    random: Callable[[], float],
) -> OpenDelivery:
    """Return the row after one more failed attempt: delayed, or exhausted.

    The delay None stands for the policy's back-off.
    """
    row = _counted(row, leased_us, detail)
    if policy.exhausted(row.attempts):
        if not policy.park:
            return replace(row, reason=Reason.EXHAUSTED)
        if row.key_hash is not None:  # without a key there is nothing to hold back: it goes on
            return replace(row, reason=Reason.PARKED)
    if delay_ms is None:
        delay_ms = policy.backoff_ms(row.attempts, random)
    return replace(row, not_before_us=now_us + delay_ms * 1000 if delay_ms else None)


def rejected(row: OpenDelivery, *, leased_us: int, detail: str | None) -> OpenDelivery:
    """Return the row of a rejected message: nobody is to try again."""
    return replace(_counted(row, leased_us, detail), reason=Reason.REJECTED)


def _counted(row: OpenDelivery, leased_us: int, detail: str | None) -> OpenDelivery:
    return OpenDelivery(
        row.offset,
        row.attempts + 1,
        Reason.FAILED,
        key_hash=row.key_hash,
        detail=row.detail if detail is None else detail,
        first_us=leased_us if row.first_us is None else row.first_us,
        last_us=leased_us,
    )
