"""New filters are read in short pieces: what others get of the event loop, and that nothing else
changes."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from edge.asgi import TENANT
from edge.expressions import (
    MESSAGE_VARIABLES,
    BadExpression,
    ahead,
    boolean,
    bounds,
    compile_filter,
    expression,
)
from edge.expressions.ahead import SHORT_CHARS, read_ahead
from tests.abuse import heavy

ACME, OTHER = {TENANT: b"a" * 16}, {TENANT: b"o" * 16}
COSTLY = heavy.expressions()["a map"]
TEXTS = heavy.expressions() | {"a NUL": COSTLY + " || '\0' == key", "too long": " " * 4096 + "true"}


def new(number: int) -> str:
    """Return a costly filter that nobody has read."""
    return COSTLY.replace("{", f"{{{number}: 0, ", 1)


@pytest.fixture(autouse=True)
def _nothing_is_read() -> Iterator[None]:
    expression._readings.clear()
    expression._beyond.cache_clear()
    expression._scanned.cache_clear()
    yield
    expression._readings.clear()


def outcome(text: str) -> object:
    try:
        compiled = compile_filter(text)
    except BadExpression as error:
        return str(error)
    return compiled.price, compiled.variables, compiled.conjunction()


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
async def test_a_text_that_was_read_ahead_is_taken_or_refused_as_it_was(
    text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = outcome(text)
    expression._readings.clear()
    await read_ahead(ACME, text)
    if len(text) > SHORT_CHARS:
        monkeypatch.setattr(expression, "_compiled", None)  # It is not compiled again.
    assert outcome(text) == expected


async def test_no_piece_does_two_of_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each step takes up to 8 ms; together they took 10 to 20 in one callback, and two filters
    followed one another in one pass of the event loop."""
    piece, pieces_of = 0, dict[str, int]()

    def noted(where: Any, name: str) -> None:
        step: Callable[..., Any] = getattr(where, name)

        def counted(*given: Any) -> Any:
            pieces_of.setdefault(name, piece)
            return step(*given)

        monkeypatch.setattr(where, name, counted)

    steps = [(expression, name) for name in ("_compiled", "fields_of", "price_of", "split")]
    steps += [(expression, "_scanned"), (bounds, "check"), (boolean, "check_boolean")]
    for where, name in steps:
        noted(where, name)
    text = new(1) + " && key == 'a'"
    for piece, _ in enumerate(expression.read_in_pieces(text, ("key",)), 1):  # noqa: B007
        pass
    assert sorted(pieces_of) == sorted(name for _, name in steps)
    assert len(set(pieces_of.values())) == len(steps)


async def test_new_filters_leave_three_quarters_of_the_time_to_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Test that a rest three times as long follows each piece, and that one filter is read at a
    time."""
    rests_s, sleep, clock = list[float](), asyncio.sleep, count()
    running = most = 0

    async def resting(seconds: float) -> None:
        nonlocal running, most
        rests_s.append(seconds)
        running += 1
        most = max(most, running)
        await sleep(0.001)
        running -= 1

    monkeypatch.setattr(time, "thread_time", lambda: next(clock) * 0.005)
    monkeypatch.setattr(asyncio, "sleep", resting)
    await asyncio.gather(*(read_ahead(ACME, new(number)) for number in range(4)))
    assert most == 1
    assert len(rests_s) > 4 * 4
    assert rests_s == pytest.approx([0.015] * len(rests_s))


async def test_tenants_take_turns() -> None:
    read = list[str]()

    async def one(scope: Any, number: int) -> None:
        await read_ahead(scope, new(number))
        read.append("acme" if scope is ACME else "other")

    many = [one(ACME, number) for number in range(5)]
    await asyncio.gather(*many, one(OTHER, 5))
    assert read.index("other") <= 2


async def test_a_filter_that_was_read_or_is_short_waits_for_nobody() -> None:
    await read_ahead(ACME, new(1))
    async with ahead._permits.permit(OTHER[TENANT]):
        async with asyncio.timeout(10):
            await read_ahead(ACME, new(1))
            await read_ahead(ACME, "key == 'a'")
            await read_ahead(ACME, None)


@pytest.mark.parametrize("scope", [ACME, OTHER], ids=["while it reads", "while it waits"])
async def test_a_request_that_is_cancelled_leaves_the_turn_to_the_next(scope: Any) -> None:
    first = asyncio.create_task(read_ahead(ACME, new(0)))
    gone = first if scope is ACME else asyncio.create_task(read_ahead(scope, new(1)))
    await asyncio.sleep(0)
    gone.cancel()
    async with asyncio.timeout(30):
        await read_ahead(ACME, new(2))
    assert expression.is_read(new(2), MESSAGE_VARIABLES)
