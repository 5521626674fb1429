"""A process that appends to a log as fast as it can and prints what became durable.

    python -m tests.chaos.wal_writer DIRECTORY SEED

prints `found <count> <state>` for what it recovered, then one instance number per acknowledged
record. Record i carries `payload_of(i)`. It exits 3 when the log failed, as a node would.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
from pathlib import Path

from store_nodes.wal.frame import FrameKind, Record
from store_nodes.wal.group_commit import GroupCommit
from store_nodes.wal.log import WriteAheadLog
from store_nodes.wal.position import Position

CLUSTER = b"power cut tests."
SEGMENT_BYTES = 512 * 1024
IN_FLIGHT = 64
FATAL_EXIT = 3


def payload_of(instance: int) -> bytes:
    luck = random.Random(instance)
    return luck.randbytes(luck.choice((0, 10, 500, 1000, 1000, 5000)))


def open_log(directory: Path) -> tuple[WriteAheadLog, list[Record], str]:
    """Return the log, its records, and the state in which it was found."""
    log, recovery = WriteAheadLog.open(
        directory, cluster_uid=CLUSTER, node_id=1, segment_bytes=SEGMENT_BYTES
    )
    records = [record for record, _ in recovery.frames()]
    return log, records, recovery.state.value


class Writer:
    """Keeps `IN_FLIGHT` submissions of one or a few records under way."""

    def __init__(self, commit: GroupCommit, first: int, seed: int) -> None:
        self._commit = commit
        self._next = first
        self._luck = random.Random(seed)

    def submit(self) -> None:
        count = self._luck.choice((1, 1, 1, 5))
        instances = range(self._next, self._next + count)
        self._next += count
        records = [Record(FrameKind.ACCEPT, 1, i, 1, payload_of(i)) for i in instances]

        def durable(_: list[Position]) -> None:
            os.write(1, b"".join(b"%d\n" % i for i in instances))
            self.submit()

        self._commit.submit(records, True, durable)


async def write(directory: Path, seed: int) -> None:
    log, found, state = open_log(directory)
    os.write(1, b"found %d %s\n" % (len(found), state.encode()))

    def fatal(error: BaseException) -> None:
        os.write(2, f"fatal: {error!r}\n".encode())
        os._exit(FATAL_EXIT)

    commit = GroupCommit(log, on_fatal=fatal)
    writer = Writer(commit, len(found), seed)
    for _ in range(IN_FLIGHT):
        writer.submit()
    await commit.run()


if __name__ == "__main__":
    asyncio.run(write(Path(sys.argv[1]), int(sys.argv[2])))
