"""The guides do what they say, and may be pasted again.

Each page's `sh` blocks run as they stand there, in order, in one shell that stops at the first
failure, and then all of them once more. Where a block prints JSON and a `json` block follows, what
was printed, both times, has every member that the page shows, with the same value unless the page
shows an example.
"""

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
TIMES = 2
EXAMPLE = r"…|\d{4}-\d\d-\d\dT|127\.0\.0\.1"
"""A text with an ellipsis, a time or an address in it is an example; "…" stands for any value."""
EXAMPLES = {
    *("ack_id", "offset", "end_offset", "partition", "snapshot_id"),
    *("next_page_token", "usage"),
    *("fencing_token", "latest_fencing_token", "expires_in_seconds", "seconds"),
}
"""Members whose values are examples."""
_BLOCK = re.compile(r"^```(sh|json)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def blocks_of(page: Path) -> list[tuple[str, object | None]]:
    """Return each `sh` block, with the value of the `json` block that follows it, if one does."""
    found = _BLOCK.findall(page.read_text())
    blocks: list[tuple[str, object | None]] = []
    for (language, text), (following, shown) in zip(found, [*found[1:], ("", "")], strict=True):
        if language == "sh":
            blocks.append((text, json.loads(shown) if following == "json" else None))
    return blocks


def unlike(shown: object, printed: object, path: str = "") -> list[str]:
    """Return the places where the output lacks what the page shows, or has another value."""
    if isinstance(shown, dict):
        if not isinstance(printed, dict):
            return [path or "an object"]
        lacking = [f"{path}.{name}" for name in shown if name not in printed]
        both = [name for name in shown if name in printed and name not in EXAMPLES]
        return lacking + [
            each for name in both for each in unlike(shown[name], printed[name], f"{path}.{name}")
        ]
    if isinstance(shown, list) and shown:
        if not isinstance(printed, list) or not printed:
            return [f"{path}[0]"]
        return unlike(shown[0], printed[0], f"{path}[0]")
    if shown == "…":
        return []
    example = isinstance(shown, str) and re.search(EXAMPLE, shown) is not None
    same = isinstance(printed, str) if example else shown == printed
    return [] if same else [f"{path}: {printed!r}, not {shown!r}"]


def last_json(output: str) -> object:
    """Return the last JSON object that a block printed."""
    last, at = None, output.find("{")
    while at >= 0:
        try:
            last, end = json.JSONDecoder().raw_decode(output, at)
        except ValueError:
            end = at + 1
        at = output.find("{", end)
    return last


def run_of(
    script: str,
    running: Installation,
    timeout_s: float = PAGE_TIMEOUT_S,
    directory: Path | None = None,
) -> tuple[int | str, str]:
    """Return its exit code, or what became of it, and all that it printed."""
    environment = os.environ | {
        "PACKETBOAT_URL": running.url,
        "PACKETBOAT_TOKEN": running.token,
        "PATH": f"{PROGRAMS}{os.pathsep}{os.environ['PATH']}",
    }
    with subprocess.Popen(
        ["bash", "-c", script],
        cwd=directory,
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
def test_the_blocks_of_a_guide_run(page: Path, running: Installation, tmp_path: Path) -> None:
    hold(page, running, PAGE_TIMEOUT_S, tmp_path)


@pytest.mark.parametrize("name", sorted(EXPORTING))
def test_the_blocks_of_a_guide_with_exports_run(
    name: str, exporting: Installation, tmp_path: Path
) -> None:
    hold(GUIDES / f"{name}.md", exporting, EXPORTING_TIMEOUT_S, tmp_path)


def hold(page: Path, running: Installation, timeout_s: float, directory: Path) -> None:
    """Run a whole page, twice, in any directory."""
    blocks = blocks_of(page) * TIMES
    script = "set -euo pipefail\n" + "".join(f"{text}\necho\necho '{END}'\n" for text, _ in blocks)
    code, printed = run_of(script, running, timeout_s, directory)
    outputs = printed.split(END + "\n")
    reached = len(outputs) - 1
    assert code == 0, f"{code}: block {reached + 1}:\n{blocks[reached][0]}\n{outputs[-1]}"
    for (text, shown), output in zip(blocks, outputs, strict=False):
        if shown is not None:
            found = unlike(shown, last_json(output))
            assert not found, f"{found}: not as shown, printed by\n{text}\n{output}"


def readme_block(language: str) -> str:
    """Return the block of the README's list, of which there is one for each language."""
    text = (GUIDES.parents[1] / "README.md").read_text()
    (program,) = re.findall(rf"^  ```{language}\n(.*?)^  ```$", text, re.MULTILINE | re.DOTALL)
    return textwrap.dedent(program)


def run_readme_program(running: Installation) -> list[str]:
    """Run it until it has printed two lines, then press Ctrl-C."""
    environment = {"PACKETBOAT_URL": running.url, "PACKETBOAT_TOKEN": running.token}
    with subprocess.Popen(
        [sys.executable, "-u", "-c", readme_block("python")],
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
    return lines


def test_the_program_of_the_readme_runs_until_ctrl_c(running: Installation) -> None:
    for _ in range(TIMES):
        lines = run_readme_program(running)
        assert "is on disk" in lines[0]
        assert lines[1] == "{'amount': 12}\n"


def test_the_lake_of_the_readme_has_what_was_consumed(
    exporting: Installation, tmp_path: Path
) -> None:
    """The messages are published, consumed and exported, in the README's order."""
    run_readme_program(exporting)
    for _ in range(TIMES):
        script = f"set -euo pipefail\n{readme_block('sh')}"
        code, printed = run_of(script, exporting, EXPORTING_TIMEOUT_S, tmp_path)
        assert code == 0, printed
        assert re.search(r"^rows:? +1$", printed, re.MULTILINE), printed


def test_a_refused_request_ends_a_page_unless_it_shows_the_answer() -> None:
    """curl calls an error a success unless told otherwise, and shows no reason without a body."""
    for page in PAGES:
        for text, shown in blocks_of(page):
            assert not re.search(r"\bcurl -\w*f", text), f"{page.name}: -f keeps the reason back"
            if shown is not None and "--fail-with-body" not in text:
                continue
            for call in re.findall(r"\bcurl\b[^\n]*", text):
                assert call.startswith("curl -sS --fail-with-body "), f"{page.name}: {call}"


def test_pages_make_things_with_put() -> None:
    """A second `POST` of the same name is a conflict; schemas have no `PUT`."""
    collection = re.compile(r'/(topics|subscriptions|schedules|jobs|clients|keys|policies)"')
    for page in PAGES:
        for text, _ in blocks_of(page):
            for call in text.split("curl ")[1:]:
                assert not (collection.search(call) and " -d " in call), f"{page.name}: {call}"


def test_what_differs_from_the_page_is_found() -> None:
    shown = {
        "a": 1,
        "b": {"id": "x…", "at": "2026-01-01T00:00:00Z"},
        "c": [{"d": None}],
        "offset": 3,
    }
    printed = {"a": 1, "b": {"id": "xyz", "at": "2027-02-02T01:00:00Z"}, "c": [{"d": None}], "e": 5}
    assert unlike(shown, printed | {"offset": 4}) == []
    assert unlike(shown, printed) == [".offset"]
    assert unlike({"a": 1, "c": [{"d": 2}]}, printed) == [".c[0].d: None, not 2"]
    assert unlike({"a": "1…", "b": {"id": "x"}}, printed) == [
        ".a: 1, not '1…'",
        ".b.id: 'xyz', not 'x'",
    ]
    assert unlike({"c": [1]}, {"c": []}) == [".c[0]"]
