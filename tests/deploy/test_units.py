"""The systemd units: systemd understands them, they may do little, and they stop what they start in
time."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from gateway.configuration.settings import ServerSettings
from gateway.server import LAST_MARGIN_S
from spark_exports.runner.settings import RunnerSettings
from tests.deploy.unit_files import SYSTEM, SYSTEMD, environment_file, named, read, services, units

MOST_EXPOSED = 2.0
"""The limit of exposure, out of 10, in the score of systemd."""
ROLES = ("publish", "subscribe", "gateway", "scheduler")


def analyze(*arguments: str, units_in: Path = SYSTEM) -> subprocess.CompletedProcess[str]:
    program = shutil.which("systemd-analyze")
    if program is None:
        pytest.skip("units: systemd-analyze is missing (Debian: apt-get install systemd)")
    return subprocess.run(
        [program, *arguments],
        # The colon: and where systemd's own units are.
        env=os.environ | {"SYSTEMD_UNIT_PATH": f"{units_in}:", "SYSTEMD_COLORS": "0"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def complaints(unit: str, units_in: Path = SYSTEM) -> list[str]:
    said = analyze("verify", "--man=no", unit, units_in=units_in).stderr
    # The program is not installed where this runs.
    return [line for line in said.splitlines() if "/opt/packetboat" not in line]


@pytest.mark.parametrize("unit", units(), ids=lambda unit: unit.name)
def test_systemd_understands_it(unit: Path) -> None:
    assert complaints(named(unit)) == []


def test_a_boot_finds_an_order_to_start_all_of_it(tmp_path: Path) -> None:
    """All units are enabled: where there is no order, systemd leaves some out by chance."""
    shutil.copytree(SYSTEM, tmp_path, dirs_exist_ok=True)
    for unit in units():
        for wanting in read(unit).get("WantedBy", ()):
            wants = tmp_path / f"{wanting}.wants"
            wants.mkdir(exist_ok=True)
            (wants / named(unit)).symlink_to(f"../{unit.name}")
    assert complaints("packetboat.target", tmp_path) == []


@pytest.mark.parametrize("unit", services(), ids=lambda unit: unit.name)
def test_it_may_do_little(unit: Path) -> None:
    said = analyze("security", "--offline=true", "--no-pager", named(unit)).stdout
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", said)
    assert found, said
    assert float(found[1]) <= MOST_EXPOSED, said


def seconds(text: str) -> float:
    return float(text.removesuffix("s"))


@pytest.mark.parametrize("role", ROLES)
def test_a_server_has_the_time_that_it_drains(role: str) -> None:
    told = read(SYSTEM / f"packetboat-{role}@.service")
    assert seconds(told["TimeoutStopSec"][0]) > ServerSettings().drain_s + LAST_MARGIN_S


def test_a_runner_has_the_time_that_its_drivers_have() -> None:
    told = read(SYSTEM / "packetboat-export-runner.service")
    defaults = RunnerSettings(lakes=Path("lakes.toml"))
    assert seconds(told["TimeoutStopSec"][0]) > defaults.drain_seconds + defaults.grace_seconds


def test_units_of_servers_differ_in_their_role_alone() -> None:
    """Each change to one of these units is a change to all."""
    own = re.compile(r"^# (The instance|Other) .*\n|^Description=.*\n|.*LINK_ADVERTISE.*\n", re.M)
    texts = {role: SYSTEM / f"packetboat-{role}@.service" for role in ROLES}
    common = {
        own.sub("", path.read_text(encoding="utf-8")).replace(role, "ROLE")
        for role, path in texts.items()
    }
    assert len(common) == 1


def test_no_secret_is_in_the_examples() -> None:
    """A process whose secret was not filled in says so and does not start."""
    for path in sorted((SYSTEMD / "etc").iterdir()):
        for name, value in environment_file(path).items():
            if name.endswith(("_SECRET", "_KEYS", "_UID")):
                assert value in ("", "a:"), f"{path.name}: {name}"
