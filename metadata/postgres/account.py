"""The account that runs Postgres. Postgres refuses root, so root hands it to a lesser account.

There are three ways, in this order: as we are (not root); as the account `postgres` or `nobody`, if
that account reaches the directory and the programs; else in a user namespace of its own. There root
looks like that account to Postgres, and still owns its files (for example a data directory below
/root, which is not ours to open). A user without a name also runs Postgres in such a namespace. The
owner of existing data tells which way created it.
"""

from __future__ import annotations

import ctypes
import os
import pwd
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_CLONE_NEWUSER = 0x10000000
_LESSER = ("postgres", "nobody")
_TRY_TIMEOUT_S = 20.0
_LIBC = ctypes.CDLL(None, use_errno=True)


class NoAccount(Exception):
    """Root, and nobody to hand Postgres to."""


@dataclass(frozen=True, slots=True)
class Account:
    """No ids: the caller itself. `namespace`: the caller, looking like `uid` from inside."""

    uid: int | None = None
    gid: int | None = None
    namespace: bool = False

    def popen_arguments(self, before_exec: Callable[[], None] | None = None) -> dict[str, Any]:
        """Return arguments for subprocess; `before_exec` runs in the child, after the
        change of account.
        """
        uid, gid = self.uid, self.gid
        if uid is None or gid is None:
            return {"preexec_fn": before_exec}
        if not self.namespace:
            return {"user": uid, "group": gid, "extra_groups": [], "preexec_fn": before_exec}

        def enter() -> None:
            _enter_namespace(uid, gid)
            if before_exec is not None:
                before_exec()

        return {"preexec_fn": enter}

    def own(self, path: Path) -> None:
        if self.uid is not None and self.gid is not None and not self.namespace:
            os.chown(path, self.uid, self.gid)

    def can_enter(self, directory: Path) -> bool:
        """Return whether the account reaches `directory`, by a try: modes don't tell the
        whole story.
        """
        return self.runs("/bin/sh", "-c", 'cd "$1"', "sh", directory)

    def runs(self, *command: str | Path) -> bool:
        """Return whether this account can run that command successfully."""
        try:
            done = subprocess.run(
                command,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                cwd="/",
                timeout=_TRY_TIMEOUT_S,
                env=clean_environment(),
                **self.popen_arguments(),
            )
        except (OSError, subprocess.SubprocessError):
            return False
        return done.returncode == 0


def lesser() -> Account | None:
    """Return the account to which root hands Postgres, or None if we are not root; raises
    NoAccount.
    """
    if os.geteuid() != 0:
        return None
    for name in _LESSER:
        try:
            entry = pwd.getpwnam(name)
        except KeyError:
            continue
        return Account(entry.pw_uid, entry.pw_gid)
    raise NoAccount(
        "Postgres doesn't run as root and this machine has neither a `postgres` nor a `nobody`"
        " account; run as a user, or set PACKETBOAT_DATABASE_URL"
    )


def namespaced(account: Account) -> Account:
    """Return root itself, looking like `account`."""
    return Account(account.uid, account.gid, namespace=True)


def nameless() -> Account | None:
    """Return the account that creates the data for a user without an entry in /etc/passwd, or None
    for other users.

    Containers start such users. The account is the user itself, looking like one with an entry.
    Raises NoAccount.
    """
    uid = os.geteuid()
    try:
        pwd.getpwuid(uid)
    except KeyError:
        pass
    else:
        return None
    entries = [entry for entry in pwd.getpwall() if entry.pw_uid != 0]
    entries.sort(key=lambda entry: entry.pw_name not in _LESSER)
    for entry in entries[:1]:
        account = Account(entry.pw_uid, entry.pw_gid, namespace=True)
        if account.runs("/bin/sh", "-c", ":"):
            return account
    raise NoAccount(
        f"uid {uid} has no entry in /etc/passwd, which Postgres needs to make its data, and no user"
        f" namespace may be made here; add an entry (useradd --uid {uid} packetboat), run as a user"
        " who has one, or set PACKETBOAT_DATABASE_URL"
    )


def owner_of(data: Path) -> Account:
    """Return the account that created existing data."""
    below = lesser()
    if below is None:
        return Account()
    owner = data.stat()
    return namespaced(below) if owner.st_uid == 0 else Account(owner.st_uid, owner.st_gid)


def clean_environment() -> dict[str, str]:
    """Return the environment without PG* variables, which would point the server elsewhere;
    messages are in English.
    """
    return {"PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"}


def _enter_namespace(uid: int, gid: int) -> None:
    outer_uid, outer_gid = os.geteuid(), os.getegid()
    if _LIBC.unshare(_CLONE_NEWUSER) != 0:
        raise OSError(ctypes.get_errno(), "no user namespace")
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{uid} {outer_uid} 1")
    _write("/proc/self/gid_map", f"{gid} {outer_gid} 1")


def _write(path: str, text: str) -> None:
    descriptor = os.open(path, os.O_WRONLY)
    try:
        os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)
