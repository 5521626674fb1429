"""Tests of the faults that the books of rolling restarts find."""

from __future__ import annotations

from tests.chaos.rolling.books import Books, Name, Reader

KEY = "key-1"


def kept(names: list[Name], *, ordered: bool = False) -> tuple[Books, Reader]:
    """Return books with all messages published, and handled and acked by one reader."""
    books, reader = Books(), Reader(ordered=ordered)
    books.readers["r"] = reader
    for name in names:
        books.receipt(name, 0.0)
        reader.handle(name, 1)
        reader.asked.add(name)
        reader.ack([name])
    return books, reader


def test_what_is_well_is_found_well() -> None:
    names = [(KEY, 0), (KEY, 1), ("loose-1", 0)]
    books, _ = kept(names, ordered=True)
    assert books.verdict([(0, names)]) == []


def test_a_failed_publish_and_a_lost_message_are_found() -> None:
    books, _ = kept([(KEY, 0)])
    books.failed.append("refused")
    books.receipt((KEY, 1), 0.0)
    assert books.missing() == {"r": {(KEY, 1)}}
    wrong = books.verdict([(0, [(KEY, 0)])])
    assert [text.split(",")[0] for text in wrong] == [
        "a publish failed: refused",
        "r: 1 were never handled",
        "1 are not in the log",
    ]


def test_what_is_stored_twice_or_out_of_order_is_found() -> None:
    books, _ = kept([(KEY, 0), (KEY, 1)])
    (wrong,) = books.verdict([(0, [(KEY, 1), (KEY, 0)])])
    assert "0 is stored after 1" in wrong
    assert len(books.verdict([(0, [(KEY, 0), (KEY, 1)]), (1, [(KEY, 1)])])) == 1


def test_what_comes_again_after_its_ack_is_found_and_before_it_counted() -> None:
    books, reader = kept([(KEY, 0)])
    reader.handle((KEY, 0), 2)
    assert len(reader.wrong) == 1
    reader.handle((KEY, 1), 1)
    reader.handle((KEY, 1), 2)
    assert books.repeats == {"r": 2}
    assert len(reader.wrong) == 1


def test_what_an_ordered_subscription_hands_out_too_early_is_found() -> None:
    _, reader = kept([(KEY, 0)], ordered=True)
    reader.handle(("loose-1", 7), 1)
    assert reader.wrong == []
    reader.handle((KEY, 2), 1)
    assert len(reader.wrong) == 1
