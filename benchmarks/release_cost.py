"""The cost of releasing a staged message, with few and with many pending: `python -m
benchmarks.release_cost [--pending N]`.

Releases the same number of messages, in batches as the scheduler does, from a queue with 1,000
pending and from one with a million, and prints the ratio: of the calls made (exact) and of the CPU
time (medians of alternating rounds).
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from types import FrameType

from store_nodes import commands
from store_nodes.machine.machine import Machine
from store_nodes.machine.outcomes import ReleaseDone

QUEUE = bytes(25)
START_US = 1_700_000_000_000_000
BATCH = 1000
RELEASED = 20
"""Messages released in one command."""
MAX_RATIO = 1.5
"""Ratio of CPU time: more memory is touched, so caches miss more, but the work is the same."""


def filled(pending: int) -> Machine:
    """Return a machine that has a queue with `pending` due messages."""
    machine = Machine(0)
    create = commands.encode(commands.Create(QUEUE, 0, b""))
    machine.apply(0, commands.encode_value([create], START_US))
    extras = commands.StageExtras((START_US,) * BATCH)
    for number in range(pending // BATCH):
        session = (number // 50).to_bytes(16, "big")
        raw = commands.encode_append(
            QUEUE, session, number % 50 + 1, START_US + 10**9, BATCH, b"x", extras=extras
        )
        machine.apply(machine.applied, commands.encode_value([raw], START_US))
    assert machine.queues()[0].staged == pending
    return machine


def release_and_refill(machine: Machine, number: int) -> tuple[bytes, bytes]:
    """Return the values that release messages all over the queue and stage as many again."""
    end = machine.offsets(QUEUE).stage_end
    rows = machine.staged(QUEUE, -1, RELEASED // 2) + machine.staged(
        QUEUE, end - RELEASED // 2 - 1, RELEASED // 2
    )
    release = commands.encode(commands.Release(QUEUE, tuple(row.stage_number for row in rows)))
    session = (1 << 64 | number).to_bytes(16, "big")
    extras = commands.StageExtras((START_US,) * RELEASED)
    refill = commands.encode_append(
        QUEUE, session, 1, START_US + 10**9, RELEASED, b"x", extras=extras
    )
    return (
        commands.encode_value([release], START_US),
        commands.encode_value(
            [commands.encode(commands.Truncate(QUEUE, machine.offsets(QUEUE).end)), refill],
            START_US,
        ),
    )


def run(machine: Machine, rounds: int) -> float:
    """Return the CPU seconds that the releases took."""
    spent = 0.0
    for number in range(rounds):
        release, refill = release_and_refill(machine, machine.applied + number)
        started = time.process_time()
        [outcome] = machine.apply(machine.applied, release)
        spent += time.process_time() - started
        assert isinstance(outcome, ReleaseDone)
        assert len(outcome.offsets) == RELEASED
        machine.apply(machine.applied, refill)
    return spent


def calls(machine: Machine) -> int:
    """Return the number of calls, of Python and of C, in one release."""
    release, refill = release_and_refill(machine, machine.applied)
    count = 0

    def note(frame: FrameType, event: str, _: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        machine.apply(machine.applied, release)
    finally:
        sys.setprofile(None)
    machine.apply(machine.applied, refill)
    return count


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pending", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=9)
    options = parser.parse_args()
    few, many = filled(BATCH), filled(options.pending)
    counted = calls(few), calls(many)
    ratios, costs = [], []
    for _ in range(options.rounds):
        small, large = run(few, 200), run(many, 200)
        ratios.append(large / small)
        costs.append((small, large))
    ratio = statistics.median(ratios)
    per = [statistics.median(pair[at] for pair in costs) / 200 / RELEASED * 1e6 for at in (0, 1)]
    print(f"{'pending':>12} {'calls':>8} {'µs/release':>12}")
    print(f"{BATCH:>12,} {counted[0]:>8} {per[0]:>12.2f}")
    print(f"{options.pending:>12,} {counted[1]:>8} {per[1]:>12.2f}")
    print(f"{'ratio':>12} {counted[1] / counted[0]:>8.3f} {ratio:>12.2f}")
    return 0 if counted[1] <= counted[0] * MAX_RATIO and ratio <= MAX_RATIO else 1


if __name__ == "__main__":
    sys.exit(main())
