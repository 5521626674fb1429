"""The state of one message for one subscription; pure.

An unsettled message is `pending`, or `leased` where this process holds the lease; a `dead_lettered`
one has its row: these are exact. The outcome of any other settled message is known where its topic
keeps the history. Else there are counters only: when the cursor settled all its messages alike,
this one had the same outcome. Otherwise it is called `settled`, with the outcomes that it can have
had.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

from msgspec import UNSET, UnsetType

from metadata.delivery.ack_history import MessageState
from metadata.types import Counters
from openapi.topics import AckState, Outcome
from subscribe_forwarder.delivery.reader import Reader

T = TypeVar("T")


def ack_state(message: MessageState, reader: Reader | None, offset: int) -> AckState | None:
    """Return the state of the message; None below the subscription's start."""
    cursor = message.cursor
    if offset < cursor.start:
        return None
    passed = offset < cursor.floor or _inside(cursor.acked, offset)
    if message.open is None and passed:
        return _settled(message)
    return _pending(message, reader, offset)


def _settled(message: MessageState) -> AckState:
    dead, settled = message.dead, message.settled
    if dead is not None:
        return AckState(
            "dead_lettered",
            attempts=dead.attempts,
            settled_at=dead.dead_at,
            reason=dead.reason,
            detail=_given(dead.detail),
        )
    if settled is not None:
        return AckState(settled.outcome, settled_at=settled.settled_at)
    return _by_counters(message.cursor.counters)


def _pending(message: MessageState, reader: Reader | None, offset: int) -> AckState:
    """Return the state of an unsettled message.

    Attempts are those that ended, and with a lease the present one; the knowledge of this process
    is newer than committed rows.
    """
    open_state = message.open
    attempts = 0
    state = AckState("pending")
    if open_state is not None:
        attempts = open_state.attempts
        if open_state.reason != "hole":
            state.reason = open_state.reason
        state.detail, state.not_before = _given(open_state.detail), _given(open_state.not_before)
    if reader is not None:
        ledger = reader.ledger
        if ledger.leases.grant_of(offset) is not None:
            return AckState("leased", attempts=ledger.attempt(offset))
        if ledger.leases.is_waiting(offset):
            attempts = max(attempts, ledger.attempt(offset) - 1)
    state.attempts = attempts
    return state


def _by_counters(counters: Counters) -> AckState:
    """Return the state, by counters, of a message that has no row among the dead letters."""
    counts: dict[Outcome, int] = {
        "acked": counters.acked,
        "filtered": counters.filtered,
        "skipped": counters.skipped,
        "expired": counters.expired,
    }
    some = [outcome for outcome, count in counts.items() if count]
    return AckState(some[0]) if len(some) == 1 else AckState("settled", outcomes=some)


def _given(value: T | None) -> T | UnsetType:
    return UNSET if value is None else value


def _inside(ranges: Iterable[tuple[int, int]], offset: int) -> bool:
    return any(low <= offset < high for low, high in ranges)
