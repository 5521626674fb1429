"""The guides do what they say: each page's `sh` blocks run as they stand there, in order, in one
shell that stops at the first failure. Where a block prints JSON and a `json` block follows, every
member shown in the page is in what was printed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.e2e.installation import Installation

GUIDES = Path(__file__).parents[2] / "docs" / "guides"
TUTORIAL = GUIDES.parent / "tutorial.md"
PAGES = [*sorted(page for page in GUIDES.glob("*.md") if "```sh\n" in page.read_text()), TUTORIAL]
PROGRAMS = Path(sys.executable).parent
"""The `python3` of a page has the libraries that it tells the reader to install."""
PAGE_TIMEOUT_S = 300
EXPORTING = {"exports", "lake-read"}
"""Pages whose exports run: each run starts a Spark of its own."""
EXPORTING_TIMEOUT_S = 1800
END = "=== end of block"
_BLOCK = re.compile(r"^```(sh|json)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks_of(page: Path) -> list[tuple[str, object | None]]:
    """Each `sh` block, with the value of the `json` block that follows it, if one does."""
    found = _BLOCK.findall(page.read_text())
    blocks: list[tuple[str, object | None]] = []
    for (language, text), (following, shown) in zip(found, [*found[1:], ("", "")], strict=True):
        if language == "sh":
            blocks.append((text, json.loads(shown) if following == "json" else None))
    return blocks


def missing(shown: object, printed: object, path: str = "") -> list[str]:
    """Members of objects that the page shows and the output lacks; values are free to differ."""
    if isinstance(shown, dict):
        if not isinstance(printed, dict):
            return [path or "an object"]
        lacking = [f"{path}.{name}" for name in shown if name not in printed]
        both = [name for name in shown if name in printed]
        return lacking + [
            m for name in both for m in missing(shown[name], printed[name], f"{path}.{name}")
        ]
    if isinstance(shown, list) and shown:
        if not isinstance(printed, list) or not printed:
            return [f"{path}[0]"]
        return missing(shown[0], printed[0], f"{path}[0]")
    return []


def last_json(output: str) -> object:
    """The last JSON object that a block printed."""
    last, at = None, output.find("{")
    while at >= 0:
        try:
            last, end = json.JSONDecoder().raw_decode(output, at)
        except ValueError:
            end = at + 1
        at = output.find("{", end)
    return last


def run_of(
    script: str, running: Installation, timeout_s: float = PAGE_TIMEOUT_S
) -> tuple[int | str, str]:
    """Its exit code, or what became of it, and all that it printed."""
    environment = os.environ | {
        "PACKETBOAT_URL": running.url,
        "PACKETBOAT_TOKEN": running.token,
        "PATH": f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}",
    }
    with subprocess.Popen(
        ["bash", "-c", script],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as shell:
        try:
            printed, _ = shell.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            os.killpg(shell.pid, signal.SIGKILL)  # with what it has started
            return f"not at its end after {timeout_s} s", shell.communicate()[0]
    return shell.returncode, printed


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.stem not in EXPORTING], ids=lambda page: page.stem
)
def test_the_blocks_of_a_guide_run(page: Path, running: Installation) -> None:
    hold(page, running, PAGE_TIMEOUT_S)


@pytest.mark.parametrize("name", sorted(EXPORTING))
def test_the_blocks_of_a_guide_with_exports_run(name: str, exporting: Installation) -> None:
    hold(GUIDES / f"{name}.md", exporting, EXPORTING_TIMEOUT_S)


def hold(page: Path, running: Installation, timeout_s: float) -> None:
    blocks = blocks_of(page)
    script = "set -euo pipefail\n" + "".join(f"{text}\necho\necho '{END}'\n" for text, _ in blocks)
    code, printed = run_of(script, running, timeout_s)
    outputs = printed.split(END + "\n")
    reached = len(outputs) - 1
    assert code == 0, f"{code}: block {reached + 1}:\n{blocks[reached][0]}\n{outputs[-1]}"
    for (text, shown), output in zip(blocks, outputs, strict=False):
        if shown is not None:
            lacking = missing(shown, last_json(output))
            assert not lacking, f"{lacking} shown and not printed by\n{text}\n{output}"


def test_the_program_of_the_readme_runs_until_ctrl_c(running: Installation) -> None:
    text = (GUIDES.parents[1] / "README.md").read_text()
    (program,) = re.findall(r"^  ```python\n(.*?)^  ```$", text, re.MULTILINE | re.DOTALL)
    environment = {"PACKETBOAT_URL": running.url, "PACKETBOAT_TOKEN": running.token}
    with subprocess.Popen(
        [sys.executable, "-u", "-c", textwrap.dedent(program)],
        env=os.environ | environment,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stdout is not None
            lines = [process.stdout.readline() for _ in range(2)]
            process.send_signal(signal.SIGINT)
            assert process.wait(PAGE_TIMEOUT_S) == 0
        finally:
            process.kill()
    assert "is on disk" in lines[0]
    assert lines[1] == "{'amount': 12}\n"


def test_a_refused_request_ends_a_page_unless_it_shows_the_answer() -> None:
    """curl calls an error a success unless told otherwise."""
    for page in PAGES:
        for text, shown in blocks_of(page):
            if shown is not None and "-f" not in text:
                continue
            for call in re.findall(r"\bcurl\b[^\n]*", text):
                assert re.match(r"curl -[a-zA-Z]*f", call), f"{page.name}: {call} lacks -f"
