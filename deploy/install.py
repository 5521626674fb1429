"""Install Packetboat of this checkout into a folder of its own, with the libraries of its lock.

    python3 deploy/install.py /opt/packetboat [--exports] [--only-libraries]

The folder becomes a virtual environment of the Python that runs this. Every library has the version
and a hash of `requirements.lock`, pip itself those of `deploy/pip.txt`; of the lock only what the
server needs is installed, with `--exports` also what runners of exports need. Only the standard
library is used. Run it again to bring the folder up to another checkout.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import tomllib
import venv
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
OURS = "packetboat"
SERVER, SDK = ROOT, ROOT / "sdk/python"
BUILD_ELSEWHERE = """
[build]
build_base = {0}

[egg_info]
egg_base = {0}
"""
"""For setuptools, which reads it where DIST_EXTRA_CONFIG says."""
NAME = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(\[(?P<extras>[^]]*)\])?")


def requirements(folder: Path, extras: Iterable[str]) -> Iterator[str]:
    """What a project of ours wants of others; our SDK's own wants stand for the SDK."""
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    wanted = [*project["dependencies"]]
    for extra in extras:
        wanted += project["optional-dependencies"][extra]
    for line in wanted:
        found = NAME.match(line)
        assert found is not None, line
        if found["name"] == OURS:
            yield from requirements(SDK, filter(None, (found["extras"] or "").split(",")))
        else:
            yield line


def install_libraries(python: Path, extras: Iterable[str]) -> None:
    """Raises CalledProcessError, after pip said why."""
    # Older ones take no hashes from a file of constraints.
    _pip(python, "--require-hashes", "-r", str(ROOT / "deploy/pip.txt"))
    names = sorted({*requirements(SERVER, extras), "setuptools"})
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as wanted:
        wanted.write("\n".join(names))
        wanted.flush()
        lock = str(ROOT / "requirements.lock")
        _pip(python, "--require-hashes", "-r", wanted.name, "-c", lock)


def install_packetboat(python: Path) -> None:
    """Server and SDK, of this checkout, which stays as it is: what an earlier build had left there
    would be installed again, deleted modules too."""
    for folder in (SDK, SERVER):
        with tempfile.TemporaryDirectory() as elsewhere:
            config = Path(elsewhere) / "build.cfg"
            config.write_text(BUILD_ELSEWHERE.format(elsewhere), encoding="utf-8")
            options = ("--no-deps", "--no-build-isolation", "--force-reinstall")
            _pip(python, *options, str(folder), DIST_EXTRA_CONFIG=str(config))


def _pip(python: Path, *arguments: str, **environment: str) -> None:
    options = ("--quiet", "--disable-pip-version-check", "--no-cache-dir")
    command = [str(python), "-m", "pip", "install", *options, *arguments]
    subprocess.run(command, env=os.environ | environment, check=True)


def main() -> None:
    """Exit status: 0 done, 1 pip failed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="such as /opt/packetboat")
    parser.add_argument("--exports", action="store_true", help="what runners of exports need, too")
    parser.add_argument("--only-libraries", action="store_true", help="nothing of the checkout")
    given = parser.parse_args()
    if not (given.folder / "bin/pip").exists():
        venv.create(given.folder, with_pip=True)
    python = given.folder / "bin/python"
    try:
        install_libraries(python, ["exports"] if given.exports else [])
        if not given.only_libraries:
            install_packetboat(python)
    except subprocess.CalledProcessError:
        sys.exit(1)


if __name__ == "__main__":
    main()
