from __future__ import annotations

from pathlib import Path

import pytest

from spark_exports.runner.settings import RunnerSettings, SettingsError, driver_environment

LAKES = {"PACKETBOAT_LAKES": "/etc/lakes.toml"}


def test_the_command_line_is_over_the_environment() -> None:
    environment = LAKES | {"PACKETBOAT_RUNNER_CONCURRENCY": "3", "PACKETBOAT_RUNNER_NAME": "one"}
    settings = RunnerSettings.from_environment(environment, name="two", concurrency=None)
    assert (settings.lakes, settings.concurrency, settings.name) == (
        Path("/etc/lakes.toml"),
        3,
        "two",
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CONCURRENCY", "0"),
        ("CONCURRENCY", "many"),
        ("LEASE_SECONDS", "1"),
        ("DRAIN_SECONDS", "-1"),
        ("DRIVER_NICE", "-5"),
        ("METRICS_PORT", "70000"),
    ],
)
def test_what_does_not_fit_is_named(name: str, value: str) -> None:
    with pytest.raises(SettingsError, match=name.lower().replace("_", "[-_]") + f"|{name}"):
        RunnerSettings.from_environment(LAKES | {f"PACKETBOAT_RUNNER_{name}": value})


def test_lakes_are_needed() -> None:
    with pytest.raises(SettingsError, match="PACKETBOAT_LAKES"):
        RunnerSettings.from_environment({})


def test_a_driver_gets_nothing_that_is_the_runners() -> None:
    environment = {
        "PATH": "/bin",
        "PACKETBOAT_CLIENT_SECRET": "s",
        "PACKETBOAT_TOKEN": "t",
        "PACKETBOAT_DATABASE_URL": "postgresql://u:p@h/d",
        "PACKETBOAT_LAKES": "/etc/lakes.toml",
    }
    given = driver_environment(Path("/state"), environment)
    assert given == {"PATH": "/bin", "TMPDIR": "/state", "PYTHONUNBUFFERED": "1"}
