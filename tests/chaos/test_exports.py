"""Exactly once while what takes part in a run dies or is overtaken, in short; `make export-torture`
is the whole of it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.exports import run

SEED = 1
FAULTS = ["kill committed", "zombie files_written"]


@pytest.fixture
def root() -> Iterator[Path]:
    """Not pytest's own directory: Postgres's lesser account must get there when we are root."""
    path = Path(tempfile.mkdtemp(prefix="packetboat-exports-"))
    path.chmod(0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


async def test_each_message_is_in_the_lake_once_whatever_dies(root: Path) -> None:
    storm, problems = await run(root, SEED, FAULTS)
    assert problems == []
    assert all(storm.attempts[fault] > 1 for fault in FAULTS), storm.attempts
