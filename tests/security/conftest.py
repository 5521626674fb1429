from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.e2e.installation import Installation


@pytest.fixture(scope="session")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    installation = Installation(tmp_path_factory.mktemp("security") / "data")
    try:
        yield installation.start()
    finally:
        if installation.process is not None:
            installation.stop()
