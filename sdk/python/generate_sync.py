"""Writes the synchronous resources from those of asyncio, so that both clients are one.

    python sdk/python/generate_sync.py            writes them
    python sdk/python/generate_sync.py --check    names the stale ones, and fails if there are any

The asyncio resources do all I/O through parts that both sides have under one name: a sender,
`holding`, `waiting`. So it is enough to drop the words that make code asynchronous.
"""

from __future__ import annotations

import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from ruff import find_ruff_bin

PACKAGE = Path(__file__).parent / "packetboat"
SOURCE = PACKAGE / "aio"
TARGET = PACKAGE / "sync"
FOLDERS = ("operations", "resources")
RUFF = find_ruff_bin()  # by `python -m ruff`, most of the time would go into starting Python
RULES = [
    (r"\basync (?=def|with|for)\b", ""),
    (r"\bawait ", ""),
    (r"\bAsyncGenerator\[(.+?), None\]", r"Generator[\1, None, None]"),
    (r"\bAsync(?=[A-Z])", ""),
    (r"\b(Iterable\[\w+\]) \| \1", r"\1"),
    (r"\b__a(?=(enter|exit|iter|next)__)", "__"),
    (r"\baclos(?=e\b|ing\b)", "clos"),
    (r"\bpacketboat\.aio\b", "packetboat.sync"),
]
GENERATED = "# Generated from openapi/: `make generate`. Do not edit.\n"
HEADER = "# Generated from aio/{name}: `make generate`. Do not edit.\n"


def translated(source: str, name: str) -> str:
    """Return the synchronous twin of a module, whose name has its folder."""
    source = source.removeprefix(GENERATED)
    for pattern, replacement in RULES:
        source = re.sub(pattern, replacement, source)
    path = str(TARGET / name)
    fixing = ["check", "--quiet", "--select=I,UP028", "--fix", "--unsafe-fixes"]
    fixed = _run([RUFF, *fixing, path], source)
    return _run([RUFF, "format", "--quiet", path], HEADER.format(name=name) + fixed)


def _run(command: list[str], text: str) -> str:
    *options, path = command
    arguments = [*options, "--stdin-filename", path, "-"]
    done = subprocess.run(arguments, input=text, capture_output=True, text=True, check=True)
    return done.stdout


def stale() -> dict[Path, str | None]:
    """Return the texts to write, by their path; None stands for a file whose source is gone."""
    sources = [path for folder in FOLDERS for path in sorted((SOURCE / folder).glob("*.py"))]
    names = [f"{path.parent.name}/{path.name}" for path in sources]
    with ThreadPoolExecutor(4) as pool:
        texts = pool.map(translated, (path.read_text("utf-8") for path in sources), names)
        wanted: dict[Path, str | None] = dict(
            zip((TARGET / name for name in names), texts, strict=True)
        )
    there = [path for folder in FOLDERS for path in (TARGET / folder).glob("*.py")]
    wanted |= {path: None for path in there if path not in wanted}
    return {path: text for path, text in wanted.items() if _present(path) != text}


def _present(path: Path) -> str | None:
    return path.read_text("utf-8") if path.exists() else None


def main() -> int:
    """Return the exit code."""
    for folder in FOLDERS:
        # So that imports are sorted as those of this package.
        (TARGET / folder).mkdir(exist_ok=True)
        (TARGET / folder / "__init__.py").touch()
    found = stale()
    if sys.argv[1:] == ["--check"]:
        if found:
            names = ", ".join(f"{path.parent.name}/{path.name}" for path in found)
            sys.stderr.write(f"{names}: not what the asyncio resources say: run `make generate`\n")
        return bool(found)
    for path, text in found.items():
        path.unlink() if text is None else path.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
