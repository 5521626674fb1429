"""A node's disk: a log that loses at a power cut what was not synced, and checkpoint files."""

from __future__ import annotations

import random
from collections.abc import Sequence

from store_nodes.consensus.effects import AcceptRecord, Record
from tests.simulation.coverage import Coverage
from tests.simulation.power_loss_files import PowerLossFiles


class SimDisk:
    """Survives the node's processes. `log[:synced]` is on stable storage."""

    def __init__(self, luck: random.Random, coverage: Coverage) -> None:
        self.log: list[Record] = []
        self.synced = 0
        self.files = PowerLossFiles()
        self._luck = luck
        self._coverage = coverage

    def write(self, records: Sequence[Record]) -> None:
        self.log.extend(records)

    def cut_power(self) -> None:
        """A random suffix of what was not synced is gone; its first record may be torn: a part of
        it is there, fails its checksum, and recovery cuts it off."""
        unsynced = len(self.log) - self.synced
        lost = self._luck.randint(0, unsynced)
        if lost:
            dropped = self.log[-lost:]
            del self.log[-lost:]
            if any(isinstance(record, AcceptRecord) for record in dropped):
                self._coverage.hit("lost unsynced accept")
            if self._luck.random() < 0.5:
                self._coverage.hit("torn tail")
        self.files.restart(self._luck)

    def open(self) -> None:
        """A restart syncs what it found before it relies on it: after a killed process the log may
        be in the page cache only."""
        self.synced = len(self.log)
