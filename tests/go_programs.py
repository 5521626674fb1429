"""Programs in Go that tests use; each is built once for its sources, under build/.

That needs Go and the modules that the program imports. A caller catches NotHere where one of them
is missing, and says that it goes on without the program.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
BUILD_S = 600.0
_SOURCES = {".go", ".mod", ".sum"}


class NotHere(Exception):
    """A program cannot be built on this machine; the text says why."""


def built(source: Path, package: str = ".") -> Path:
    """Return the program that a directory's package builds; `tool`: the tool of its go.mod.

    Raises NotHere where it cannot be built, and AssertionError where it does not compile.
    """
    if shutil.which("go") is None:
        raise NotHere("go is missing: put Go 1.25 or later on the PATH")
    name = source.name
    sources = sorted(path for path in source.iterdir() if path.suffix in _SOURCES)
    digest = hashlib.sha256(b"\0".join(path.read_bytes() for path in sources)).hexdigest()
    directory = ROOT / "build" / name
    program = directory / digest[:16] / name
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / ".lock").open("w") as lock:  # tests run beside each other
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            fetched = _go(source, "mod", "download")
            if fetched.returncode != 0:
                reason = fetched.stderr.strip().splitlines()[-1:]
                raise NotHere(f"go cannot fetch modules: set GOPROXY to one it reaches: {reason}")
            made = _go(source, "build", "-trimpath", "-o", str(program), package)
            assert made.returncode == 0, f"{name} was not built:\n{made.stdout}{made.stderr}"
    return program


def _go(source: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["go", *arguments],
        cwd=source,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=BUILD_S,
        check=False,
    )
