"""The systemd units of `deploy/`, as systemd would read them, and what they start on a machine of
which the folders are elsewhere."""

from __future__ import annotations

import shlex
import socket
from collections.abc import Mapping
from pathlib import Path

SYSTEMD = Path(__file__).parents[2] / "deploy/systemd"
SYSTEM = SYSTEMD / "system"
Settings = dict[str, list[str]]
"""The values of each setting of a unit, in order, by its name."""


def units() -> list[Path]:
    return sorted(path for path in SYSTEM.iterdir() if path.is_file())


def services() -> list[Path]:
    return [path for path in units() if path.suffix == ".service"]


def named(unit: Path, instance: str = "1") -> str:
    """Return the name of a unit as it is started; a template has an instance."""
    return unit.name.replace("@.", f"@{instance}.")


def read(path: Path) -> Settings:
    """Return the settings in all sections of a unit, without those of its drop-in files."""
    found: Settings = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith(("#", "[")):
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


class Machine:
    """The real places of the folders that units name."""

    def __init__(self, root: Path, programs: Path) -> None:
        self._settings = root / "etc"
        self.state = root / "lib"
        self._settings.mkdir(parents=True)
        self._programs = programs

    def configure(self, name: str, changed: Mapping[str, str]) -> None:
        """Write an environment file: the example of `deploy/`, if there is one, with the
        changed values.
        """
        example = SYSTEMD / "etc" / name
        values = environment_file(example) if example.exists() else {}
        lines = [f"{variable}={value}" for variable, value in (values | dict(changed)).items()]
        (self._settings / name).write_text("\n".join(lines) + "\n", encoding="utf-8")

    def command(self, unit: Path, instance: str = "") -> list[str]:
        (line,) = read(unit)["ExecStart"]
        return shlex.split(self._here(line, instance))

    def environment(self, unit: Path, instance: str = "") -> dict[str, str]:
        """As systemd makes it: files go over what the unit says."""
        told = read(unit)
        found = dict(
            self._here(each, instance).split("=", 1) for each in told.get("Environment", ())
        )
        for each in told.get("EnvironmentFile", ()):
            path = Path(self._here(each.removeprefix("-"), instance))
            if path.exists() or not each.startswith("-"):
                found |= environment_file(path)
        return found

    def state_directory(self, unit: Path, instance: str) -> None:
        """Make the directories that systemd makes before it starts the unit."""
        for each in read(unit).get("StateDirectory", ()):
            path = self._here(f"/var/lib/{each}", instance)
            Path(path).mkdir(mode=0o700, parents=True, exist_ok=True)

    def _here(self, text: str, instance: str) -> str:
        places = {
            "/etc/packetboat": str(self._settings),
            "/opt/packetboat/bin": str(self._programs),
            "/var/lib/packetboat": str(self.state),
            "%i": instance,
            "%H": socket.gethostname(),
        }
        for place, here in places.items():
            text = text.replace(place, here)
        return text


def environment_file(path: Path) -> dict[str, str]:
    """Without quotes and continued lines, which ours do not have."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
