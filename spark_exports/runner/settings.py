"""Settings of a runner: every default in one place, `PACKETBOAT_RUNNER_*` overrides them.

docs/settings.md describes each; a test holds the page to this module.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

PREFIX = "PACKETBOAT_RUNNER_"
LAKES = "PACKETBOAT_LAKES"
_OURS = "PACKETBOAT_"
_DRIVER = Path(__file__).resolve().parents[1] / "driver/__main__.py"
_FOR_DRIVERS = ("PACKETBOAT_EXPORT_FAIL_AT",)


class SettingsError(ValueError):
    """A variable of the environment or an option does not fit; the text names it."""


def _own_name() -> str:
    return f"{socket.gethostname()}/{os.getpid()}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunnerSettings:
    """One runner. `PACKETBOAT_RUNNER_CONCURRENCY=2` sets `concurrency`, and so on. Which platform
    and which credential is read by the SDK's client: PACKETBOAT_URL and so on."""

    lakes: Path
    """`PACKETBOAT_LAKES`: the file that lists the lakes, JSON or TOML."""
    name: str = field(default_factory=_own_name)
    """Name of the runner in the description of its runs."""
    concurrency: int = 1
    """Drivers that work at once."""
    lease_seconds: float = 60.0
    """A run whose runner sends nothing for this time goes to another runner; 10 to 600."""
    drain_seconds: float = 30.0
    """Time for which drivers may continue after SIGTERM before their runs go to other runners."""
    grace_seconds: float = 10.0
    """Time that a driver has to end after it was told to, before it is killed."""
    stall_seconds: float = 3_600.0
    """A driver that reports nothing for this time is ended, and its run is tried again; 0 for
    never."""
    state_dir: Path | None = None
    """Directory for the files of working drivers, for one runner only; by default a new temporary
    one."""
    driver_memory: str = ""
    """Java heap of a driver, such as `2g`, unless its lake sets it; by default a quarter of the
    machine's memory, from 1 to 4 GiB."""
    driver_nice: int = 10
    """Niceness of drivers that run Spark in their own process, 0 to 19."""
    metrics_host: str = "127.0.0.1"
    metrics_port: int = 0
    """Port for Prometheus; 0 serves no metrics."""
    metrics_old_names: bool = True
    """`PACKETBOAT_METRICS_OLD_NAMES`: whether metrics also appear under their names of 0.2."""
    log_level: str = "info"
    """`PACKETBOAT_LOG_LEVEL`."""
    driver: tuple[str, ...] = (sys.executable, "-P", str(_DRIVER))
    """The program of a driver."""

    @classmethod
    def from_environment(
        cls, environment: Mapping[str, str] = os.environ, **given: Any
    ) -> RunnerSettings:
        """Read the settings; values in `given`, from the command line, override the environment
        unless they are None. Raises SettingsError."""
        values = {name: value for name, value in given.items() if value is not None}
        kinds = {setting.name: str(setting.type) for setting in fields(cls)}
        for name in from_outside(cls):
            variable = variable_of(name)
            text = environment.get(variable)
            if not text or name in values:
                continue
            try:
                values[name] = _READERS[kinds[name]](text)
            except ValueError as error:
                raise SettingsError(f"{variable}={text!r}: {error}") from None
        if "lakes" not in values:
            raise SettingsError(f"which lakes there are is not said: --lakes FILE, or {LAKES}")
        settings = cls(**values)
        settings._check()
        return settings

    def _check(self) -> None:
        for name, least, most in (
            ("concurrency", 1, 64),
            ("lease_seconds", 10, 600),
            ("drain_seconds", 0, 86_400),
            ("grace_seconds", 0, 600),
            ("stall_seconds", 0, 86_400),
            ("driver_nice", 0, 19),
            ("metrics_port", 0, 65_535),
        ):
            if not least <= getattr(self, name) <= most:
                option = name.replace("_", "-")
                raise SettingsError(f"--{option} must be from {least} to {most}")
        if not 0 < len(self.name) <= 200:
            raise SettingsError("--name must have 1 to 200 characters")


def from_outside(settings: type[RunnerSettings]) -> list[str]:
    """Return the names of settings that the environment can set."""
    return [setting.name for setting in fields(settings) if setting.name != "driver"]


def variable_of(name: str) -> str:
    """Return the variable of the environment for a setting."""
    return _VARIABLES.get(name, PREFIX + name.upper())


def driver_environment(
    state_dir: Path, environment: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """Return the environment of a driver: the runner's, without the credential and other variables
    that only the runner needs."""
    kept = {
        name: value
        for name, value in environment.items()
        if name in _FOR_DRIVERS or not name.startswith(_OURS)
    }
    return kept | {"TMPDIR": str(state_dir), "PYTHONUNBUFFERED": "1"}


def _boolean(text: str) -> bool:
    if text not in ("0", "1"):
        raise ValueError("1 or 0")
    return text == "1"


def java_environment() -> Mapping[str, str]:
    """Return the environment, for the search for Java."""
    return os.environ


_VARIABLES = {
    "lakes": LAKES,
    "log_level": "PACKETBOAT_LOG_LEVEL",
    "metrics_old_names": "PACKETBOAT_METRICS_OLD_NAMES",
}

_READERS: dict[str, Any] = {
    "str": str,
    "int": int,
    "float": float,
    "bool": _boolean,
    "Path": Path,
    "Path | None": Path,
}
