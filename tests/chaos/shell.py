"""Commands that an operator runs, with the settings of a cluster and some more."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Mapping

from harness.cluster import ChaosCluster


async def run(
    cluster: ChaosCluster, *arguments: str, settings: Mapping[str, str] | None = None
) -> tuple[int, str]:
    """Run `packetboat ARGUMENTS`; returns its exit status and its output."""
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
    """Run `packetboat ARGUMENTS`, which must end with 0; returns its output."""
    status, said = await run(cluster, *arguments, settings=settings)
    assert status == 0, f"packetboat {' '.join(arguments)}: {status}\n{said}"
    return said
