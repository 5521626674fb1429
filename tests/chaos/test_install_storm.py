"""The storm of installs in short, with a seed by which a node installs. `make install-storm` does
it for longer."""

from __future__ import annotations

from pathlib import Path

from tests.chaos.install_storm import storm

SEED = 316
SECONDS = 20.0


async def test_installs_while_nodes_come_and_go_lose_nothing(tmp_path: Path) -> None:
    installs, verdict = await storm(tmp_path, SEED, SECONDS)
    assert installs.faults
    assert installs.logged("installed")
    assert verdict.acked
