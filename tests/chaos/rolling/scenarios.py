"""The scenarios of a nine-process installation under load; each returns the faults it found."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import asyncpg

from harness.balancers import HAProxy
from harness.fleet import Fleet
from harness.releases import CURRENT, Release
from metadata.postgres import database_schema
from tests.chaos.rolling.load import Addresses, SdkLoad
from tests.chaos.rolling.restarts import Restarts

SUBSCRIBERS = PUBLISHERS = 2


class Site:
    """A fleet, its load, and somebody to restart it."""

    def __init__(self, fleet: Fleet, load: SdkLoad) -> None:
        self.fleet = fleet
        self.load = load
        self.restarts = Restarts(fleet, self.look)
        self._began_s = time.monotonic()

    async def look(self, process: str) -> None:
        """After it was restarted: is all well?"""
        await self.load.probe()
        print(f"{time.monotonic() - self._began_s:6.1f} s  {process}: {self.load.books.summary()}")


@asynccontextmanager
async def site(root: Path, release: Release = CURRENT) -> AsyncIterator[Site]:
    """Run a site under load until the block ends."""
    balance = "none" if HAProxy.missing() else "hash"
    async with Fleet(
        root, subscribers=SUBSCRIBERS, publishers=PUBLISHERS, balance=balance, release=release
    ) as fleet:
        urls = {role: [f"http://{each}" for each in at] for role, at in fleet.servers.items()}
        balancer = None if HAProxy.missing() else fleet.base_url
        at = Addresses(balancer, urls["publish"], urls["subscribe"], urls["gateway"][0])
        load = SdkLoad(at, fleet.token)
        async with load.at_work():
            yield Site(fleet, load)


async def restarted(root: Path, rounds: int = 1) -> list[str]:
    """Restart each process, one after the other, in `rounds` rounds."""
    async with site(root) as at:
        for _ in range(rounds):
            await at.restarts.everything()
    return at.load.wrong


async def upgraded(root: Path, previous: Release, rounds: int = 1) -> list[str]:
    """From the previous release, as docs/operations/upgrade.md says. Then some processes go back;
    with more rounds all of them, and forward again."""
    async with site(root, previous) as at:
        fleet, restarts = at.fleet, at.restarts
        await _is_too_early(fleet)
        fleet.release = CURRENT
        await fleet.migrate()
        await at.look("migrate")
        await restarts.everything(CURRENT)
        for _ in range(rounds - 1):
            await restarts.everything_back(previous)
            await restarts.everything(CURRENT)
        if rounds == 1:
            await restarts.some_back(previous)
    return at.load.wrong


async def _is_too_early(fleet: Fleet) -> None:
    """A server of this release does not start on an older schema, where the previous release
    has an older one."""
    connection = await asyncpg.connect(fleet.database_url)
    try:
        found = await database_schema.read(connection)
    finally:
        await connection.close()
    if found is not None and found.revision == database_schema.REVISION:
        return
    early = fleet.spare("publish")
    early.release = CURRENT
    early.start()
    status = await early.ended()
    assert status == 1, early.tail()
    assert "run `packetboat migrate` of this release" in early.tail()
