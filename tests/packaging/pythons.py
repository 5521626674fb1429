"""Interpreters of this machine, and environments that have the wheels as users' have them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator
from importlib.metadata import distribution
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PYENV = Path.home() / ".pyenv" / "versions"
WAIT_S = 120.0


def interpreter(version: str) -> Path:
    """Skips where there is none that runs: a pyenv shim is there for versions that are not."""
    if version == ".".join(map(str, sys.version_info[:2])):
        return Path(sys.executable)
    tried = list(_candidates(version))
    for candidate in tried:
        if _runs(candidate, version):
            return candidate
    names = ", ".join(str(each) for each in tried) or "nothing of that name"
    pytest.skip(f"no Python {version} runs here (tried: {names})")


def _candidates(version: str) -> Iterator[Path]:
    found = shutil.which(f"python{version}")
    if found is not None:
        yield Path(found)
    if PYENV.is_dir():
        yield from sorted(PYENV.glob(f"{version}*/bin/python3"))


def _runs(candidate: Path, version: str) -> bool:
    program = "import sys; print('%d.%d' % sys.version_info[:2])"
    try:
        done = subprocess.run(
            [candidate, "-c", program], capture_output=True, text=True, timeout=WAIT_S
        )
    except OSError:
        return False
    return done.returncode == 0 and done.stdout.strip() == version


def index_reached(folder: Path) -> None:
    """Skips where pip can get nothing: then nothing can be installed as a user does."""
    options = ["--quiet", "--no-deps", "--retries", "0", "--timeout", "10", "-d", str(folder)]
    done = pip("download", *options, "msgspec")
    if done.returncode != 0:
        pytest.skip(f"pip reaches no package index: {done.stderr.strip().splitlines()[-1]}")


def environment(folder: Path, python: Path, *requirements: str) -> Path:
    """Make a new environment with these requirements; return its interpreter."""
    subprocess.run([python, "-m", "venv", "--without-pip", folder], check=True, timeout=WAIT_S)
    inside = folder / "bin" / "python"
    done = pip("--python", str(inside), "install", "--quiet", *requirements)
    assert done.returncode == 0, done.stderr
    return inside


def offline_environment(folder: Path, wheels: Iterable[Path], libraries: Iterable[str]) -> Path:
    """Make a new environment of this Python with these wheels; return its interpreter.

    Libraries, with all that they require, are linked from the environment that runs the tests:
    nothing is downloaded, and nothing that is not required is there.
    """
    files = map(str, wheels)
    inside = environment(folder, Path(sys.executable), "--no-deps", "--no-index", *files)
    (site,) = folder.glob("lib/python*/site-packages")
    for name in required(libraries):
        for file in distribution(name).files or ():
            top = file.parts[0]
            if top not in ("..", "__pycache__") and not (site / top).exists():
                (site / top).symlink_to(Path(str(distribution(name).locate_file(top))))
    return inside


def required(requirements: Iterable[str]) -> set[str]:
    """Return the names of the distributions that these requirements bring, on this machine."""
    left = [Requirement(each) for each in requirements]
    seen: set[tuple[str, str]] = set()
    while left:
        one = left.pop()
        for extra in ("", *one.extras):
            if (one.name, extra) in seen:
                continue
            seen.add((one.name, extra))
            for line in distribution(one.name).requires or ():
                more = Requirement(line)
                if more.marker is None or more.marker.evaluate({"extra": extra}):
                    left.append(more)
    return {name for name, _ in seen}


def pip(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S)
