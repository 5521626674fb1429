"""Mypy and pyright (from the package basedpyright) judge a program, line by line."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Found = Mapping[str, set[int]]
"""The lines with an error of each file."""
WAIT_S = 240.0
_MYPY_ERROR = re.compile(r"^(?P<file>[^:]+):(?P<line>\d+): error: ", re.MULTILINE)


def mypy(python: Path, folder: Path, *files: Path) -> Found:
    """Run mypy as strict as it can be, in that environment, without settings of our own."""
    options = ["--strict", "--config-file=", f"--cache-dir={folder / 'mypy'}"]
    command = [sys.executable, "-m", "mypy", *options, f"--python-executable={python}"]
    done = subprocess.run(
        [*command, *files], cwd=folder, capture_output=True, text=True, timeout=WAIT_S
    )
    assert done.returncode in (0, 1), done.stderr
    found: dict[str, set[int]] = {file.name: set() for file in files}
    for match in _MYPY_ERROR.finditer(done.stdout):
        found.setdefault(Path(match["file"]).name, set()).add(int(match["line"]))
    return found


def pyright(python: Path, folder: Path, *files: Path) -> Found:
    settings = {"typeCheckingMode": "strict", "include": [file.name for file in files]}
    (folder / "pyrightconfig.json").write_text(json.dumps(settings), encoding="utf-8")
    told = _pyright(python, folder, "--project", str(folder))
    found: dict[str, set[int]] = {file.name: set() for file in files}
    for each in told["generalDiagnostics"]:
        line = each["range"]["start"]["line"] + 1
        found.setdefault(Path(each["file"]).name, set()).add(line)
    return found


def unknown_types(python: Path, folder: Path) -> list[str]:
    """Return names of the installed package whose types pyright can't tell, or has to guess."""
    told = _pyright(python, folder, "--verifytypes", "packetboat", "--ignoreexternal")
    symbols = told["typeCompleteness"]["symbols"]
    assert len(symbols) > 1000
    return [
        each["name"]
        for each in symbols
        if each["isExported"] and not (each["isTypeKnown"] and not each["isTypeAmbiguous"])
        # Their libraries are extras that are not here. The command is no library, and `make lint`
        # looks at the adapter of Spark.
        if not each["name"].startswith(("packetboat.cli.", "packetboat.spark."))
    ]


def _pyright(python: Path, folder: Path, *arguments: str) -> dict[str, Any]:
    """Run pyright, which finds packages by the `python` of its PATH."""
    program = str(Path(sys.executable).with_name("basedpyright"))
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [program, "--outputjson", *arguments],
        cwd=folder,
        env={**os.environ, "PATH": path, "VIRTUAL_ENV": str(python.parents[1])},
        capture_output=True,
        text=True,
        timeout=WAIT_S,
    )
    told: dict[str, Any] = json.loads(done.stdout)
    return told
