"""Nine processes restarted one after the other, and upgraded, while the SDK publishes and consumes.
`make rolling` does it for longer."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness import releases
from tests.chaos.rolling.scenarios import restarted, upgraded


@pytest.fixture
def root() -> Iterator[Path]:
    """Not pytest's own directory: Postgres's lesser account must get there when we are root."""
    path = Path(tempfile.mkdtemp(prefix="packetboat-rolling-"))
    path.chmod(0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


async def test_nine_processes_are_restarted_and_no_publish_fails(root: Path) -> None:
    assert await restarted(root) == []


async def test_nine_processes_are_upgraded_and_no_publish_fails(root: Path) -> None:
    if reason := releases.missing():
        pytest.skip(reason)
    assert await upgraded(root, releases.unpacked(root)) == []
