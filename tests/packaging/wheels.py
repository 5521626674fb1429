"""Both wheels, built from a copy of the tree: nothing that an earlier build left is in them."""

from __future__ import annotations

import shutil
import sys
import tomllib
import zipfile
from email import message_from_string
from email.message import Message
from importlib import import_module
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "deploy"))
release = import_module("release")
sys.path.pop(0)
EPOCH_S = 1_700_000_000
LEFTOVERS = (".*", "build", "*.egg-info", "__pycache__", "node_modules")


class Wheel:
    """The content of a wheel."""

    def __init__(self, file: Path) -> None:
        self.file = file
        with zipfile.ZipFile(file) as archive:
            self._texts = {
                name: archive.read(name).decode()
                for name in archive.namelist()
                if ".dist-info/" in name
            }
            names = {name for name in archive.namelist() if not name.endswith("/")}
        self.files = names - set(self._texts)

    @property
    def packages(self) -> set[str]:
        return {name.partition("/")[0] for name in self.files}

    @property
    def metadata(self) -> Message:
        return message_from_string(self._text("METADATA"))

    @property
    def entry_points(self) -> str:
        return self._text("entry_points.txt")

    def _text(self, name: str) -> str:
        (text,) = (text for path, text in self._texts.items() if path.endswith(f"/{name}"))
        return text


def copied(folder: Path) -> Path:
    """The tree, tests and all, without what was made from it."""
    tree = folder / "tree"
    shutil.copytree(ROOT, tree, ignore=shutil.ignore_patterns(*LEFTOVERS))
    return tree


def built(project: Path, folder: Path) -> Wheel:
    """Build a wheel as `make release` does."""
    return Wheel(release.build_wheel(project, folder, EPOCH_S))


def project_of(folder: str) -> dict[str, Any]:
    text = (ROOT / folder / "pyproject.toml").read_text(encoding="utf-8")
    project: dict[str, Any] = tomllib.loads(text)["project"]
    return project


def sources(root: Path, package: str, *suffixes: str) -> set[str]:
    """Return the files of a package, as a wheel names them, with those suffixes if any are
    given.
    """
    return {
        str(path.relative_to(root))
        for path in (root / package).rglob("*")
        if path.is_file() and (not suffixes or path.suffix in suffixes)
    }
