from __future__ import annotations

import asyncio
import itertools
import re
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge import caller as module
from edge.asgi import CALLER
from edge.caller import Caller, fits
from edge.problem import Problem
from gateway.resources import visible_page
from metadata.types import Page
from tests.loop_cpu import MAX_CALLBACK_MS, measured


@given(st.text("ab*", max_size=8), st.text("ab", max_size=10))
def test_a_pattern_matches_as_its_regular_expression_does(pattern: str, name: str) -> None:
    expression = ".*".join(re.escape(part) for part in pattern.split("*"))
    assert fits(pattern, name) is (re.fullmatch(expression, name) is not None)


def test_nothing_in_a_pattern_is_special_but_the_star() -> None:
    assert not fits("a.c", "abc")
    assert not fits("a?c", "abc")
    assert fits("a[b]*", "a[b]c")


def test_a_permission_on_names_of_one_kind() -> None:
    caller = Caller([("publish", "topic", "orders-*"), ("read", "*", "*-eu")])
    for _ in range(2):  # the second time from memory
        assert caller.may("publish", "topic", "orders-1")
        assert not caller.may("publish", "topic", "order")
        assert not caller.may("publish", "subscription", "orders-1")
        assert not caller.may("consume", "topic", "orders-1")
        assert caller.may("read", "lock", "l-eu")
        assert not caller.may("read", "lock", "l-us")
    assert caller.may_some("publish", "topic")
    assert not caller.may_some("publish", "lock")
    assert caller.may_some("read", "lock")
    assert caller.may_some("publish")
    assert not caller.may_some("manage")
    assert not caller.may_all("publish", "topic")


def test_a_permission_on_everything() -> None:
    one, every = Caller([("read", "topic", "*")]), Caller([("read", "*", "**")])
    assert one.may_all("read", "topic")
    assert not one.may_all("read", "lock")
    assert not one.may_all("read")
    assert every.may_all("read", "topic")
    assert every.may_all("read")


def test_no_grants_allow_nothing() -> None:
    nobody = Caller(())
    assert not nobody.may("read", "topic", "a")
    assert not nobody.may_some("read")
    assert not nobody.may_all("read", "topic")


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_REMEMBERED", 10)
    caller = Caller([("read", "topic", "*1")])
    for number in range(100):
        assert caller.may("read", "topic", str(number)) is str(number).endswith("1")
        assert len(caller._granted._remembered) <= 10


@given(st.lists(st.text("ab*", min_size=1, max_size=5), max_size=6), st.text("ab", max_size=6))
def test_a_name_is_granted_where_one_of_the_patterns_fits(patterns: list[str], name: str) -> None:
    caller = Caller(
        [("read", "topic" if at % 2 else "*", each) for at, each in enumerate(patterns)]
    )
    assert caller.may("read", "topic", name) is any(fits(each, name) for each in patterns)
    assert caller.may("read", "lock", name) is any(fits(each, name) for each in patterns[::2])
    asyncio.run(caller._granted.learn("schema", name))
    assert caller.may("read", "schema", name) is any(fits(each, name) for each in patterns[::2])


def test_a_name_is_held_against_few_of_many_patterns(monkeypatch: pytest.MonkeyPatch) -> None:
    """A listing of 1,000 names took 30 s of the event loop beside 50,000 patterns."""
    caller = Caller([("read", "topic", f"orders-{number:05}-*") for number in range(50_000)])
    held: list[str] = []
    monkeypatch.setattr(module, "fits", lambda pattern, name: bool(held.append(pattern)))
    assert not caller.may("read", "topic", "orders-00007-eu")
    assert held == ["orders-00007-*"]


def test_a_name_is_held_against_few_of_many_patterns_that_begin_with_a_star(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each new name was held against all of 50,000 patterns, which took 28 to 36 ms."""
    caller = Caller([("read", "topic", f"*-{number:05}") for number in range(50_000)])
    held: list[str] = []
    monkeypatch.setattr(module, "fits", lambda pattern, name: bool(held.append(pattern)))
    assert not caller.may("read", "topic", "orders-00007")
    assert held == ["*-00007"]


ALIKE = [f"*a*b{number:05}*a*" + "b*" * 100 for number in range(20_000)]
"""Patterns that neither begin nor end with a text, and that take long to compare."""


async def test_a_name_beside_patterns_that_are_all_alike_leaves_the_loop_to_others() -> None:
    caller = Caller([("read", "topic", each) for each in ALIKE])
    assert caller.slow
    async with measured() as callbacks:
        assert not await caller.allows("read", "topic", "ab" * 60)
        with pytest.raises(Problem):
            await caller.require("read", "topic", "ba" * 60)
        assert not caller.may("read", "topic", "ab" * 60), "from memory"
    assert callbacks.longest_ms < MAX_CALLBACK_MS, callbacks.longest


async def test_names_that_are_looked_at_together_take_one_slice_of_a_turn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Hundreds of requests for other names must not each take a slice of every turn of the loop."""
    monkeypatch.setattr("edge.slices.SLICE_S", -1.0)  # a slice is one pattern
    caller = Caller([("read", "topic", f"*{number}*") for number in range(module.MAX_AT_ONCE + 1)])
    held: list[str] = []
    monkeypatch.setattr(module, "fits", lambda pattern, name: bool(held.append(name)))
    async with asyncio.TaskGroup() as group:
        for name in "abc":
            group.create_task(caller.learn("read", "topic", name))
    assert [name for name, _ in itertools.groupby(held)] == ["a", "b", "c"]


def test_names_beyond_any_resource_are_not_remembered() -> None:
    """A path may be 60 KiB long, and thousands of them were kept."""
    caller = Caller([("read", "topic", "a*"), ("read", "lock", "*")])
    assert not caller.may("read", "topic", "a" * 10_000)
    assert caller.may("read", "lock", "a" * 10_000)
    assert not caller._granted._remembered


async def test_a_listing_beside_patterns_that_are_all_alike_leaves_the_loop_to_others() -> None:
    patterns = [("read", "topic", f"*{number:05}*") for number in range(module.MAX_AT_ONCE)]
    scope: dict[str, Any] = {"query_string": b"", CALLER: Caller(patterns)}
    page = Page(tuple(Named(f"orders-{number}") for number in range(1_000)), None)

    async def read(size: int, token: str | None) -> Page[Named]:
        return page

    async with measured() as callbacks:
        assert (await visible_page(scope, "topic", read)).items == ()
    assert callbacks.longest_ms < MAX_CALLBACK_MS, callbacks.longest


class Named(NamedTuple):
    name: str


async def test_require_names_what_lacks() -> None:
    with pytest.raises(Problem) as caught:
        await Caller(()).require("publish", "topic", "orders")
    assert caught.value.status == 403
    assert caught.value.detail == "This token lacks the permission 'publish' on the topic 'orders'."
