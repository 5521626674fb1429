"""`python -m benchmarks.filters`: what a filter costs per message and subscription.

A thousand subscriptions with an equality each over one batch of a thousand messages, beside the
same equality evaluated by the engine, and expressions over the body.
"""

from __future__ import annotations

import json
import time
from typing import NamedTuple

from store_nodes import record_batch
from store_nodes.record_batch import Message
from subscribe_forwarder.delivery.reading.batch import Batch
from subscribe_forwarder.delivery.selection import Selection

MESSAGES = 1000
SUBSCRIPTIONS = 1000
REPEATS = 5


class Stored(NamedTuple):
    batch: bytes
    base_offset: int = 0
    log_time_us: int = 1_767_225_600_000_000
    stage: int | None = None
    indices: tuple[int, ...] | None = None


def batch() -> Batch:
    messages = [
        Message(
            json.dumps({"total": number, "name": "x" * 200}).encode(),
            "application/json",
            attributes={"kind": f"kind-{number % SUBSCRIPTIONS}", "region": "eu"},
        )
        for number in range(MESSAGES)
    ]
    made = Batch(Stored(record_batch.encode(messages, 0)))
    made.messages()
    return made


def cost_ns(selections: list[Selection]) -> float:
    """Return the time per message and subscription, the best of a few rounds."""
    rounds = []
    for _ in range(REPEATS):
        messages = batch()
        began_s = time.perf_counter()
        for selection in selections:
            selection.verdicts(messages)
        rounds.append((time.perf_counter() - began_s) / len(selections) / MESSAGES)
    return min(rounds) * 1e9


def main() -> None:
    indexed = [Selection(f'attributes.kind == "kind-{n}"', ()) for n in range(SUBSCRIPTIONS)]
    evaluated = [Selection('attributes.kind == "kind-1" || false', ())]
    by_index, by_engine = cost_ns(indexed), cost_ns(evaluated)
    print(f"{by_index:10,.0f} ns  an equality, of {SUBSCRIPTIONS:,} subscriptions that have one")
    print(f"{by_engine:10,.0f} ns  the same, evaluated: {by_engine / by_index:,.0f} times as much")
    for text in (
        "data.total > 500",
        'attributes.kind == "kind-1" && data.total > 500',
        'attributes.region == "eu" && data.total > 500',
        'attributes.kind.matches("^kind-[0-9]+$")',
    ):
        print(f"{cost_ns([Selection(text, ())]):10,.0f} ns  {text}")


if __name__ == "__main__":
    main()
