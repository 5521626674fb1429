from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.e2e.installation import WITH_EXPORTS, Installation
from tests.e2e.servers import StartServer, servers


@pytest.fixture
def fresh(tmp_path: Path) -> Iterator[Installation]:
    """Yield an installation that the test starts and stops itself; nothing of it outlives
    the test.
    """
    installation = Installation(tmp_path / "data")
    yield installation
    for pid in installation.processes():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    if installation.process is not None:
        installation.process.wait()


@pytest.fixture
def start_server(running: Installation, tmp_path: Path) -> Iterator[StartServer]:
    """Yield a function that starts servers beside the installation's; they must end cleanly
    with the test.
    """
    with servers(running, tmp_path) as start:
        yield start


@pytest.fixture(scope="session")
def exporting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """One that runs exports, too."""
    installation = Installation(tmp_path_factory.mktemp("exporting") / "data")
    installation.settings = WITH_EXPORTS
    with installation.started():
        yield installation
