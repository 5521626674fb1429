"""Writes `packetboat/sync/resources` from `packetboat/aio/resources`, so that both clients are one.

    python sdk/python/generate_sync.py            writes them
    python sdk/python/generate_sync.py --check    says which are stale, and fails if any is

The asyncio resources do no I/O of their own but through what both sides have under one name: a
sender, `holding`, `waiting`. So dropping the words that make code asynchronous is enough.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from ruff import find_ruff_bin

PACKAGE = Path(__file__).parent / "packetboat"
SOURCE = PACKAGE / "aio" / "resources"
TARGET = PACKAGE / "sync" / "resources"
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
HEADER = "# generated from aio/resources/{name} by generate_sync.py; do not edit\n"


def translated(source: str, name: str) -> str:
    """The synchronous twin of an asyncio resource."""
    for pattern, replacement in RULES:
        source = re.sub(pattern, replacement, source)
    path = str(TARGET / name)
    ruff = [find_ruff_bin()]  # by `python -m ruff`, most of the time would go into starting Python
    fixing = ["check", "--quiet", "--select=I,UP028", "--fix", "--unsafe-fixes"]
    fixed = _run([*ruff, *fixing, path], source)
    return _run([*ruff, "format", "--quiet", path], HEADER.format(name=name) + fixed)


def _run(command: list[str], text: str) -> str:
    *options, path = command
    arguments = [*options, "--stdin-filename", path, "-"]
    done = subprocess.run(arguments, input=text, capture_output=True, text=True, check=True)
    return done.stdout


def stale() -> dict[Path, str | None]:
    """What to write where; None: a file whose source is gone."""
    wanted: dict[Path, str | None] = {
        TARGET / path.name: translated(path.read_text("utf-8"), path.name)
        for path in sorted(SOURCE.glob("*.py"))
    }
    wanted |= {path: None for path in TARGET.glob("*.py") if path not in wanted}
    return {path: text for path, text in wanted.items() if _present(path) != text}


def _present(path: Path) -> str | None:
    return path.read_text("utf-8") if path.exists() else None


def main() -> int:
    """The exit code."""
    TARGET.mkdir(exist_ok=True)
    (TARGET / "__init__.py").touch()  # so that imports are sorted as those of this package
    found = stale()
    if sys.argv[1:] == ["--check"]:
        sys.stderr.writelines(f"stale: {path.name}\n" for path in found)
        return bool(found)
    for path, text in found.items():
        path.unlink() if text is None else path.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
