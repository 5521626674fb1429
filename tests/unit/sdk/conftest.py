from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.sdk.cli_support import Command


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Return the `packetboat` command in an empty directory, with a server that is a table."""
    monkeypatch.chdir(tmp_path)
    return Command(tmp_path)
