"""The promises to clients of the store, checked against nothing but their answers.

* An acknowledged append is there, once, where its receipt says, at every node that answers.
* An append that was refused is nowhere, nor is a discarded message, and no id is there twice.
* A staged message is released no earlier than it is due, and a truncation leaves the kept messages.
* A message that was read at an offset, at any node, is read there by everyone for ever.
* Appends of one session are in the order in which they were made.
* Nothing follows the end that a seal answered.
* A confirmed read, of each kind, is no older than the answers before it was asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, NoReturn

from store_nodes.queue_id import QueueId
from tests.simulation.kernel.world import World


class Violation(AssertionError):
    """A promise was broken."""


class Book:
    """One queue."""

    def __init__(self, group: int, queue: QueueId) -> None:
        self.group = group
        self.queue = queue
        self.acked: dict[str, int] = {}
        """Id → offset, as answered."""
        self.at: dict[int, str] = {}
        """Offset → id, as answered or read."""
        self.offset_of: dict[str, int] = {}
        self.refused: set[str] = set()
        self.order: dict[str, list[str]] = {}
        """Session → ids in the order in which they were appended."""
        self.sealed_at: int | None = None
        self.first = 0
        """Truncated below."""
        self.kept: list[int] = []
        """Offsets below `first` that are there all the same."""
        self.due_us: dict[str, int] = {}
        """Id → log time before which it is not released."""
        self.end = 0
        """The end up to which any reader that asks the leader can read."""

        self.staged: dict[int, int | None] = {}
        """The offset of each staged message, by number; None until its release is answered too."""
        self.asked: set[int] = set()
        """The numbers of which a release or a discard was sent, whatever its outcome."""
        self.changes = 0
        """The number of known changes of staged messages."""
        self.rescheduled = 0
        """Messages that were rescheduled, as answered."""


class Known(NamedTuple):
    """The answers about a queue up to some moment."""

    end: int
    sealed_at: int | None
    staged: Mapping[int, int | None]
    changes: int


class Oracle:
    """All queues of a run."""

    def __init__(self, world: World) -> None:
        self.books: dict[QueueId, Book] = {}
        self.acked = 0
        self.reads = 0
        self._world = world

    def book(self, group: int, queue: QueueId) -> Book:
        return self.books.setdefault(queue, Book(group, queue))

    def fail(self, text: str) -> NoReturn:
        """The run ends with this, whatever the client does with the exception."""
        error = Violation(text)
        self._world.fail(error)
        raise error

    # -- acts of clients and their answers --------------------------------------------------------

    def begins(self, book: Book, session: str, ids: Sequence[str]) -> None:
        """Appends take effect in the order of these calls."""
        book.order.setdefault(session, []).extend(ids)

    def acks(self, book: Book, ids: Sequence[str], base_offset: int) -> None:
        self._world.note("acked", book.queue, base_offset, *ids)
        self.acked += 1
        for offset, one in enumerate(ids, base_offset):
            self._is_at(book, offset, one, "acknowledged")
            book.acked[one] = offset
        end = base_offset + len(ids)
        if book.sealed_at is not None and end > book.sealed_at:
            self.fail(f"{book.queue}: {ids} at {base_offset}, after its end {book.sealed_at}")
        book.end = max(book.end, end)

    def refuses(self, book: Book, ids: Iterable[str]) -> None:
        """The answer was that they are not stored, and never will be."""
        for one in ids:
            if one in book.offset_of:
                self.fail(f"{book.queue}: {one} was refused, and is at {book.offset_of[one]}")
            book.refused.add(one)

    def sealed(self, book: Book, end: int) -> None:
        self._world.note("sealed", book.queue, end)
        if book.sealed_at not in (None, end):
            self.fail(f"{book.queue}: sealed at {book.sealed_at}, and at {end}")
        if book.at and max(book.at) >= end:
            self.fail(f"{book.queue}: sealed at {end}, and {max(book.at)} was there")
        book.sealed_at = end

    def reads_at(self, book: Book, found: Iterable[tuple[int, str]], node: int | None) -> None:
        """Take (offset, id) of messages that a node, or any, gave."""
        self.reads += 1
        for offset, one in found:
            self._is_at(book, offset, one, f"read at node {node}")

    # -- confirmed reads -----------------------------------------------------------------------

    @staticmethod
    def known(book: Book) -> Known:
        """Return the present knowledge, for a read that is asked afterwards."""
        changes = max(book.changes, book.rescheduled)
        return Known(book.end, book.sealed_at, dict(book.staged), changes)

    def ends_at(self, book: Book, known: Known, end: int, call: str) -> None:
        if end < known.end:
            self.fail(f"{book.queue}: the end was {known.end}, and {call} says {end} later")
        if known.sealed_at is not None and end != known.sealed_at:
            self.fail(f"{book.queue}: sealed at {known.sealed_at}, and {call} says {end}")

    def has_changed(self, book: Book, known: Known, changes: int, call: str) -> None:
        if changes < known.changes:
            self.fail(f"{book.queue}: {known.changes} changes, and {call} says {changes} later")
        book.changes = max(book.changes, changes)

    def lists_staged(self, book: Book, known: Known, numbers: set[int], *, whole: bool) -> None:
        """Take a list of staged messages; `whole`: all that is staged; else some of it."""
        for number, offset in known.staged.items():
            if offset is not None and number in numbers:
                self.fail(f"{book.queue}: {number} is at {offset}, and was staged later")
            if whole and offset is None and number not in numbers | book.asked:
                self.fail(f"{book.queue}: {number} is staged, and was not listed later")

    def is_located(
        self, book: Book, known: Known, number: int, state: str, offset: int | None
    ) -> None:
        placed = known.staged[number]
        if placed is not None and (state, offset) not in (("offset", placed), ("truncated", None)):
            self.fail(f"{book.queue}: {number} is at {placed}, and was {state} {offset} later")
        if placed is None and number not in book.asked and state != "staged":
            self.fail(f"{book.queue}: {number} is staged, and was {state} later")

    def stamped(self, book: Book, one: str, log_time_us: int) -> None:
        """The log time of a message that was read."""
        if log_time_us < book.due_us.get(one, 0):
            self.fail(f"{book.queue}: {one} is due at {book.due_us[one]}, and is of {log_time_us}")

    def _is_at(self, book: Book, offset: int, one: str, how: str) -> None:
        known = book.at.setdefault(offset, one)
        if known != one:
            self.fail(f"{book.queue}: at {offset} was {known}, and {one} is {how}")
        place = book.offset_of.setdefault(one, offset)
        if place != offset:
            self.fail(f"{book.queue}: {one} was at {place}, and is {how} at {offset}")
        if one in book.refused:
            self.fail(f"{book.queue}: {one} was refused, and is {how} at {offset}")
        if book.sealed_at is not None and offset >= book.sealed_at:
            self.fail(f"{book.queue}: {one} at {offset} follows the end {book.sealed_at}")

    # -- in the end ----------------------------------------------------------------------------

    def whole(self, book: Book, node: int, first: int, found: Sequence[tuple[int, str]]) -> None:
        """Take all that a node has of a queue, from `first` on."""
        self.reads_at(book, found, node)
        offsets = {offset for offset, _ in found}
        if first > book.first:
            self.fail(f"{book.queue}: node {node} begins at {first}, truncated below {book.first}")
        for one, offset in book.acked.items():
            if offset >= max(first, book.first) and offset not in offsets:
                self.fail(f"{book.queue}: {one} was acknowledged at {offset}; node {node} lacks it")
        for session, ids in book.order.items():
            places = [book.offset_of[one] for one in ids if one in book.offset_of]
            if places != sorted(places):
                self.fail(f"{book.queue}: session {session} is out of order: {places}")
        elsewhere: dict[str, QueueId] = {}
        for other in self.books.values():
            for one in other.offset_of:
                if elsewhere.setdefault(one, other.queue) != other.queue:
                    self.fail(f"{one} is in {elsewhere[one]} and in {other.queue}")
