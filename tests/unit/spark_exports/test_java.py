"""The choice of a Java among programs that print what a real one prints."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from spark_exports import java
from spark_exports.java import JavaMissing, java_of

SAYS = """\
#!/bin/sh
case "$*" in *jdk.incubator.vector*) {with_module};; esac
printf '    java.home = %s\\n    java.specification.version = %s\\n' "{home}" {version} >&2
echo "$@"
"""


@pytest.fixture(autouse=True)
def _bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hide the package, and a Spark that needs an old Java."""
    monkeypatch.setattr(java, "_PACKAGE", "no_such_package")
    monkeypatch.setattr(java, "version", lambda package: "4.2.1")


def runtime(home: Path, version: str, *, whole: bool = True) -> Path:
    """Return a directory whose `bin/java` prints that it is Java `version`."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    with_module = ":" if whole else "exit 1"
    program.write_text(SAYS.format(home=home, version=version, with_module=with_module))
    program.chmod(0o755)
    return home


def path_of(*homes: Path) -> str:
    return os.pathsep.join([*(str(home / "bin") for home in homes), "/usr/bin", "/bin"])


def test_java_home_comes_first(tmp_path: Path) -> None:
    home, other = runtime(tmp_path / "a", "17"), runtime(tmp_path / "b", "21")
    found = java_of({"JAVA_HOME": str(home), "PATH": path_of(other)}, tmp_path)
    assert found == (home, 17)
    assert not (tmp_path / "jre").exists()


@pytest.mark.parametrize("version", ["1.8", "11", "unknown"])
def test_one_that_will_not_do_is_passed_over(tmp_path: Path, version: str) -> None:
    old, new = runtime(tmp_path / "old", version), runtime(tmp_path / "new", "21")
    found = java_of({"JAVA_HOME": str(old), "PATH": path_of(new)}, tmp_path)
    assert found == (new, 21)


def test_the_home_is_what_java_says_and_not_where_it_was_found(tmp_path: Path) -> None:
    home = runtime(tmp_path / "real", "17")
    (tmp_path / "links" / "bin").mkdir(parents=True)
    (tmp_path / "links" / "bin" / "java").symlink_to(home / "bin" / "java")
    assert java_of({"PATH": path_of(tmp_path / "links")}, tmp_path).home == home


def test_the_package_is_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime(tmp_path / "packaged" / "java-runtime", "25", whole=False)
    (tmp_path / "packaged" / "__init__.py").write_text("raise AssertionError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(java, "_PACKAGE", "packaged")
    found = java_of({"PATH": "/nowhere"}, tmp_path / "state")
    assert found == (tmp_path / "state" / "jre", 25)


def test_a_runtime_without_the_module_is_not_asked_for_it(tmp_path: Path) -> None:
    home = runtime(tmp_path / "it's cut", "25", whole=False)
    found = java_of({"JAVA_HOME": str(home), "PATH": "/nowhere"}, tmp_path)
    command = [found.home / "bin" / "java", "--add-modules=jdk.incubator.vector", "-cp", "a b", ""]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert said == "-cp a b \n"


def test_the_wrapper_is_made_again_when_its_runtime_has_moved(tmp_path: Path) -> None:
    first, second = (runtime(tmp_path / name, "25", whole=False) for name in "ab")
    wrapper = tmp_path / "jre" / "bin" / "java"
    java_of({"JAVA_HOME": str(first)}, tmp_path)
    made = wrapper.stat().st_ino
    java_of({"JAVA_HOME": str(first)}, tmp_path)
    assert wrapper.stat().st_ino == made
    java_of({"JAVA_HOME": str(second)}, tmp_path)
    assert str(second) in wrapper.read_text()
    assert [path.name for path in wrapper.parent.iterdir()] == ["java"]


def test_without_any_the_error_says_what_was_found_and_what_to_do(tmp_path: Path) -> None:
    old = runtime(tmp_path / "old", "11")
    with pytest.raises(JavaMissing) as missing:
        java_of({"JAVA_HOME": str(tmp_path / "gone"), "PATH": path_of(old)}, tmp_path)
    for said in ("Java 17 or later", "gone/bin/java does not run", "is Java 11", "pip install"):
        assert said in str(missing.value)


@pytest.mark.parametrize("spark", ["4.0.5", "4.1.4"])
def test_an_older_spark_gets_no_java_that_it_does_not_start_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: str
) -> None:
    monkeypatch.setattr(java, "version", lambda package: spark)
    new, old = runtime(tmp_path / "new", "25"), runtime(tmp_path / "old", "21")
    found = java_of({"JAVA_HOME": str(new), "PATH": path_of(old)}, tmp_path)
    assert found == (old, 21)
    with pytest.raises(JavaMissing) as missing:
        java_of({"JAVA_HOME": str(new), "PATH": "/nowhere"}, tmp_path)
    for said in (
        f"Spark {spark} needs Java 17 to 22",
        "is Java 25",
        "pip install 'no_such_package<23'",
    ):
        assert said in str(missing.value)
