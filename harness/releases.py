"""Releases whose processes the harness can start: this tree, and earlier commits of its history.

An earlier one is unpacked and run with the libraries that are installed here: what differs is our
code alone. It is named by its release or by any name that Git has for a commit.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
HISTORY = {"0.1.0": "a087332", "0.2.0": "6efed96"}
"""Commits of releases."""
PREVIOUS = "0.2.0"


@dataclass(frozen=True, slots=True)
class Release:
    """`tree`: where its source is."""

    name: str
    tree: Path

    def environment(self) -> dict[str, str]:
        """Return the environment in which a Python started in `tree` imports the release."""
        return {"PYTHONPATH": os.pathsep.join((str(self.tree), str(self.tree / "sdk/python")))}


CURRENT = Release("current", ROOT)


def missing(name: str = PREVIOUS) -> str | None:
    """Return why the release or commit cannot be unpacked; None where it can."""
    if not (ROOT / ".git").exists():
        return f"{name} is in the repository's history, and this is no clone of it"
    if _git("cat-file", "-e", f"{_commit(name)}^{{commit}}").returncode != 0:
        return f"this clone has no history back to {name}: git fetch --unshallow"
    return None


def unpacked(place: Path, name: str = PREVIOUS) -> Release:
    """Unpack a release or commit into a new folder under `place`."""
    tree = place / f"release-{name.replace('/', '-')}"
    tree.mkdir()
    archive = _git("archive", "--format=tar", _commit(name))
    archive.check_returncode()
    subprocess.run(["tar", "-x", "-C", str(tree)], input=archive.stdout, check=True)
    return Release(name, tree)


def _commit(name: str) -> str:
    return HISTORY.get(name, name)


def _git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    # The clone may be another account's, as in a container.
    command = ["git", "-c", "safe.directory=*", "-C", str(ROOT), *arguments]
    return subprocess.run(command, capture_output=True, check=False)
