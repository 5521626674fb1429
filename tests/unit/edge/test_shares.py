from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest

from edge.shares import FULL, SHARE, FairQueue, FairSemaphore, Shares, TooManyWaiting


def taken(shares: Shares, who: str, most: int = 1000) -> int:
    """Return how many it gets."""
    return next((n for n in range(most) if shares.take(who) is not None), most)


def test_a_tenant_alone_has_its_share_and_no_more() -> None:
    shares = Shares(64)
    assert taken(shares, "a") == 32
    assert shares.refusal("a") == SHARE
    assert shares.take("b") is None


def test_what_is_full_is_full_for_all() -> None:
    shares = Shares(3, share=1.0)
    assert [shares.take(who) for who in ("a", "b", "c", "d")] == [None, None, None, FULL]
    shares.release("b")
    assert shares.take("d") is None


def test_each_of_several_that_take_all_they_get_leaves_room_for_the_next() -> None:
    shares = Shares(1000)
    held = [taken(shares, str(number)) for number in range(3)]
    assert held[0] == 500
    assert all(held)
    assert shares.take("newcomer") is None


def test_who_holds_nothing_may_have_one_of_a_small_bound() -> None:
    shares = Shares(1)
    assert shares.take("a") is None
    assert shares.take("b") == FULL


def test_a_crowded_bound_is_parted_by_weight() -> None:
    shares = Shares(100, share=1.0, weight_of=lambda who: 3.0 if who == "heavy" else 1.0)
    for _ in range(20):
        shares.take("heavy")
    assert taken(shares, "light") == 55
    assert shares.refusal("light") == SHARE
    assert taken(shares, "heavy") == 25
    assert shares.refusal("heavy") == FULL


def test_bytes_are_counted_as_they_are_taken() -> None:
    shares = Shares(1000)
    assert shares.take("a", 400) is None
    assert shares.take("a", 101) == SHARE
    assert shares.take("b", 400) == SHARE
    assert shares.take("b", 250) is None
    assert shares.take("c", 351) == FULL
    shares.release("a", 400)
    assert (shares.held, shares.of("a"), shares.of("b")) == (250, 0, 250)


def test_a_block_holds_it_and_gives_it_back() -> None:
    shares = Shares(2)
    with shares.held_by("a") as refused:
        assert refused is None
        with shares.held_by("a") as again:
            assert again == SHARE
        assert shares.held == 1
    assert shares.held == 0


@pytest.mark.parametrize("seed", range(20))
def test_whatever_comes_the_sum_is_kept_and_no_rule_is_broken(seed: int) -> None:
    drawn = random.Random(seed)
    limit = drawn.randint(1, 60)
    shares = Shares(limit, share=drawn.choice([0.25, 0.5, 1.0]))
    model: Counter[str] = Counter()
    for _ in range(500):
        who = drawn.choice("abcdef")
        if model[who] and drawn.random() < 0.45:
            shares.release(who)
            model[who] -= 1
        elif shares.take(who) is None:
            model[who] += 1
            assert model[who] <= max(1, shares.most)
        assert shares.held == model.total() <= limit
        assert all(shares.of(each) == model[each] for each in "abcdef")
        assert shares.held < limit or shares.refusal("newcomer") == FULL
        assert shares.held == limit or shares.refusal("newcomer") is None


def test_a_line_serves_tenants_in_turn_and_each_in_its_order() -> None:
    line: FairQueue[int] = FairQueue()
    for number in range(4):
        line.add("a", number)
    line.add("b", 10)
    order = []
    while found := line.next():
        line.charge(found[0], 1)
        order.append(found)
    assert order == [("a", 0), ("b", 10), ("a", 1), ("a", 2), ("a", 3)]


def test_who_has_had_much_waits_for_who_had_little() -> None:
    line: FairQueue[str] = FairQueue(lambda who: 2.0 if who == "heavy" else 1.0)
    for who in ("heavy", "light"):
        line.add(who, who)
    line.charge("heavy", 30)
    line.charge("light", 20)
    found = line.next()
    assert found is not None
    assert found[0] == "heavy"


async def test_turns_are_taken_by_tenants_in_turn() -> None:
    turns = FairSemaphore(Shares(2), Shares(100))
    order: list[str] = []
    running: Counter[str] = Counter()

    async def one(who: str) -> None:
        async with turns.permit(who):
            running[who] += 1
            assert running[who] <= 1  # half of two
            await asyncio.sleep(0)
            order.append(who)
            running[who] -= 1

    await asyncio.gather(*(one("many") for _ in range(20)), one("few"))
    assert order.index("few") <= 1
    assert len(order) == 21
    assert turns.at_once.held == turns.waiting.held == 0


async def test_as_many_as_may_wait_and_the_next_is_told() -> None:
    turns = FairSemaphore(Shares(1), Shares(4))
    async with turns.permit("a"):
        waiting = [asyncio.ensure_future(_pass(turns, "a")) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(TooManyWaiting):
            await _pass(turns, "a")
        other = asyncio.ensure_future(_pass(turns, "b"))
        await asyncio.sleep(0)
    await asyncio.gather(*waiting, other)


async def test_who_is_cancelled_in_line_or_at_its_turn_leaves_nothing_behind() -> None:
    turns = FairSemaphore(Shares(1), Shares(10))
    async with turns.permit("a"):
        gone = asyncio.ensure_future(_pass(turns, "b"))
        late = asyncio.ensure_future(_pass(turns, "c"))
        await asyncio.sleep(0)
        gone.cancel()
        await asyncio.gather(gone, return_exceptions=True)
    late.cancel()  # told already, and not there any more
    await asyncio.gather(late, return_exceptions=True)
    await asyncio.wait_for(_pass(turns, "d"), 1)
    assert turns.at_once.held == turns.waiting.held == 0


async def _pass(turns: FairSemaphore, who: str) -> None:
    async with turns.permit(who):
        pass
