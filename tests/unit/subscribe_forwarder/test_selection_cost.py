"""Proof 1 of the audit: however dear a filter is, it is evaluated in pieces of bounded cost."""

from __future__ import annotations

import asyncio

import pytest

from edge.expressions import compile_expression
from store_nodes.record_batch import Message
from subscribe_forwarder.reading.judgement import Judgement, Turn
from subscribe_forwarder.selection import Selection
from subscribe_forwarder.selection.pieces import PIECE_BYTES, PIECE_NS, Pieces, size_bytes
from subscribe_forwarder.selection.rule import Rule
from subscribe_forwarder.selection.variables import Bodies
from tests.loop_cpu import MAX_CALLBACK_MS, cpu_ms, measured
from tests.unit.subscribe_forwarder.test_selection import batch_of

JSON = "application/json"
DEAR = {
    "a loop with a long body": f"data.all(x, {' && '.join(['x == 1'] * 400)})",
    "a loop that looks in a long list": f"data.all(x, x in [{','.join(['0'] * 500)},1])",
    "a loop over a long list": f"[{','.join('1' * 600)}].all(x, {'x==1&&' * 400}true)",
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
    one_ns = rule.ns(size_bytes(batch.messages()[0]))
    assert took_ms * 1e6 < max(PIECE_NS, one_ns) * 2
    assert took_ms < MAX_CALLBACK_MS


@pytest.mark.parametrize("what", DEAR)
async def test_a_turn_that_is_used_to_cheap_messages_meets_dear_ones(what: str) -> None:
    """Pieces grow while they cost little; what comes next may cost more."""
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
