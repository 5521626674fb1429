"""A Debian 12 of the archive in a folder, for what has to be tried on a machine of its own."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

MIRROR = os.environ.get("PACKETBOAT_TEST_DEBIAN", "http://deb.debian.org/debian")
MAKE_S = 3600.0
CERTIFICATES = "/etc/ssl/certs/ca-certificates.crt"


def missing(*programs: str) -> list[str]:
    """Return the missing programs of these and of `make_debian`; `root` stands for an account."""
    wanted = ("debootstrap", *programs)
    found = [name for name in wanted if shutil.which(name) is None]
    return found + (["root"] if os.geteuid() else [])


def make_debian(tree: Path, *packages: str) -> None:
    """Make a minimal Debian with these packages. Raises CalledProcessError."""
    include = [f"--include={','.join(packages)}"] if packages else []
    command = ["debootstrap", "--variant=minbase", *include, "bookworm", str(tree), MIRROR]
    try:
        subprocess.run(command, stdout=subprocess.DEVNULL, timeout=MAKE_S, check=True)
    finally:
        # Some packages have it mounted, and nobody unmounts it.
        if (tree / "proc").is_mount():
            subprocess.run(["umount", str(tree / "proc")], check=True)


def certificates() -> Path | None:
    """Return the certificates by which this machine's pip knows its index, if it has some
    of its own.
    """
    found = os.environ.get("PIP_CERT")
    return Path(found) if found is not None else None
