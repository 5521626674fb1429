"""Test the acks of pushed messages whose ledger is replaced while they are committed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from metadata.types import Epoch
from subscribe_forwarder.delivery.ack_id import Head, Minter
from subscribe_forwarder.delivery.state.ledger import Now, Policy
from subscribe_forwarder.push.outcome_commits import Item, OutcomeCommits
from subscribe_forwarder.push.verdict import Verdict
from tests.unit.subscribe_forwarder.subscribe_support import ACK_KEY, SUBSCRIPTION_UID

DELIVERED = Verdict("delivered", None, True, "", None, None)  # type: ignore[arg-type]


class FakeReader:
    """A reader that acks every offset that it is given."""

    place = (0, 0)
    frozen = False

    def __init__(self) -> None:
        self.ledger = SimpleNamespace(policy=Policy())

    def acked(self, offsets: Sequence[int]) -> int:
        return len(offsets)


async def test_an_ack_of_a_ledger_that_was_replaced_during_its_commit_is_passed_on() -> None:
    reader: Any = FakeReader()
    hub: Any = SimpleNamespace(
        subscription=SimpleNamespace(delivery="at_least_once"),
        readers={reader.place: reader},
    )
    minter = Minter(Head(SUBSCRIPTION_UID, 1, 0, 0, Epoch(0, 1)), ACK_KEY)
    late: list[tuple[str, Sequence[bytes]]] = []
    began, go = asyncio.Event(), asyncio.Event()

    async def commit(readers: object) -> None:
        began.set()
        await go.wait()

    outcomes = OutcomeCommits(
        hub, commit, lambda: Now(0, 0), lambda how, ids: late.append((how, ids)), lambda: None
    )
    batch: Any = SimpleNamespace(base=7)
    outcomes.settle([Item(reader, reader.ledger, batch, 2, 1, 1, minter)], DELIVERED)
    await began.wait()
    assert outcomes.uncommitted == 1
    reader.ledger = SimpleNamespace(policy=Policy())
    go.set()
    await outcomes.close(5)
    assert outcomes.uncommitted == 0
    assert late == [("ack", [minter.mint(9, 1)])]
