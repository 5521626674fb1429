"""Data sets: the same each time, and of a kind that exports have to cope with."""

from __future__ import annotations

from functools import cache
from itertools import islice

import pytest

from benchmarks.datasets import COLUMNS, SETS, Record, events

SOME = 20_000


@cache
def some(name: str) -> list[Record]:
    return list(islice(SETS[name](), SOME))


@pytest.mark.parametrize("name", SETS)
def test_it_is_the_same_each_time(name: str) -> None:
    assert list(islice(SETS[name](), SOME)) == some(name)


def test_a_seed_makes_another() -> None:
    assert next(events(1)) != next(events(2))


@pytest.mark.parametrize("name", SETS)
def test_numbers_tell_the_order_and_fields_are_as_said(name: str) -> None:
    records = some(name)
    assert [record.body["n"] for record in records] == list(range(len(records)))
    assert set().union(*(record.body for record in records)) == set(COLUMNS[name])
    assert [] not in [value for record in records for value in record.body.values()]
    assert len({record.key for record in records}) > 20


def test_a_field_begins_to_come_later() -> None:
    with_coupon = [record.body["n"] for record in some("events") if "coupon" in record.body]
    assert with_coupon
    assert min(with_coupon) > 1_000
