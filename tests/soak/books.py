"""The oracle of the soak: every message that a publisher was told is stored arrives.

A book remembers only messages whose end is not known yet, so that it stays small however long the
soak runs.
"""

from __future__ import annotations

import itertools


class Book:
    """The messages of one topic; a body is the name of the topic and a number."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.accepted = 0
        self.arrived = 0
        """Messages that arrived, each counted once."""
        self.again = 0
        """Deliveries of messages that had arrived before."""
        self.unknown = 0
        self.broken: list[str] = []
        self._numbers = itertools.count()
        self._out: set[int] = set()
        """Messages without an answer yet."""
        self._early: set[int] = set()
        """Messages that arrived before their answer."""
        self._missing: set[int] = set()
        """Messages that are accepted and have not arrived."""
        self._refused: set[int] = set()

    def next_body(self) -> bytes:
        """Return the body of a message that is about to be published."""
        number = next(self._numbers)
        self._out.add(number)
        return f"{self.name} {number}".encode()

    def stored(self, body: bytes) -> None:
        """Note that the publisher was told that the message is stored."""
        number = self._number(body)
        self._out.remove(number)
        self.accepted += 1
        if number in self._early:
            self._early.remove(number)
        else:
            self._missing.add(number)

    def not_stored(self, body: bytes) -> None:
        """Note that the message is refused: it is not stored, and never will be."""
        number = self._number(body)
        self._out.remove(number)
        if number in self._early:
            self.broken.append(f"{self.name} {number} arrived, and its publish was refused")
        self._early.discard(number)
        self._refused.add(number)

    def may_be_stored(self, body: bytes) -> None:
        """Note that the publisher does not know whether the message is stored."""
        number = self._number(body)
        self._out.remove(number)
        self._early.discard(number)
        self.unknown += 1

    def received(self, body: bytes) -> None:
        """Note that a consumer got the message."""
        number = self._number(body)
        if number in self._missing:
            self._missing.remove(number)
        elif number in self._out and number not in self._early:
            self._early.add(number)
        else:
            if number in self._refused:
                self.broken.append(f"{self.name} {number} arrived, and its publish was refused")
            self.again += 1
            return
        self.arrived += 1

    @property
    def missing(self) -> list[int]:
        """Return the accepted messages that have not arrived, the oldest first."""
        return sorted(self._missing)

    def _number(self, body: bytes) -> int:
        name, _, number = body.decode().partition(" ")
        assert name == self.name, body
        return int(number)
