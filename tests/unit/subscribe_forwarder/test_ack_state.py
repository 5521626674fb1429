"""Test what is told of one message for one subscription."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, cast

import msgspec
import pytest

from metadata.delivery.ack_history import DeadLetterState, MessageState, OpenState, SettledState
from metadata.types import Counters, CursorKey, CursorState, Epoch
from subscribe_forwarder.api.ack_state import ack_state
from subscribe_forwarder.delivery.reader import Reader

ACKED = Counters(acked=7)
WHEN = datetime(2026, 1, 31, tzinfo=UTC)
OPEN = OpenState("failed", 2, "no", WHEN)


def cursor(counters: Counters = ACKED) -> CursorState:
    """Return a cursor from 3 on.

    Offsets below 8 are settled, 10 and 11 too; the rest to 20 are pending.
    """
    key = CursorKey(b"t" * 16, b"s" * 16, 0)
    return CursorState(key, b"o" * 16, Epoch(0, 1), 0, 3, 8, 20, ((10, 12),), counters)


class KnownHere:
    """The ledger of a reader that leased 9, and has 13 waiting after an attempt."""

    def grant_of(self, offset: int) -> object:
        return object() if offset == 9 else None

    def is_waiting(self, offset: int) -> bool:
        return offset == 13

    def attempt(self, offset: int) -> int:
        return 2

    @property
    def ledger(self) -> KnownHere:
        return self

    @property
    def leases(self) -> KnownHere:
        return self


def told(message: MessageState, reader: Reader | None, offset: int) -> Any:
    """Return the members of the state that an answer has; None for no state."""
    shown = ack_state(message, reader, offset)
    return None if shown is None else msgspec.to_builtins(shown, builtin_types=(datetime,))


HERE = cast(Reader, KnownHere())
PENDING = {"state": "pending", "attempts": 0}


@pytest.mark.parametrize(
    ("offset", "reader", "message", "shown"),
    [
        (2, HERE, MessageState(cursor()), None),
        (3, HERE, MessageState(cursor()), {"state": "acked"}),
        (8, HERE, MessageState(cursor()), PENDING),
        (9, None, MessageState(cursor()), PENDING),
        (9, HERE, MessageState(cursor()), {"state": "leased", "attempts": 2}),
        (11, HERE, MessageState(cursor()), {"state": "acked"}),
        (13, HERE, MessageState(cursor()), {"state": "pending", "attempts": 1}),
        (13, None, MessageState(cursor()), PENDING),
        (
            5,
            None,
            MessageState(cursor(), open=OPEN),
            {
                "state": "pending",
                "attempts": 2,
                "reason": "failed",
                "detail": "no",
                "not_before": WHEN,
            },
        ),
        (9, HERE, MessageState(cursor(), open=OPEN), {"state": "leased", "attempts": 2}),
        (5, None, MessageState(cursor(), open=OpenState("hole", 0, None, None)), PENDING),
        (
            5,
            None,
            MessageState(cursor(), dead=DeadLetterState("rejected", 1, None, WHEN)),
            {"state": "dead_lettered", "attempts": 1, "settled_at": WHEN, "reason": "rejected"},
        ),
        (
            5,
            None,
            MessageState(cursor(), settled=SettledState("skipped", WHEN)),
            {"state": "skipped", "settled_at": WHEN},
        ),
    ],
)
def test_the_state_of_a_message(
    offset: int, reader: Reader | None, message: MessageState, shown: dict[str, Any] | None
) -> None:
    assert told(message, reader, offset) == shown


@pytest.mark.parametrize(
    ("counters", "state"),
    [
        (Counters(filtered=7), "filtered"),
        (Counters(skipped=7), "skipped"),
        (Counters(expired=6, dead_lettered=1), "expired"),
        (Counters(acked=7), "acked"),
        (Counters(acked=6, dead_lettered=1), "acked"),
    ],
)
def test_without_a_history_the_counters_decide(counters: Counters, state: str) -> None:
    assert told(MessageState(cursor(counters)), None, 5) == {"state": state}


@pytest.mark.parametrize(
    ("counters", "outcomes"),
    [
        (Counters(filtered=6, expired=1), ["filtered", "expired"]),
        (Counters(acked=1, filtered=6), ["acked", "filtered"]),
        (Counters(acked=1, skipped=3, expired=3), ["acked", "skipped", "expired"]),
    ],
)
def test_without_a_history_nothing_is_called_acked_that_may_not_be(
    counters: Counters, outcomes: list[str]
) -> None:
    shown = told(MessageState(cursor(counters)), None, 5)
    assert shown == {"state": "settled", "outcomes": outcomes}
