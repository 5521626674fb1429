"""Proof 1 of the audit: however dear a filter is, it is evaluated in pieces of bounded cost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime

import pytest
from msgspec.structs import replace

from edge import process_pool as process_pool_module
from edge.expressions import compile_expression
from edge.process_pool import ProcessPool
from metadata.types import SkipRule
from store_nodes.record_batch import Message
from subscribe_forwarder.delivery.reading.batch import Batch
from subscribe_forwarder.delivery.reading.judgement import Judgement, Run, Turn
from subscribe_forwarder.delivery.selection import Selection, read_ahead
from subscribe_forwarder.delivery.selection import of as selection_of
from subscribe_forwarder.delivery.selection.pieces import PIECE_BYTES, Pieces
from subscribe_forwarder.delivery.selection.rule import Rule
from subscribe_forwarder.delivery.selection.variables import Bodies
from subscribe_forwarder.delivery.selection.worker_evaluator import WorkerEvaluator
from subscribe_forwarder.delivery.state.cursor import Settled
from tests.loop_cpu import MAX_CALLBACK_MS, cpu_ms, measured
from tests.unit.subscribe_forwarder.subscribe_support import subscription as subscription_of_tests
from tests.unit.subscribe_forwarder.test_selection import batch_of

JSON = "application/json"
DEAR = {
    "a loop with a long body": f"data.all(x, {' && '.join(['x == 1'] * 120)})",
    "a loop that looks in a long list": f"data.all(x, x in [{','.join(['0'] * 500)},1])",
    "a loop over a long list": f"[{','.join('1' * 600)}].all(x, {'x==1&&' * 300}true)",
    "a loop that hands over the attributes": "data.all(x, size(attributes) >= 0)",
    "a long condition": "||".join(["attributes.a==attributes.c"] * 130),
    "many patterns": " && ".join([f'key.matches("^[a-z]{{1,{n}}}$")' for n in range(3, 8)]),
    "a list that is written out": f"priority in [{','.join('1' * 1900)}]",
}


def messages(count: int = 300) -> list[Message]:
    data = f"[{','.join('1' * 800)}]".encode()
    attributes = {"a": "x" * 200, "b": "x" * 200, "c": "x" * 199 + "y"}
    return [
        Message(data, content_type=JSON, key="abc", attributes=attributes) for _ in range(count)
    ]


@pytest.mark.parametrize("what", DEAR)
def test_a_piece_costs_what_was_reckoned_at_most(what: str) -> None:
    batch = batch_of(messages())
    rule = Rule(DEAR[what], Bodies())
    low, high = next(iter(Pieces([rule]).of(batch, 0, 300)))
    took_ms, _ = cpu_ms(lambda: rule.matches(batch, range(low, high)))
    assert took_ms < MAX_CALLBACK_MS


@pytest.mark.parametrize("what", DEAR)
async def test_a_turn_that_is_used_to_cheap_messages_meets_dear_ones(what: str) -> None:
    """Pieces grow while they cost little; the next messages may cost more."""
    dear = batch_of(messages())
    selection = Selection(DEAR[what], ())
    selection._piece = 1_000
    async with measured() as callbacks:
        judgement = Judgement(dear, selection, None)
        for _ in range(2):
            judgement.go_on(Turn())
            await asyncio.sleep(0)
    assert callbacks.longest_ms < MAX_CALLBACK_MS, callbacks.longest


@pytest.mark.parametrize("text", [*DEAR.values(), "true", "data.a == 1"])
def test_the_line_of_a_piece_is_above_the_price(text: str) -> None:
    price = compile_expression(text).price
    slope = (price.ns(PIECE_BYTES) - price.ns(0)) / PIECE_BYTES
    for size in range(0, PIECE_BYTES, 4096):
        assert price.ns(size) <= price.ns(0) + slope * size + 1


@pytest.mark.parametrize("what", DEAR)
def test_pieces_are_all_there_is_once(what: str) -> None:
    batch = batch_of(messages(60))
    pieces = Pieces([Rule(DEAR[what], Bodies())]).of(batch, 3, 50)
    assert [index for low, high in pieces for index in range(low, high)] == list(range(3, 50))


def huge(item: str = "1", count: int = 400_000, kind: str = "a") -> Message:
    data = f"[{','.join([item] * count)}]".encode()
    return Message(data, content_type=JSON, attributes={"kind": kind})


@pytest.fixture
async def evaluator() -> AsyncIterator[WorkerEvaluator]:
    process_pool = ProcessPool()
    made = WorkerEvaluator(process_pool)
    yield made
    made.close()
    await process_pool.close()


async def judged(selection: Selection, batch: Batch) -> list[Run]:
    judgement, turn = Judgement(batch, selection, None), Turn()
    while judgement.upto < len(batch.messages()):
        judgement.go_on(turn)
        await asyncio.sleep(0.005 if turn.waits else 0)
        turn.renew()
    return judgement.runs


async def test_a_message_that_is_dear_alone_is_judged_in_another_process(
    evaluator: WorkerEvaluator,
) -> None:
    small = Message(b"[1]", content_type=JSON, attributes={"kind": "a"})
    text = 'attributes.kind == "a" && data.all(x, x == 1 && x != 2)'
    batch = batch_of([small, huge(), small, huge("2"), huge(kind="b")])
    selection = Selection(
        text, ['data.exists(x, x == "1")'], tenant_id=b"t" * 16, evaluator=evaluator
    )
    async with measured() as callbacks:
        runs = await judged(selection, batch)
    assert [(run.low, run.high, run.how) for run in runs] == [
        (0, 3, None),
        (3, 5, Settled.FILTERED),
    ]
    assert callbacks.longest_ms < MAX_CALLBACK_MS, callbacks.longest


async def test_an_evaluation_that_takes_too_long_is_true_for_nothing(
    evaluator: WorkerEvaluator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_pool_module, "LIMIT_S", 0.05)
    selection = Selection("data.all(x, x == 1)", (), tenant_id=b"t" * 16, evaluator=evaluator)
    runs = await judged(selection, batch_of([huge()]))
    assert [run.how for run in runs] == [Settled.FILTERED]
    assert (selection.errors, selection.first_error) == (1, "it takes too long to evaluate")


async def test_many_dear_expressions_of_a_subscription_are_read_in_slices() -> None:
    """The expressions are those of a subscription that is opened, and none was read here before."""
    rules = tuple(
        SkipRule(
            bytes(16),
            f"key == '{n}' && ({'||'.join(['priority==1'] * 250)})",
            "",
            "",
            datetime.now(UTC),
        )
        for n in range(20)
    )
    subscription = replace(subscription_of_tests(), skip_rules=rules)
    async with measured() as callbacks:
        await read_ahead(subscription)
    assert callbacks.longest_ms < MAX_CALLBACK_MS, callbacks.longest
    took_ms, found = cpu_ms(lambda: selection_of(subscription))
    assert found is not None
    assert took_ms < MAX_CALLBACK_MS
