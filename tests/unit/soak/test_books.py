"""The oracle of the soak finds each way in which a message goes wrong."""

from __future__ import annotations

from tests.soak.books import Book


def test_an_accepted_message_is_missing_until_it_arrives() -> None:
    book = Book("topic")
    body = book.next_body()
    book.stored(body)
    assert book.missing == [0]
    book.received(body)
    assert book.missing == []
    assert (book.accepted, book.arrived, book.again) == (1, 1, 0)


def test_a_message_may_arrive_before_its_answer() -> None:
    book = Book("topic")
    body = book.next_body()
    book.received(body)
    book.stored(body)
    assert book.missing == []
    assert (book.arrived, book.again) == (1, 0)


def test_a_message_that_comes_again_is_counted() -> None:
    book = Book("topic")
    body = book.next_body()
    book.received(body)
    book.received(body)
    book.stored(body)
    book.received(body)
    assert (book.arrived, book.again) == (1, 2)


def test_a_message_with_an_unknown_end_may_arrive_or_not() -> None:
    book = Book("topic")
    first, second = book.next_body(), book.next_body()
    book.may_be_stored(first)
    book.may_be_stored(second)
    book.received(first)
    assert book.missing == []
    assert book.broken == []
    assert book.unknown == 2


def test_a_refused_message_that_arrives_is_a_fault() -> None:
    book = Book("topic")
    first, second = book.next_body(), book.next_body()
    book.not_stored(first)
    book.received(first)
    book.received(second)
    book.not_stored(second)
    assert len(book.broken) == 2
