"""Many forwarders behind a real balancer while they are killed, paused and restarted, and Postgres
too; `make torture` does it for longer and pauses for up to a minute."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest

from harness import balancers
from harness.fleet import Fleet
from tests.chaos.delivery import effects, keyed, streamed
from tests.chaos.delivery.actor import Actor
from tests.chaos.delivery.counted import Counted
from tests.chaos.fleet_storm import KINDS, RESTART, FleetStorm


class Counting(Counted):
    """A counted load with leases no longer than the pauses here need."""

    subscription: ClassVar[dict[str, Any]] = {"ack_deadline_seconds": 20}


ACTORS = (Counting, keyed.Keyed, effects.ExactlyOnce, streamed.Streamed)


@pytest.fixture
def root() -> Iterator[Path]:
    """Not pytest's own directory: Postgres's lesser account must get there when we are root."""
    path = Path(tempfile.mkdtemp(prefix="packetboat-fleet-"))
    path.chmod(0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(autouse=True)
def _with_a_balancer() -> None:
    if not balancers.program("haproxy"):
        pytest.skip("haproxy is not installed")


@asynccontextmanager
async def weather(
    fleet: Fleet, actors: Sequence[type[Actor]], kinds: Sequence[str] = KINDS
) -> AsyncIterator[FleetStorm]:
    """Run the storm with its load at work."""
    storm = FleetStorm(fleet, actors, seed=1, kinds=kinds, pause_s=(0.5, 7.0))
    await storm.load.prepare()
    try:
        storm.load.start()
        yield storm
    finally:
        await storm.load.close()


async def test_nothing_is_lost_while_forwarders_come_and_go(root: Path) -> None:
    async with Fleet(root) as fleet, weather(fleet, ACTORS) as storm:
        await storm.run(15)
        await storm.verify()
        assert storm.faults


async def test_orderly_moves_repeat_nothing(root: Path) -> None:
    async with (
        Fleet(root, publishers=1, balance="roundrobin") as fleet,
        weather(fleet, (Counting,), (RESTART,)) as storm,
    ):
        await storm.run(6)
        await storm.verify()
        assert storm.faults
        assert storm.hints
        assert [counted.repeats for counted in storm.counted()] == [0]


async def test_rolling_restarts_lose_nothing_and_takeovers_need_no_scheduler(root: Path) -> None:
    async with (
        Fleet(root, publishers=1, balance="roundrobin") as fleet,
        weather(fleet, (Counting,), (RESTART,)) as storm,
    ):
        fleet.scheduler.kill()
        await storm.run(6)
        for counted in storm.counted():
            assert counted.repeats == 0
            counted.fault()
        fleet.subscribers[0].kill()
        await storm.verify()
