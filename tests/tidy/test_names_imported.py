"""Every name that tests and benchmarks import exists: only the run of long tests collects those,
and mypy reads neither."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.parts import ROOT
from tests.tidy.sources import PARTS, name, paths, text

READERS = ("tests", "benchmarks", "examples", "harness")
OURS = (*PARTS, *READERS, "packetboat", "packetboat_server")
IMPORT = re.compile(
    rf"^ *from (?P<module>(?:{'|'.join(OURS)})[\w.]*) import (?P<names>\([^)]*\)|[^\n#]*)",
    re.MULTILINE,
)
ROOTS = (ROOT, ROOT / "sdk/python", ROOT / "deploy")


def test_what_tests_and_benchmarks_import_is_there() -> None:
    missing = [
        f"{name(path)}:{line}: {module}.{imported}"
        for path in paths(*READERS)
        for line, module, imported in _imports(text(path))
        if (file := _file(module)) and not _has(file, imported)
    ]
    assert missing == []


def test_a_name_that_is_not_there_is_found() -> None:
    file = _file("tests.tidy.sources")
    assert file is not None
    assert _has(file, "Module")
    assert _has(file, "RAW")
    assert _has(file, "ROOT")
    assert not _has(file, "Modules")
    package = _file("tests.tidy")
    assert package == ROOT / "tests/tidy"
    assert _has(package, "sources")
    assert not _has(package, "sauces")


def _imports(source: str) -> Iterator[tuple[int, str, str]]:
    """Yield the line, the module and the name of each `from module import name` of ours."""
    for found in IMPORT.finditer(source):
        line = source.count("\n", 0, found.start()) + 1
        for imported in found["names"].strip("()").split(","):
            if imported.strip():
                yield line, found["module"], imported.split()[0]


def _file(module: str) -> Path | None:
    """Return the file of a module, or the folder of a package; None for a module that is made while
    a test runs."""
    for root in ROOTS:
        place = root.joinpath(*module.split("."))
        if (file := place.with_suffix(".py")).is_file():
            return file
        if place.is_dir():
            return place
    return None


def _has(file: Path, imported: str) -> bool:
    if file.is_dir():
        if (file / f"{imported}.py").is_file() or (file / imported).is_dir():
            return True
        file /= "__init__.py"
    names = _names(file) if file.is_file() else frozenset()
    return imported in names or not names.isdisjoint({"*", "__getattr__"})


@cache
def _names(file: Path) -> frozenset[str]:
    """Return the names that a module binds, also within its functions and classes: enough to find
    what was renamed."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text(file))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
    return frozenset(found)
