"""The time that a store node with years of data takes to start, and the memory of its index.

`python -m benchmarks.store_restart --gib 20` writes a node's data (batches of 16 to 100 KB for many
queues, no segment compacted: the most that a start can have to read), then starts it in a process
of its own, with the files out of the page cache: with its index files, and without them. One JSON
line each. With `--compact` also after everything was compacted. The data is removed at the end.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.aged_store import MIB, AgedStore, drop_caches, make_batch, scratch, settings_in
from store_nodes.node.start import load


def rss_mib() -> float:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() / MIB


def build(directory: Path, gib: float, queues: int, compact: bool) -> None:
    rng = random.Random(1)
    store = AgedStore(directory, queues)
    batches = [(n, make_batch(n, 1024, rng)) for n in (16, 24, 32, 48, 64, 100)]
    began_s = time.monotonic()
    marked = 0
    while store.stored_bytes < gib * 1024 * MIB:
        messages, batch = rng.choice(batches)
        store.append(rng.randrange(queues), messages, batch)
        if store.stored_bytes - marked >= 64 * MIB:
            marked = store.stored_bytes
            store.checkpoint()
            store.housekeep()
    store.checkpoint()
    store.checkpoint()
    store.housekeep(200 if compact else 1, compact=compact)
    seconds = time.monotonic() - began_s
    print(f"wrote {store.stored_bytes / MIB:.0f} MiB in {seconds:.0f} s", file=sys.stderr)
    store.close()


def open_once(directory: Path) -> dict[str, object]:
    before = rss_mib()
    began_s = time.monotonic()
    started = load(settings_in(directory, 8))
    seconds = time.monotonic() - began_s
    after = rss_mib()
    queues = started.batches.queues()
    stored = sum(started.batches.stored_bytes(queue) for queue in queues)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    assert started.damage is None
    found = {
        "restart_seconds": round(seconds, 2),
        "index_mib": round(after - before, 1),
        "rss_mib": round(after, 1),
        "peak_rss_mib": round(peak, 1),
        "stored_gib": round(stored / 1024 / MIB, 2),
        "queues": len(queues),
        "segments": len(started.wal.sizes()),
    }
    started.wal.close()
    return found


def restart(directory: Path, name: str) -> None:
    drop_caches(directory)
    command = [sys.executable, "-m", "benchmarks.store_restart", "--open", str(directory)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    print(json.dumps({"case": name, **json.loads(done.stdout.splitlines()[-1])}), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gib", type=float, default=20)
    parser.add_argument("--queues", type=int, default=1000)
    parser.add_argument("--compact", action="store_true")
    parser.add_argument("--dir", help="use, and keep, this directory")
    parser.add_argument("--open", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.open:
        print(json.dumps(open_once(Path(options.open))))
        return
    with scratch(options.dir) as directory:
        build(directory, options.gib, options.queues, False)
        restart(directory, "raw")
        for index in (directory / "wal").glob("*.index"):
            index.unlink()
        restart(directory, "raw, index files made anew")
        if options.compact:
            build(directory, 0, options.queues, True)
            restart(directory, "compacted")


if __name__ == "__main__":
    main()
