"""One process of a fleet after the other is stopped as its page says, and started again, perhaps of
another release. docs/operations/rolling-restart.md and upgrade.md say the same for people."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from harness.cluster import NODES, ClusterFailed
from harness.fleet import Fleet, Member
from harness.releases import Release

Look = Callable[[str], Awaitable[None]]
"""Called after each process, with its name."""


class Restarts:
    """The restarts of all nine processes.

    `release`: the release that they run from then on; None: the one they ran.
    """

    def __init__(self, fleet: Fleet, look: Look) -> None:
        self._fleet = fleet
        self._look = look

    @property
    def upwards(self) -> list[Member]:
        """The order of an upgrade: what is asked for new things comes last."""
        fleet = self._fleet
        return [fleet.scheduler, *fleet.subscribers, *fleet.publishers, fleet.gateway]

    async def everything(self, release: Release | None = None) -> None:
        """Restart everything as an upgrade does."""
        await self.nodes(NODES, release)
        await self.servers(self.upwards, release)

    async def everything_back(self, release: Release) -> None:
        """Restart everything as the reverse of an upgrade does."""
        await self.servers(reversed(self.upwards), release)
        await self.nodes(NODES, release)

    async def some_back(self, release: Release) -> None:
        """Return one of each kind that has neighbours to the release: those are of either
        release then.
        """
        fleet = self._fleet
        await self.servers([fleet.gateway, fleet.publishers[0], fleet.subscribers[0]], release)
        await self.nodes(NODES[:1], release)

    async def nodes(self, nodes: Iterable[int], release: Release | None = None) -> None:
        """Restart each node after its leaders have moved away."""
        for node in nodes:
            await self._operated("drain", str(node))
            await self._fleet.stop_node(node)
            if release is not None:
                self._fleet.node_releases[node] = release
            self._fleet.start_node(node)
            await self._operated("wait")
            await self._look(f"node-{node}")
        await self._operated("balance")

    async def servers(self, members: Iterable[Member], release: Release | None = None) -> None:
        """Restart each until it is ready again, before the next."""
        for member in members:
            if (status := await member.terminate()) != 0:
                raise ClusterFailed(f"{member.name} ended with {status}: {member.tail()}")
            if release is not None:
                member.release = release
            member.start()
            await self._fleet.until_ready()
            await self._look(member.name)

    async def _operated(self, *arguments: str) -> None:
        status, said = await self._fleet.operated(*arguments)
        if status != 0:
            raise ClusterFailed(f"packetboat store {' '.join(arguments)}: {status}\n{said}")
