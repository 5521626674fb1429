from __future__ import annotations

from pathlib import Path

import pytest

from tests.packaging import pythons
from tests.packaging.wheels import Wheel, built, copied, project_of


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
    """Skip the test if no package index is reached."""
    pythons.index_reached(tmp_path_factory.mktemp("downloads"))


@pytest.fixture(scope="session")
def user_python(sdk_wheel: Wheel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the interpreter of an environment like a user's: the SDK and its libraries, and no
    extras.
    """
    folder = tmp_path_factory.mktemp("user") / "venv"
    needs = project_of("sdk/python")["dependencies"]
    return pythons.offline_environment(folder, [sdk_wheel.file], needs)


@pytest.fixture(scope="session")
def server_python(
    sdk_wheel: Wheel, server_wheel: Wheel, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """Return the interpreter of an environment with both wheels, their libraries, and pytest."""
    folder = tmp_path_factory.mktemp("server") / "venv"
    client, server = project_of("sdk/python"), project_of(".")
    needs = [*client["dependencies"], *client["optional-dependencies"]["cli"], "pytest"]
    needs += [each for each in server["dependencies"] if not each.startswith("packetboat-client")]
    return pythons.offline_environment(folder, [sdk_wheel.file, server_wheel.file], needs)
