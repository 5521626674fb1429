"""That the checker of jobs finds what it is there to find."""

from __future__ import annotations

import random

import pytest

from metadata.jobs.types import Lease
from tests.chaos.delivery.job_book import Book, Held
from tests.chaos.delivery.job_plans import ADD, BEARS, HOPELESS, NARROW, SPLIT, Plan, planned


def held(secret: int, *, number: int = 0, from_s: float = 0.0, until_s: float = 2.0) -> Held:
    lease_id = str(Lease(0, bytes(16), number, secret.to_bytes(16)))
    return Held(lease_id, "job", NARROW, from_s, until_s, until_s)


@pytest.fixture
def broken() -> list[str]:
    return []


@pytest.fixture
def book(broken: list[str]) -> Book:
    return Book(broken.append)


def test_a_task_completed_under_two_leases_is_found(book: Book, broken: list[str]) -> None:
    for each in (held(1), held(1), held(2, number=1)):
        book.accepted(each)
    assert broken == []
    book.accepted(held(2))
    assert broken == ["job[0] was completed under two leases"]


def test_a_lease_given_twice_is_found(book: Book, broken: list[str]) -> None:
    book.granted(held(1), 0.0)
    book.granted(held(1), 0.0)
    assert broken == ["a lease of job[0] was given twice"]


def test_a_task_of_a_job_that_had_ended_is_found(book: Book, broken: list[str]) -> None:
    book.over["job"] = 5.0
    book.granted(held(1), 4.0)  # its answer was on the way
    assert broken == []
    book.granted(held(2), 6.0)
    assert broken == ["job[0] was handed out after its job had ended"]


def test_more_than_the_pool_bears_is_found(book: Book) -> None:
    for at in range(3):
        book.granted(held(at, number=at, from_s=at), 0.0)
    assert book.crowds(NARROW, 2) == []
    book.granted(held(9, number=9, from_s=1.5), 0.0)
    assert book.crowds(NARROW, 2) == ["3 leases of torture-narrow at once, of 2"]


def test_a_lease_that_was_settled_makes_room(book: Book) -> None:
    first = held(1)
    book.granted(first, 0.0)
    first.settled(1.0)
    book.granted(held(2, number=1, from_s=1.5), 0.0)
    assert book.crowds(NARROW, 1) == []


def test_two_leases_of_one_task_at_once_are_found(book: Book) -> None:
    book.granted(held(1), 0.0)
    book.granted(held(2, from_s=1.0), 0.0)
    assert book.crowds(NARROW, 2) == ["a task was leased twice at once: ['job[0]', 'job[0]']"]


def test_what_a_job_must_give_is_known_before() -> None:
    inputs = (
        {"does": ADD, "value": 1},
        {"does": HOPELESS, "value": 10},
        {"does": SPLIT, "parts": [100, 200]},
    )
    plan = Plan("job", BEARS, NARROW, inputs)
    assert [plan.value(at) for at in range(3)] == [1, None, 300]
    assert plan.total() == 301
    assert [child.total() for child in plan.children()] == [300]


def test_plans_are_those_of_their_seed() -> None:
    assert planned("job", random.Random(1)) == planned("job", random.Random(1))
