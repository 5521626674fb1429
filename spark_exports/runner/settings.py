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
    """`PACKETBOAT_LAKES`: the file that says which lakes there are (JSON or TOML)."""
    name: str = field(default_factory=_own_name)
    """As runs show it."""
    concurrency: int = 1
    """Drivers at once."""
    lease_seconds: float = 60.0
    """A run whose runner was not heard of for so long is given to another; 10 to 600."""
    drain_seconds: float = 30.0
    """How long running drivers may go on after SIGTERM, before their runs are given back."""
    grace_seconds: float = 10.0
    """How long a driver has to end when told to, before it is killed."""
    stall_seconds: float = 3_600.0
    """A driver that says nothing for so long is ended; its run is tried again. 0: never."""
    state_dir: Path | None = None
    """For files of drivers while they work, one runner's own; none: a fresh one among temporary
    files."""
    driver_memory: str = ""
    """Java's heap, such as `2g`, of drivers whose lake says nothing else; empty: of the machine's
    memory a quarter, from 1 to 4 GiB."""
    driver_nice: int = 10
    """How much less urgent drivers with a local master are than other processes; 0 to 19."""
    metrics_host: str = "127.0.0.1"
    metrics_port: int = 0
    """Prometheus metrics are served there; 0: nowhere."""
    metrics_old_names: bool = True
    """`PACKETBOAT_METRICS_OLD_NAMES`: whether metrics are also told by their names of 0.2."""
    log_level: str = "info"
    """`PACKETBOAT_LOG_LEVEL`."""
    driver: tuple[str, ...] = (sys.executable, "-P", str(_DRIVER))
    """The program of a driver."""

    @classmethod
    def from_environment(
        cls, environment: Mapping[str, str] = os.environ, **given: Any
    ) -> RunnerSettings:
        """`given` (from the command line) wins where it is not None. Raises SettingsError."""
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
    """Names of settings that the environment may say."""
    return [setting.name for setting in fields(settings) if setting.name != "driver"]


def variable_of(name: str) -> str:
    """Of the environment."""
    return _VARIABLES.get(name, PREFIX + name.upper())


def driver_environment(
    state_dir: Path, environment: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """What a driver starts with: ours, without the credential and all else that is the runner's
    alone."""
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
    """What says where Java is."""
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
