"""Workers killed anywhere lose nothing, and a chain of five stream tasks is exactly once; for how
long is `python -m tests.chaos.worker_chain --seconds 600`'s to say."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.worker_chain import WorkerChain, run


@pytest.fixture
def root() -> Iterator[Path]:
    """Not pytest's own directory: Postgres's lesser account must get there when we are root."""
    path = Path(tempfile.mkdtemp(prefix="packetboat-chain-"))
    path.chmod(0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


async def test_a_chain_is_exactly_once_while_workers_and_server_are_killed(root: Path) -> None:
    chain: WorkerChain = await run(root, seconds=8.0, seed=1, messages=300)
    assert chain.kills >= 3
