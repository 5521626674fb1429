"""The receipts of publishers and the deliveries to consumers, and the rules for both.

lost       a message whose publish was answered is handled by every subscription
stored     and is in the log once, however often the SDK sent it
ordered    messages of a key are in the log as they were published, and an ordered subscription
           hands out none before the one before it is acked
repeated   none comes again after its ack was answered; before that, only in `Books.repeats`
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

KEYED = "key-"
"""The first letters of publishers with a key, which publish one message after the other."""
Name = tuple[str, int]
"""A message: (its publisher, its number among that publisher's)."""


@dataclass(slots=True)
class Reader:
    """One subscription's consumers."""

    ordered: bool = False
    handled: Counter[Name] = field(default_factory=Counter)
    asked: set[Name] = field(default_factory=set)
    """The messages whose acks were sent."""
    acked: set[Name] = field(default_factory=set)
    """The messages whose acks were answered."""
    wrong: list[str] = field(default_factory=list)

    def handle(self, name: Name, attempt: int) -> None:
        """Note that a consumer got the message."""
        publisher, number = name
        if name in self.acked:
            self.wrong.append(f"{name} came again (attempt {attempt}), its ack was answered")
        has_key = publisher.startswith(KEYED)
        if self.ordered and has_key and number and (publisher, number - 1) not in self.asked:
            self.wrong.append(f"{name} came before the one before it was acked")
        self.handled[name] += 1

    def ack(self, names: Iterable[Name]) -> None:
        """Note that acks of the messages were answered."""
        self.acked.update(names)


class Books:
    """The books of one topic."""

    def __init__(self) -> None:
        self.published: set[Name] = set()
        """Answered with a receipt."""
        self.failed: list[str] = []
        """Publishes that were not, with the SDK's error."""
        self.refused: list[str] = []
        """Pulls and acks that the SDK gave up."""
        self.readers: dict[str, Reader] = {}
        self._slowest_s = 0.0

    def receipt(self, name: Name, began_s: float) -> None:
        """Note a receipt; `began_s`: when the message was given to the SDK, by the
        monotonic clock.
        """
        self.published.add(name)
        self._slowest_s = max(self._slowest_s, time.monotonic() - began_s)

    def missing(self) -> dict[str, set[Name]]:
        """Return the messages that each subscription has not handled yet."""
        found = {name: self.published - each.handled.keys() for name, each in self.readers.items()}
        return {name: names for name, names in found.items() if names}

    @property
    def repeats(self) -> dict[str, int]:
        """Return the messages that each subscription got more than once.

        None of them was acked before it came again.
        """
        found = {
            name: sum(times - 1 for times in each.handled.values())
            for name, each in self.readers.items()
        }
        return {name: count for name, count in found.items() if count}

    def verdict(self, log: Iterable[tuple[int, list[Name]]]) -> list[str]:
        """Return all faults, at the end; `log`: the messages of each partition by offset."""
        wrong = [f"a publish failed: {error}" for error in self.failed]
        for reader, each in self.readers.items():
            wrong += [f"{reader}: {text}" for text in each.wrong]
        for reader, names in self.missing().items():
            wrong.append(f"{reader}: {len(names)} were never handled, such as {sorted(names)[:5]}")
        stored: Counter[Name] = Counter()
        for partition, names in log:
            stored.update(names)
            wrong += [f"partition {partition}: {text}" for text in _out_of_order(names)]
        wrong += [f"{name} is in the log {n} times" for name, n in stored.items() if n != 1]
        lost = self.published - stored.keys()
        if lost:
            wrong.append(f"{len(lost)} are not in the log, such as {sorted(lost)[:5]}")
        return wrong

    def summary(self) -> str:
        """Return a summary for people."""
        return (
            f"{len(self.published)} published, {len(self.failed)} failed, the slowest receipt"
            f" took {self._slowest_s:.2f} s, repeats {self.repeats or 'none'},"
            f" pulls and acks refused {len(self.refused)} {self.refused[:3]}"
        )


def _out_of_order(names: Iterable[Name]) -> list[str]:
    """Return the messages out of order of publishers with a key, who publish one after the
    other.
    """
    wrong, last = [], dict[str, int]()
    for publisher, number in names:
        if publisher.startswith(KEYED) and number <= last.get(publisher, -1):
            wrong.append(f"{publisher}: {number} is stored after {last[publisher]}")
        last[publisher] = number
    return wrong
