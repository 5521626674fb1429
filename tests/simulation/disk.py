"""A node's disk: a log that loses at a power cut what was not synced."""

from __future__ import annotations

import random
from collections.abc import Sequence

from store_nodes.wal.frame import FrameKind, Record
from tests.simulation.coverage import Coverage

LOST = Record(FrameKind.CHOSEN, 0, 0, 0, b"?")
"""Stands where a record was: a mark that says nothing."""


class SimDisk:
    """Survives the node's processes. `log[:synced]` is on stable storage."""

    def __init__(self, luck: random.Random, coverage: Coverage, slowness: int) -> None:
        self.log: list[Record] = []
        self.synced = 0
        self.slowness = slowness
        self.promised = 0
        """The highest ballot of a promise on stable storage."""
        self.accepted: dict[int, list[int]] = {}
        """Ballots of the accepts on stable storage, by instance."""
        self.marked = 0
        """All below is known to be chosen, by a mark on stable storage."""
        self.reached = 0
        """All below was applied here."""
        self.damaged = False
        """Whether a part of the log is known to be lost: promises and accepts may be among it."""
        self._luck = luck
        self._coverage = coverage

    def write(self, records: Sequence[Record]) -> None:
        self.log.extend(records)

    def sync(self, upto: int) -> None:
        """All records below `upto` are on stable storage."""
        self._note(self.log[self.synced : upto])
        self.synced = upto

    def _note(self, records: Sequence[Record]) -> None:
        for record in records:
            if record.kind is FrameKind.ACCEPT:
                self.accepted.setdefault(record.instance, []).append(record.ballot)
            elif record.kind is FrameKind.CHOSEN:
                self.marked = max(self.marked, record.instance)
            elif record.kind is FrameKind.PROMISE:
                self.promised = max(self.promised, record.ballot)

    def lose(self) -> None:
        """Lose synced records: the last ones, single ones, or all.

        The loss is known; the places are not used again.
        """
        kind = self._luck.choice(("tail", "single", "single", "all"))
        size = len(self.log)
        lost = range(size)
        if kind == "tail":
            lost = range(self._luck.randint(0, size), size)
        elif kind == "single":
            lost = [n for n in lost if self._luck.random() < 0.3]
        for n in lost:
            self.log[n] = LOST
        self.damaged = True
        self.promised = self.marked = self.reached = 0
        self.accepted.clear()
        self._note(self.log)

    @property
    def log_holds_anything(self) -> bool:
        return any(record is not LOST for record in self.log)

    def cut_power(self) -> None:
        """A random suffix of what was not synced is gone; its first record may be torn: a part of
        it is there, fails its checksum, and recovery cuts it off."""
        unsynced = len(self.log) - self.synced
        lost = self._luck.randint(0, unsynced)
        if lost:
            dropped = self.log[-lost:]
            del self.log[-lost:]
            if any(record.kind is FrameKind.ACCEPT for record in dropped):
                self._coverage.hit("lost unsynced accept")
            if self._luck.random() < 0.5:
                self._coverage.hit("torn tail")

    def open(self) -> None:
        """A restart syncs what it found before it relies on it: after a killed process the log may
        be in the page cache only."""
        self.sync(len(self.log))
