"""The cost of a flush while many messages are in back-off: `python -m benchmarks.backoff_flush`.

A cursor on a real Postgres gets 60,000 failed messages; another gets none. Then both are flushed in
turns, each with 100 acks more per flush, and the medians and their ratio are printed.
"""

from __future__ import annotations

import argparse
import asyncio
import statistics
import sys
import tempfile
import time
from pathlib import Path

from harness.processes import free_ports
from metadata.database import Database
from metadata.delivery.assignments import AssignmentRepository
from metadata.delivery.cursors import CursorRepository
from metadata.delivery.leases import LeaseRepository
from metadata.ids import new_uid
from metadata.postgres.embedded import EmbeddedPostgres
from metadata.postgres.migrate import upgrade
from metadata.settings import DatabaseSettings
from metadata.subscriptions.subscriptions import SubscriptionRepository
from metadata.tenancy.tenants import TenantRepository
from metadata.topics.topics import TopicRepository
from metadata.types import CursorState, SubscriptionSpec, TopicSpec, Unit
from subscribe_forwarder.delivery.state.cursor import Settled
from subscribe_forwarder.delivery.state.ledger import Ledger, Now

ACKS = 100
"""Acks in one flush."""
MAX_RATIO = 2.0


async def cursors_of(database: Database) -> list[CursorState]:
    """Return two claimed cursors of one topic."""
    tenant_id, incarnation = new_uid(), new_uid()
    await TenantRepository(database).ensure(tenant_id, "bench")
    topics = TopicRepository(database)
    made = await topics.create(tenant_id, TopicSpec("bench"), range(1))
    topic = await topics.activate(tenant_id, made.uid)
    for name in ("failing", "clean"):
        await SubscriptionRepository(database).create(
            tenant_id, topic.uid, SubscriptionSpec(name), {(0, 0): 0}
        )
    await LeaseRepository(database).register(incarnation, role="subscribe")
    key = Unit(tenant_id, topic.uid, 0)
    claims = await AssignmentRepository(database).claim(incarnation, [key])
    return list(claims[key].cursors)


async def fail_all(ledger: Ledger, cursors: CursorRepository, count: int, now: Now) -> None:
    """Make `count` messages fail with an hour's delay, and flush as often as that takes."""
    for low in range(0, count, 1000):
        offsets = list(range(low, low + 1000))
        ledger.classify(low + 1000)
        ledger.lease(offsets, now, now.ms + 60_000)
        for offset in offsets:
            ledger.fail(offset, now, 3_600_000, "no")
    while ledger.cursor.dirty:
        update = ledger.update()
        await cursors.flush([update])
        ledger.wrote(update)


async def flush_once(ledger: Ledger, cursors: CursorRepository, at: int) -> float:
    """Make, commit and report an update; return the seconds it takes."""
    ledger.classify(at + ACKS)
    ledger.settle(range(at, at + ACKS), Settled.ACKED)
    started_s = time.perf_counter()
    update = ledger.update()
    written = await cursors.flush([update])
    ledger.wrote(update)
    assert written == {update.key: 0}
    return time.perf_counter() - started_s


async def run(url: str, failing: int, rounds: int) -> float:
    database = Database(DatabaseSettings(url, deadline_s=60.0))
    await database.connect()
    try:
        cursors = CursorRepository(database)
        ledgers = [Ledger(state, state.epoch) for state in await cursors_of(database)]
        now = Now(1_000, 1_700_000_000_000_000)
        await fail_all(ledgers[0], cursors, failing, now)
        times: tuple[list[float], list[float]] = ([], [])
        for number in range(rounds):
            for ledger, base, taken in zip(ledgers, (failing, 0), times, strict=True):
                taken.append(await flush_once(ledger, cursors, base + number * ACKS))
    finally:
        await database.close()
    with_failures, without = (statistics.median(taken) for taken in times)
    print(f"{failing} in back-off: {with_failures * 1000:.2f} ms, none: {without * 1000:.2f} ms")
    return with_failures / without


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--failing", type=int, default=60_000)
    parser.add_argument("--rounds", type=int, default=300)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="packetboat-bench-") as directory:
        Path(directory).chmod(0o711)
        server = EmbeddedPostgres(Path(directory), port=free_ports(1)[0])
        try:
            server.start()
            upgrade(server.url)
            ratio = asyncio.run(run(server.url, options.failing, options.rounds))
        finally:
            server.stop()
    print(f"ratio {ratio:.2f}, at most {MAX_RATIO}")
    return 0 if ratio <= MAX_RATIO else 1


if __name__ == "__main__":
    sys.exit(main())
