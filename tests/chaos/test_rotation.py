"""Every secret changed on a live installation (docs/operations/rotate-secrets.md)."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chaos.rotation import Rotation


@pytest.fixture
def root() -> Iterator[Path]:
    """Not pytest's own directory: Postgres's lesser account must get there when we are root."""
    path = Path(tempfile.mkdtemp(prefix="packetboat-rotation-"))
    path.chmod(0o755)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


async def test_every_secret_is_changed_and_nothing_is_refused(root: Path) -> None:
    rotation = Rotation(root)
    await rotation.run()
    assert rotation.wrong == []
