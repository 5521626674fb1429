"""Commands that an operator runs, with the settings of a cluster and some more."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Mapping

from tests.chaos.cluster import ChaosCluster


async def run(
    cluster: ChaosCluster, *arguments: str, settings: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """`packetboat ARGUMENTS`, done: its exit status and what it said."""
    done = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, "-m", "gateway", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=cluster.environment() | dict(settings or {}),
    )
    return done.returncode, done.stdout


async def succeeds(
    cluster: ChaosCluster, *arguments: str, settings: Mapping[str, str] | None = None
) -> str:
    """The same, which must end with 0: what it said."""
    status, said = await run(cluster, *arguments, settings=settings)
    assert status == 0, f"packetboat {' '.join(arguments)}: {status}\n{said}"
    return said
