"""What a user gets: the wheels, what is in them, and what type checkers make of them.

The tests here share one build and one environment; keep them in one file.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.packaging import pythons, type_checkers
from tests.packaging.wheels import Wheel, project_of, sources

HERE = Path(__file__).parent
DATA = (".css", ".html", ".js", ".mako", ".py", ".txt", ".typed", ".yaml")
VERSIONS = ("3.12", "3.13")
"""Beside the one that runs the tests."""


def test_the_sdk_is_its_package_and_nothing_else(sdk_wheel: Wheel, tree: Path) -> None:
    assert sdk_wheel.packages == {"packetboat"}
    assert sdk_wheel.files == sources(tree / "sdk" / "python", "packetboat", ".py", ".typed")
    assert "packetboat/py.typed" in sdk_wheel.files


def test_the_server_is_its_parts_and_all_their_data(server_wheel: Wheel, tree: Path) -> None:
    parts = {path.parent.name for path in tree.glob("*/__init__.py")} - {"benchmarks", "tests"}
    assert server_wheel.packages == parts
    for part in parts:
        assert server_wheel.files >= sources(tree, part, *DATA), part


@pytest.mark.parametrize("name", ["sdk", "server"])
def test_no_tests_are_installed(name: str, request: pytest.FixtureRequest) -> None:
    wheel = request.getfixturevalue(f"{name}_wheel")
    assert [file for file in wheel.files if "/test_" in file or "conftest" in file] == []


def test_what_a_user_can_ask_for(sdk_wheel: Wheel) -> None:
    project = project_of("sdk/python")
    metadata = sdk_wheel.metadata
    assert metadata["Requires-Python"] == ">=3.11"
    assert set(metadata.get_all("Provides-Extra", [])) == set(project["optional-dependencies"])
    unconditional = {each for each in metadata.get_all("Requires-Dist", []) if ";" not in each}
    assert {name_of(each) for each in unconditional} == {"httpx", "msgspec"}


def test_programs_and_plug_ins_are_registered(sdk_wheel: Wheel, server_wheel: Wheel) -> None:
    assert "packetboat = packetboat.cli.main:main" in sdk_wheel.entry_points
    points = project_of(".")["entry-points"]
    assert points
    for group, names in points.items():
        assert f"[{group}]" in server_wheel.entry_points
        for name, target in names.items():
            assert f"{name} = {target}" in server_wheel.entry_points


def test_the_server_is_of_the_sdk_with_its_command(server_wheel: Wheel) -> None:
    required = server_wheel.metadata.get_all("Requires-Dist", [])
    assert any(each.startswith("packetboat[cli]") for each in required)


def name_of(requirement: str) -> str:
    return requirement.partition(">")[0].strip()


def smoke(python: Path) -> subprocess.CompletedProcess[str]:
    """Warnings are errors: those of a deprecated import are for us, not for users."""
    command = [python, "-I", "-W", "error", HERE / "smoke_program.py"]
    return subprocess.run(command, capture_output=True, text=True, timeout=pythons.WAIT_S)


def test_the_installed_sdk_publishes(user_python: Path) -> None:
    done = smoke(user_python)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["orders", "m0", project_of("sdk/python")["version"]]


@pytest.mark.parametrize("version", VERSIONS)
def test_and_with_later_pythons(
    version: str, index: None, sdk_wheel: Wheel, tmp_path: Path
) -> None:
    python = pythons.interpreter(version)
    done = smoke(pythons.environment(tmp_path / "venv", python, str(sdk_wheel.file)))
    assert (done.returncode, done.stderr) == (0, "")


def test_the_command_without_its_extra_says_what_to_install(user_python: Path) -> None:
    command = [user_python.with_name("packetboat"), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=pythons.WAIT_S)
    assert done.returncode == 1
    assert "pip install 'packetboat[cli]'" in done.stderr


@pytest.fixture
def programs(tmp_path: Path) -> list[Path]:
    """Out of the tree, whose own settings a checker would find."""
    names = ("user_program.py", "mistaken_program.py")
    return [Path(shutil.copy(HERE / name, tmp_path)) for name in names]


def expected(programs: list[Path]) -> dict[str, set[int]]:
    return {
        program.name: {
            number
            for number, line in enumerate(program.read_text(encoding="utf-8").splitlines(), 1)
            if line.endswith("# wrong")
        }
        for program in programs
    }


@pytest.mark.parametrize("checker", [type_checkers.mypy, type_checkers.pyright])
def test_a_type_checker_finds_the_mistakes_and_nothing_else(
    checker: Any, user_python: Path, programs: list[Path], tmp_path: Path
) -> None:
    lines = expected(programs)
    assert lines["user_program.py"] == set()
    assert len(lines["mistaken_program.py"]) > 10
    assert checker(user_python, tmp_path, *programs) == lines


def test_every_type_is_known(user_python: Path, tmp_path: Path) -> None:
    assert type_checkers.unknown_types(user_python, tmp_path) == []
