"""A process of a test server:

    python -m gateway.testing store-node CLOCK_FILE NUMBER
    python -m gateway.testing server CLOCK_FILE CREDENTIAL_FILE

It is what `packetboat serve` and `packetboat store-node` are, with clocks that can be moved.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from gateway.testing.moved_time import MovedLoop, move_monotonic_clock, move_wall_clock
from gateway.testing.shared_clock import SharedClock

OPERATOR = "tests"
LEADING = "packetboat_scheduler_leading"
"""The metric that says whether the scheduler of the process works."""


def main(kind: str, clock_file: str, what: str) -> int:
    """Run one process; return the exit code.

    Nothing of the product is imported before clocks are moved.
    """
    shared = SharedClock(Path(clock_file))
    if kind == "store-node":
        # Nodes judge each other by how long they were not heard of: that stays as it is.
        move_wall_clock(shared, int(what))
        from gateway import heap

        with heap.loading():
            from store_nodes import main as store_node
            from store_nodes.settings import from_environment

        return store_node.main(from_environment())
    move_wall_clock(shared)
    move_monotonic_clock(shared)
    return _serve(shared, Path(what))


def _serve(shared: SharedClock, credential_file: Path) -> int:
    from gateway import heap

    with heap.loading():
        from prometheus_client import REGISTRY

        from gateway import operators, server
        from gateway.configuration.settings import ServerSettings
        from metadata.postgres.migrate import upgrade
        from metadata.settings import DatabaseSettings

    database = DatabaseSettings.from_environment()
    upgrade(database.url)
    credential = operators.credential_in(credential_file)
    operators.run(database, lambda known: known.create(OPERATOR, credential))

    registry = REGISTRY.restricted_registry([LEADING])

    def leading() -> bool:
        return any(sample.value for one in registry.collect() for sample in one.samples)

    def loop() -> asyncio.AbstractEventLoop:
        return MovedLoop(shared, leading)

    return server.run(ServerSettings.from_environment(), loop_factory=loop)
