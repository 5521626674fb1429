"""A node's disk: a log that loses at a power cut what was not synced, and checkpoint files."""

from __future__ import annotations

import random
from collections.abc import Sequence

from store_nodes.wal.frame import FrameKind, Record
from tests.simulation.coverage import Coverage
from tests.simulation.power_loss_files import PowerLossFiles


class SimDisk:
    """Survives the node's processes. `log[:synced]` is on stable storage."""

    def __init__(self, luck: random.Random, coverage: Coverage, slowness: int) -> None:
        self.log: list[Record] = []
        self.synced = 0
        self.files = PowerLossFiles()
        self.slowness = slowness
        self.promised = 0
        """The highest ballot of a promise on stable storage."""
        self.accepted: dict[int, list[int]] = {}
        """Ballots of the accepts on stable storage, by instance."""
        self._luck = luck
        self._coverage = coverage

    def write(self, records: Sequence[Record]) -> None:
        self.log.extend(records)

    def sync(self, upto: int) -> None:
        """All records below `upto` are on stable storage."""
        for record in self.log[self.synced : upto]:
            if record.kind is FrameKind.ACCEPT:
                self.accepted.setdefault(record.instance, []).append(record.ballot)
            elif record.kind is FrameKind.PROMISE:
                self.promised = max(self.promised, record.ballot)
        self.synced = upto

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
        self.files.restart(self._luck)

    def open(self) -> None:
        """A restart syncs what it found before it relies on it: after a killed process the log may
        be in the page cache only."""
        self.sync(len(self.log))
