"""The rate at which one topic of many is read: alone, between 200 others, and after compaction.

`python -m benchmarks.compacted_drain` stores 1 M messages of one queue (batches of 100 messages of
100 bytes), once alone and once with as much spread over 200 other queues between its batches, and
reads them through the index and the log as a fetch does, in answers of 1 MiB, with the files out of
the page cache. One JSON line each; `share` is the rate relative to alone.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from pathlib import Path

from benchmarks.aged_store import MIB, AgedStore, drop_caches, make_batch, scratch
from store_nodes.record_batch import peek

FETCH_BYTES = MIB
BATCH_MESSAGES = 100


def drain(store: AgedStore, directory: Path) -> float:
    """Return messages a second of queue 0, from the disk; every batch is checked."""
    drop_caches(directory)
    wal, batches, queue = store.started.wal, store.started.batches, store.queues[0]
    began_s = time.monotonic()
    offset = 0
    while found := batches.locate(queue, offset, FETCH_BYTES):
        for each in found:
            count, _ = peek(wal.read_slice(each.position))
            assert each.base_offset == offset
            offset += count
    return offset / (time.monotonic() - began_s)


def build(directory: Path, messages: int, others: int, share: int) -> AgedStore:
    """`share` batches of other queues for each one of queue 0."""
    rng = random.Random(1)
    store = AgedStore(directory, 1 + others, groups=1)
    batch = make_batch(BATCH_MESSAGES, 100, rng)
    for number in range(messages // BATCH_MESSAGES):
        store.append(0, BATCH_MESSAGES, batch)
        for _ in range(share):
            store.append(1 + rng.randrange(others), BATCH_MESSAGES, batch)
        if number % 512 == 511:
            store.checkpoint()
            store.housekeep()
    store.checkpoint()
    store.checkpoint()
    store.housekeep()
    return store


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--others", type=int, default=200)
    parser.add_argument("--share", type=int, default=20, help="their batches for each of ours")
    options = parser.parse_args()
    with scratch(None) as root:
        store = build(root / "alone", options.messages, 1, 0)
        alone = drain(store, root / "alone")
        print(json.dumps({"case": "alone", "messages_per_s": round(alone)}), flush=True)
        store.close()
        directory = root / "between"
        store = build(directory, options.messages, options.others, options.share)
        for case in ("between others", "compacted"):
            if case == "compacted":
                store.housekeep(500, compact=True)
            rate = drain(store, directory)
            line = {"case": case, "messages_per_s": round(rate), "share": round(rate / alone, 2)}
            print(json.dumps(line), flush=True)
        store.close()


if __name__ == "__main__":
    main()
