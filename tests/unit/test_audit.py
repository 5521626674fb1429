"""`make audit` fails on what is known, and never takes silence for a clean result."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.audit import NotAudited, Ran, Run, of_go_module, of_layer, report

CLEAN = {"name": "a", "version": "1", "vulns": []}
BAD = {"name": "b", "version": "2", "vulns": [{"id": "PYSEC-1", "fix_versions": ["3"]}]}


def answering(code: int, out: str = "", errors: str = "") -> Run:
    def run(command: Sequence[str | Path], directory: Path) -> Ran:
        return Ran(code, out, errors)

    return run


def layer(*packages: object) -> Run:
    return answering(int(len(packages) > 1), json.dumps({"dependencies": packages}))


def test_what_is_known_of_a_locked_library_fails(capsys: pytest.CaptureFixture[str]) -> None:
    looks = [("run.lock", lambda: of_layer(Path("run.lock"), Path("x"), layer(CLEAN, BAD)))]
    assert report(looks) == 1
    assert "b 2: PYSEC-1" in capsys.readouterr().out


def test_nothing_known_is_said() -> None:
    assert of_layer(Path("run.lock"), Path("x"), layer(CLEAN)) == []
    assert of_go_module(Path(), answering(0, "No vulnerabilities found.")) == []


def test_a_vulnerability_of_go_is_found() -> None:
    text = "=== Symbol Results ===\nVulnerability #1: GO-2026-1\n    More\n"
    assert of_go_module(Path(), answering(3, text)) == ["Vulnerability #1: GO-2026-1"]


@pytest.mark.parametrize(
    "look",
    [
        lambda: of_layer(Path("l"), Path("x"), answering(1, "", "no route to host")),
        lambda: of_layer(Path("l"), Path("x"), layer({"name": "a", "skip_reason": "unknown"})),
        lambda: of_go_module(Path(), answering(1, "", "no route to host")),
    ],
)
def test_what_could_not_be_asked_is_named_and_ends_nothing(
    look: Callable[[], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(NotAudited):
        look()
    assert report([("it", look)]) == 0
    assert capsys.readouterr().out.startswith("NOT AUDITED: it: ")
