from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge import caller as module
from edge.caller import Caller, fits
from edge.problem import Problem


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
        assert len(caller._remembered) <= 10


def test_require_names_what_lacks() -> None:
    with pytest.raises(Problem) as caught:
        Caller(()).require("publish", "topic", "orders")
    assert caught.value.status == 403
    assert caught.value.detail == "This token lacks the permission 'publish' on the topic 'orders'."
