"""However dear an expression is, a turn of the loop judges a bounded part of what is to be read."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from edge.expressions import Expression
from store_nodes.record_batch import Message
from subscribe_forwarder.delivery.reading import judgement as module
from subscribe_forwarder.delivery.reading.judgement import BUDGET_S, Turn
from subscribe_forwarder.delivery.selection import Selection
from subscribe_forwarder.delivery.selection import selection as selection_module
from subscribe_forwarder.delivery.selection.pieces import PIECE_BYTES
from subscribe_forwarder.delivery.state.cursor import Settled
from tests.unit.subscribe_forwarder.subscribe_support import (
    SUBSCRIPTION_UID,
    FakeMetadata,
    FakeStore,
    subscription,
    topic,
    world,
)
from tests.unit.subscribe_forwarder.test_selection import batch_of, message

DEAR = 'attributes.kind != "b"'  # no equality: it is evaluated
FILTERED = Settled.FILTERED


class Toll:
    """A clock that only evaluations move, each by `each_s`."""

    def __init__(self, each_s: float, monkeypatch: pytest.MonkeyPatch) -> None:
        self.evaluations = self.since = self.most = 0
        self.turns = 0
        evaluate = Expression.matches

        def matches(expression: Expression, variables: Mapping[str, object]) -> bool:
            self.evaluations += 1
            self.since += 1
            self.most = max(self.most, self.since)
            return evaluate(expression, variables)

        monkeypatch.setattr(Expression, "matches", matches)
        monkeypatch.setattr(module.Turn, "now_s", lambda _: self.evaluations * each_s)

    async def count_turns(self) -> None:
        while True:
            self.turns += 1
            self.since = 0
            await asyncio.sleep(0)


@pytest.mark.parametrize(("each_s", "most"), [(0.02, 1), (0.001, 8), (0.000_01, 700)])
async def test_a_turn_evaluates_no_longer_than_its_budget(
    each_s: float, most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = FakeStore()
    for kind in ("b", "b", "a"):
        store.publish(*[Message(b"", attributes={"kind": kind})] * 300)
    metadata = FakeMetadata(topic(), replace(subscription(), filter=DEAR))
    async with world(store, metadata) as w:
        await w.ready()
        toll = Toll(each_s, monkeypatch)
        counting = asyncio.create_task(toll.count_turns())
        offsets: list[int] = []
        while len(offsets) < 300:
            messages = await w.pulled(wait_s=20)
            offsets += [m["offset"] for m in messages]
            await w.ack(*messages)
        counting.cancel()
        assert offsets == list(range(600, 900))
        assert toll.evaluations == 900  # nothing twice
        assert toll.most <= most
        assert w.metadata.row().counters.filtered == 600


async def test_what_goes_out_again_is_judged_within_the_turn_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    batch = batch_of([message(attributes={"kind": "b"})] * 100)
    toll = Toll(BUDGET_S, monkeypatch)
    selection, turn = Selection(DEAR, ()), Turn()
    judged = batch.judge(selection, SUBSCRIPTION_UID, 60, turn, 61)
    assert judged is not None
    assert judged.how(60) is FILTERED
    assert (toll.evaluations, turn.over) == (1, True)
    judged = batch.judge(selection, SUBSCRIPTION_UID, 61, turn, 62)
    assert judged is not None
    assert judged.upto == 61
    turn.renew()
    judged = batch.judge(selection, SUBSCRIPTION_UID, 10, turn)
    assert judged is not None
    assert (judged.first, judged.upto) == (10, 11)


def test_a_judgement_of_parts_is_that_of_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = "aabbbacbbaaaacb" * 9
    batch = batch_of([message({"n": 1}, attributes={"kind": kind}) for kind in kinds])
    Toll(BUDGET_S, monkeypatch)
    turn = Turn()
    for text in (DEAR, "true", "false", 'attributes.kind == "a" && data.n == 1'):
        selection = Selection(text, ['attributes.kind == "c"'])
        whole = selection.verdicts(batch) or [None] * len(kinds)
        while (judged := batch.judge(selection, b"", 0, turn)) is None or (
            judged.upto < len(kinds)
        ):
            turn.renew()
        assert [judged.how(index) for index in range(len(kinds))] == list(whole)
        assert judged.plain == all(how is None for how in whole)
        assert [run.low for run in judged.runs[1:]] == [run.high for run in judged.runs[:-1]]


def test_a_piece_has_a_size_in_bytes() -> None:
    size = PIECE_BYTES
    batch = batch_of([message("x" * (size // 2))] * 3 + [message("x" * 2 * size)] * 2)
    selection = Selection("data != null", ())
    for _ in range(20):
        selection.took(selection_module.MAX_PIECE, 0.0)
    assert [selection.slice_end(batch, low) for low in range(5)] == [1, 2, 3, 4, 5]
    assert Selection('attributes.kind == "a"', ()).slice_end(batch, 0) == 5
