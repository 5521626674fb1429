from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.packaging import pythons
from tests.packaging.wheels import Wheel, built, copied


@pytest.fixture(scope="session")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copied(tmp_path_factory.mktemp("packaging"))


@pytest.fixture(scope="session")
def sdk_wheel(tree: Path) -> Wheel:
    return built(tree / "sdk" / "python", tree.parent / "sdk")


@pytest.fixture(scope="session")
def server_wheel(tree: Path) -> Wheel:
    return built(tree, tree.parent / "server")


@pytest.fixture(scope="session")
def index(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Whoever needs one is skipped where there is none."""
    pythons.index_reached(tmp_path_factory.mktemp("downloads"))


@pytest.fixture(scope="session")
def user_python(index: None, sdk_wheel: Wheel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of an environment like a user's: the SDK and what it needs, and no extras."""
    folder = tmp_path_factory.mktemp("user") / "venv"
    return pythons.environment(folder, Path(sys.executable), str(sdk_wheel.file))
