"""The packages of a user: the wheels, their files, and the results of type checkers.

The tests here share one build and one environment; keep them in one file.
"""

from __future__ import annotations

import ast
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.packaging import pythons, type_checkers
from tests.packaging.wheels import EPOCH_S, Wheel, built, project_of, release, sources

HERE = Path(__file__).parent
DATA = (".css", ".html", ".js", ".mako", ".py", ".txt", ".typed", ".yaml")
VERSIONS = ("3.12", "3.13")
"""Versions of Python beside the one that runs the tests."""


def test_the_sdk_is_its_package_and_nothing_else(sdk_wheel: Wheel, tree: Path) -> None:
    assert sdk_wheel.packages == {"packetboat"}
    assert sdk_wheel.files == sources(tree / "sdk" / "python", "packetboat", ".py", ".typed")
    assert "packetboat/py.typed" in sdk_wheel.files


def test_the_server_is_one_folder_with_its_parts_and_all_their_data(
    server_wheel: Wheel, tree: Path
) -> None:
    assert server_wheel.packages == {"packetboat_server"}
    for part in parts_of(tree):
        wanted = {f"packetboat_server/{file}" for file in sources(tree, part, *DATA)}
        assert server_wheel.files >= wanted, part
    assert server_wheel.files >= sources(tree / "deploy", "packetboat_server", *DATA)


def parts_of(tree: Path) -> set[str]:
    """Return the top-level packages of the product."""
    tops = {path.parent.name for path in tree.glob("*/__init__.py")}
    return tops - {"benchmarks", "examples", "harness", "tests"}


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
    assert "[console_scripts]" not in server_wheel.entry_points
    points = project_of(".")["entry-points"]
    assert points
    for group, names in points.items():
        assert f"[{group}]" in server_wheel.entry_points
        for name, target in names.items():
            assert f"{name} = {target}" in server_wheel.entry_points


def test_the_names_are_ours_and_tied_to_each_others_version(
    sdk_wheel: Wheel, server_wheel: Wheel
) -> None:
    version = sdk_wheel.metadata["Version"]
    assert (sdk_wheel.metadata["Name"], server_wheel.metadata["Name"]) == (
        "packetboat-client",
        "packetboat-server",
    )
    assert server_wheel.metadata["Version"] == version
    required = server_wheel.metadata.get_all("Requires-Dist", [])
    ours = [each for each in required if each.startswith("packetboat")]
    assert f"packetboat-client[cli]=={version}" in ours
    assert all(f"=={version}" in each for each in ours)


@pytest.mark.parametrize("name", ["sdk", "server"])
def test_a_wheel_has_its_readme_and_its_licence(
    name: str, request: pytest.FixtureRequest, tree: Path
) -> None:
    metadata = request.getfixturevalue(f"{name}_wheel").metadata
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert "Packetboat" in metadata.get_payload()
    assert (metadata["License-Expression"], metadata["License-File"]) == ("Apache-2.0", "LICENSE")
    assert "Apache License" in (tree / "LICENSE").read_text(encoding="utf-8")


def test_the_wheels_name_the_repository_that_they_are_told(tree: Path, tmp_path: Path) -> None:
    for folder in ("sdk/python", "."):
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        shutil.copy(tree / folder / "pyproject.toml", tmp_path / folder)
    with pytest.raises(ValueError, match="no https:// address"):
        release.name_repository(tmp_path, 'https://x"\nname = "y')
    release.name_repository(tmp_path, "https://example.com/packetboat")
    for folder in ("sdk/python", "."):
        text = (tmp_path / folder / "pyproject.toml").read_text(encoding="utf-8")
        urls = tomllib.loads(text)["project"]["urls"]
        assert urls == {"Repository": "https://example.com/packetboat"}


@pytest.mark.parametrize(
    ("builder", "used", "said"),
    [
        ("", "", "no docker, podman or buildah is here"),
        ("false", "", "`false info` fails"),
        ("/no/such/docker", "", "`/no/such/docker info` fails"),
        ("true", "true", None),
    ],
)
def test_without_a_builder_that_works_a_release_has_no_image_and_says_so(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    builder: str,
    used: str,
    said: str | None,
) -> None:
    builders: list[str] = []

    def built(into: Path, repository: str, image_builder: str) -> list[Path]:
        builders.append(image_builder)
        return []

    monkeypatch.setattr(release, "release", built)
    monkeypatch.setattr(sys, "argv", ["release.py", "--image-builder", builder])
    release.main()
    assert builders == [used]
    told = capsys.readouterr().err
    assert ("no image is built" in told) == (said is not None)
    assert said is None or said in told


def test_two_builds_give_the_same_wheels(
    sdk_wheel: Wheel, server_wheel: Wheel, tree: Path, tmp_path: Path
) -> None:
    other = shutil.copytree(tree, tmp_path / "elsewhere", copy_function=shutil.copy)
    for one, project in ((sdk_wheel, other / "sdk/python"), (server_wheel, other)):
        again = release.build_wheel(project, tmp_path / "again", EPOCH_S)
        assert again.name == one.file.name
        assert again.read_bytes() == one.file.read_bytes(), again.name


def test_a_build_in_a_checkout_packs_no_module_that_was_deleted_since_the_last_one(
    sdk_wheel: Wheel, tree: Path, tmp_path: Path
) -> None:
    sdk = shutil.copytree(tree / "sdk/python", tmp_path / "sdk")
    left = sdk / "build/lib/packetboat/gone.py"
    left.parent.mkdir(parents=True, exist_ok=True)
    left.touch()
    assert built(sdk, tmp_path / "again").files == sdk_wheel.files


def test_the_bill_of_materials_has_all_that_the_locks_bring(tree: Path) -> None:
    bill = json.loads(release.bill_of_materials(tree, EPOCH_S))
    assert release.bill_of_materials(tree, EPOCH_S + 1) != json.dumps(bill)
    assert (bill["bomFormat"], bill["metadata"]["timestamp"]) == (
        "CycloneDX",
        "2023-11-14T22:13:20+00:00",
    )
    found = {component["name"]: component for component in bill["components"]}
    assert found["aiohttp"]["scope"] == "required"
    assert found["pyspark"]["scope"] == "optional"
    assert "pytest" not in found
    refs = {one["ref"]: one["dependsOn"] for one in bill["dependencies"]}
    assert len(refs) == len(bill["components"]) + 1
    assert all(each in refs for needs in refs.values() for each in needs)
    server = refs[bill["metadata"]["component"]["bom-ref"]]
    assert found["packetboat-client"]["bom-ref"] in server
    assert found["uvloop"]["bom-ref"] in server


def name_of(requirement: str) -> str:
    return requirement.partition(">")[0].strip()


def smoke(python: Path) -> subprocess.CompletedProcess[str]:
    """Warnings are errors: those of a deprecated import are for us, not for users."""
    command = [python, "-I", "-W", "error", HERE / "smoke_program.py"]
    return subprocess.run(command, capture_output=True, text=True, timeout=pythons.WAIT_S)


def test_the_installed_sdk_publishes(
    user_python: Path, record_property: Callable[[str, object], None]
) -> None:
    record_property("python", ".".join(map(str, sys.version_info[:2])))
    done = smoke(user_python)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == ["orders", "m0", project_of("sdk/python")["version"]]


@pytest.mark.parametrize("version", VERSIONS)
def test_and_with_later_pythons(
    version: str,
    index: None,
    sdk_wheel: Wheel,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    python = pythons.interpreter(version)
    record_property("python", version)
    done = smoke(pythons.environment(tmp_path / "venv", python, str(sdk_wheel.file)))
    assert (done.returncode, done.stderr) == (0, "")


def test_the_command_without_its_extra_says_what_to_install(user_python: Path) -> None:
    command = [user_python.with_name("packetboat"), "--help"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=pythons.WAIT_S)
    assert done.returncode == 1
    assert "pip install './sdk/python[cli]'" in done.stderr


USES_ITS_OWN = """
import auth, gateway, metadata, openapi, scheduler

def test_the_modules_are_the_projects_own():
    assert all(each.OWN for each in (auth, gateway, metadata, openapi, scheduler))
"""
USES_THE_FIXTURE = """
import gateway

def test_a_message_goes_through_and_time_is_moved(packetboat):
    client = packetboat.client()
    client.topics.create("orders")
    client.subscriptions.create("orders", "billing", start="earliest")
    client.publish("orders", {"order": 1}, delay_seconds=60).result()
    packetboat.clock.advance(60)
    (message,) = client.pull("billing", wait_seconds=20)
    assert message.json() == {"order": 1}
    assert gateway.OWN
"""


@pytest.fixture
def project(tree: Path) -> Iterator[Path]:
    """Yield a user's project, with folders that are named like parts of the server."""
    # Postgres runs under an account with fewer rights, which may not enter pytest's own
    # directories.
    folder = Path(tempfile.mkdtemp(prefix="packetboat-test-"))
    folder.chmod(0o755)
    for part in parts_of(tree):
        (folder / part).mkdir()
        (folder / part / "__init__.py").write_text("OWN = True\n")
    yield folder
    shutil.rmtree(folder)


def in_project(project: Path) -> dict[str, str]:
    """Return the environment of a shell in which the project can be imported.

    Compiled modules are beside those of its Python: elsewhere, there are none for its new folder.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PACKETBOAT_")}
    kept.pop("PYTHONPYCACHEPREFIX", None)
    return kept | {"PYTHONPATH": str(project)}


@pytest.mark.parametrize("program", [USES_ITS_OWN, USES_THE_FIXTURE], ids=["any", "fixture"])
def test_pytest_runs_in_a_project_with_folders_named_like_ours(
    program: str, project: Path, server_python: Path
) -> None:
    (project / "test_project.py").write_text(program)
    command = [server_python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_project.py"]
    done = subprocess.run(
        command,
        cwd=project,
        env=in_project(project),
        capture_output=True,
        text=True,
        timeout=pythons.WAIT_S,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_up_runs_in_a_project_with_folders_named_like_ours(
    project: Path, server_python: Path
) -> None:
    command = [server_python.with_name("packetboat"), "up", "--port", "0"]
    with subprocess.Popen(
        command,
        cwd=project,
        env=in_project(project),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as up:
        assert up.stdout is not None
        lines = []
        for line in up.stdout:
            lines.append(line)
            if line.startswith("Packetboat is up at "):
                break
        up.send_signal(signal.SIGTERM)
        lines += up.stdout
    assert up.returncode == 0, "".join(lines)
    assert any(line.startswith("Packetboat is up at ") for line in lines), "".join(lines)


def test_a_python_that_is_too_old_is_told_so(tmp_path: Path) -> None:
    python = pythons.interpreter("3.10")
    command = [python, pythons.ROOT / "deploy/install.py", tmp_path / "venv"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=pythons.WAIT_S)
    assert done.returncode == 1
    assert done.stderr.startswith("Packetboat needs Python 3.11 or later, and this is 3.10.")
    assert "PYTHON=python3.11" in done.stderr


def test_what_says_so_is_read_by_old_pythons() -> None:
    text = (pythons.ROOT / "deploy/install.py").read_text(encoding="utf-8")
    ast.parse(text, feature_version=(3, 9))


@pytest.fixture
def programs(tmp_path: Path) -> list[Path]:
    """Return programs outside of the tree, whose own settings a checker would find."""
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
