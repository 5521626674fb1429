"""The command: what it says of what is wrong, and how it exits."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from spark_exports.runner import requirements
from spark_exports.runner.command import app

LAKE = {
    "name": "default",
    "warehouse": "/lake",
    "catalog": {"type": "sql", "uri": "sqlite:////nowhere/catalog.db"},
}


@pytest.fixture
def lakes(tmp_path: Path) -> Path:
    path = tmp_path / "lakes.json"
    path.write_text(json.dumps([LAKE]))
    return path


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        ([], 2, "PACKETBOAT_LAKES"),
        (["--lakes", "/no/such/file"], 78, "/no/such/file: No such file"),
        (["--lakes", "{lakes}", "--concurrency", "0"], 2, "--concurrency must be from 1 to 64"),
        (["check", "--lakes", "/no/such/file"], 78, "No such file"),
    ],
)
def test_what_is_wrong_is_said_and_has_an_exit_code(
    lakes: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], code: int, text: str
) -> None:
    monkeypatch.delenv("PACKETBOAT_LAKES", raising=False)
    given = [argument.format(lakes=lakes) for argument in arguments]
    ended = CliRunner().invoke(app, ["export-runner", *given])
    assert ended.exit_code == code
    assert text in ended.stderr
    assert all(line.startswith("packetboat export-runner: ") for line in ended.stderr.splitlines())


def test_without_spark_it_says_what_to_install(
    lakes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(requirements, "find_spec", lambda name: None)
    ended = CliRunner().invoke(app, ["export-runner", "--lakes", str(lakes)])
    assert ended.exit_code == 78
    assert "PySpark and PyArrow and PyIceberg are not installed here" in ended.stderr
    assert "`make exports`" in ended.stderr


def test_two_runners_do_not_share_a_directory(lakes: Path, tmp_path: Path) -> None:
    from spark_exports.runner.state_dir import StateDir

    with StateDir(tmp_path / "state"):
        # A process of its own: it sets up logging for all that comes after.
        program = [sys.executable, "-m", "spark_exports.runner"]
        given = ["--lakes", str(lakes), "--state-dir", str(tmp_path / "state")]
        ended = subprocess.run([*program, *given], capture_output=True, text=True)
    assert ended.returncode == 1
    assert "another runner works in" in ended.stderr


def test_what_a_killed_runner_left_goes_when_the_next_starts(tmp_path: Path) -> None:
    from spark_exports.runner.state_dir import StateDir

    left = tmp_path / "run-1-1" / "spill"
    left.mkdir(parents=True)
    (tmp_path / "keep").touch()
    with StateDir(tmp_path):
        assert sorted(path.name for path in tmp_path.iterdir()) == ["keep", "lock"]


def test_an_idle_runner_has_no_heavy_library() -> None:
    program = (
        "import sys, spark_exports.runner.runner, spark_exports.runner.command;"
        "print([name for name in ('pyspark', 'pyiceberg', 'pyarrow', 'pandas', 'sqlalchemy')"
        " if name in sys.modules])"
    )
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert said.stdout.strip() == "[]", said.stderr
