"""Split a lock of everything into layers: `python deploy/lock.py LOCK`, as `make lock` does.

A layer is a file of `requirements/`, with hashes. `run.lock` has the libraries that the server and
the client need to run, `opentelemetry.lock` those for spans and metrics by OTLP, `exports.lock`
those of runners of exports, `develop.lock` the rest. All layers are of one resolution, and none
repeats a package of an earlier one. The dependencies are those of the installed distributions, so
run it in an environment with all of them.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LAYERS = ROOT / "requirements"
OURS = {"packetboat-client": ROOT / "sdk/python", "packetboat-server": ROOT}
EXTRAS: Mapping[str, frozenset[str]] = {
    "run": frozenset(),
    "opentelemetry": frozenset({"opentelemetry"}),
    "exports": frozenset({"exports", "opentelemetry"}),
}
"""Extras of the server whose libraries a layer has; the last layer has all others."""
BUILD = "setuptools"
"""The package that builds our own packages, in every environment."""
_NAME = re.compile(r"(?P<name>[A-Za-z0-9._-]+)\s*(\[(?P<extras>[^]]*)\])?(?P<rest>.*)")
_EXTRA = re.compile(r"""extra\s*==\s*['"](?P<extra>[^'"]+)['"]""")


def normalized(name: str) -> str:
    """Return a name in the form in which package indexes compare names."""
    return re.sub(r"[-_.]+", "-", name).lower()


def packages(lock: str) -> dict[str, str]:
    """Return the part of a lock for each package.

    A package is a line that begins with its name, or several if its version depends on the Python,
    with indented lines after it.
    """
    found: dict[str, str] = {}
    name = ""
    for line in lock.splitlines(keepends=True):
        if line.startswith("#"):
            continue
        if not line[0].isspace():
            name = normalized(line.partition("==")[0])
        found[name] = found.get(name, "") + line
    return found


def needed(wanted: Iterable[tuple[str, frozenset[str]]]) -> set[str]:
    """Return the names of these packages, with extras, and of all that they need on any machine."""
    seen: set[tuple[str, frozenset[str]]] = set()
    left = [(normalized(name), extras) for name, extras in wanted]
    while left:
        name, extras = one = left.pop()
        if one in seen:
            continue
        seen.add(one)
        for line in requirements_of(name, extras):
            match = _NAME.match(line)
            assert match is not None, line
            more = frozenset(filter(None, map(str.strip, (match["extras"] or "").split(","))))
            left.append((normalized(match["name"]), more))
    return {name for name, _ in seen}


def requirements_of(name: str, extras: frozenset[str] = frozenset()) -> list[str]:
    """Return the requirements of a package with these extras, on any machine."""
    if name in OURS:
        text = (OURS[name] / "pyproject.toml").read_text(encoding="utf-8")
        project = tomllib.loads(text)["project"]
        optional = project["optional-dependencies"]
        return [*project["dependencies"], *(one for extra in extras for one in optional[extra])]
    try:
        lines = requires(name) or []
    except PackageNotFoundError:
        return []  # it is for another system or Python, so its requirements are not known here
    kept = []
    for line in lines:
        asked = {match["extra"] for match in _EXTRA.finditer(line)}
        if not asked or asked & extras:
            kept.append(line)
    return kept


def layers_of(lock: str) -> dict[str, str]:
    """Return the text of each layer.

    Raises ValueError for a lock that cannot build our own packages.
    """
    left = packages(lock)
    if BUILD not in left:
        raise ValueError(f"the lock has no {BUILD}, which builds our own packages")
    layers = {}
    for layer, extras in EXTRAS.items():
        names = needed([("packetboat-server", extras), (BUILD, frozenset())])
        layers[layer] = "".join(left.pop(name) for name in sorted(names) if name in left)
    layers["develop"] = "".join(left[name] for name in sorted(left))
    return layers


def unknown(lock: str) -> list[str]:
    """Return the packages of this machine that are not installed, and whose requirements are
    unknown.
    """
    found = []
    for name, text in packages(lock).items():
        try:
            requires(name)
        except PackageNotFoundError:
            if ";" not in text:
                found.append(name)
    return found


def main(lock: str) -> None:
    """Write the layers. Exit status 1: they are written, but packages may be in the wrong one."""
    whole = Path(lock).read_text(encoding="utf-8")
    for layer, text in layers_of(whole).items():
        (LAYERS / f"{layer}.lock").write_text(text, encoding="utf-8")
        sys.stdout.write(f"requirements/{layer}.lock: {len(packages(text))} packages\n")
    if new := unknown(whole):
        sys.exit(f"not installed until now: {', '.join(new)}; run `make lock` again")


if __name__ == "__main__":
    main(sys.argv[1])
