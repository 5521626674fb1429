"""A folder with a configuration, and the real terraform at work in it."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.terraform.built_provider import terraform_path

COMMAND_S = 300.0
"""The timeout of a command: far more than any needs; a hanging command is killed."""
_PLAN_FILE = "plan.bin"
_CHANGED = 2
"""The exit code of a plan that would change something."""


class TerraformFailed(Exception):
    """A command of terraform ended with an error; the text is all that it printed."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The changes that terraform plans.

    `changes`: the actions (`create`, `update`, `delete`, both for a replacement) by address,
    without what stays as it is. `drift`: what has changed beside terraform, by address, each
    `{"before": …, "after": …}`. `replaced_because`: the paths of attributes that force a
    replacement, by address. `text`: as terraform prints it, warnings too. `raw`: its JSON.
    """

    changes: dict[str, tuple[str, ...]]
    drift: dict[str, dict[str, Any]]
    replaced_because: dict[str, tuple[str, ...]]
    text: str
    raw: dict[str, Any]

    @property
    def empty(self) -> bool:
        """Whether nothing is to be done, not even to outputs."""
        outputs = self.raw.get("output_changes", {}).values()
        return not self.changes and all(output["actions"] == ["no-op"] for output in outputs)


class Workspace:
    """One root module with its state, and the environment its commands run in."""

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        """`environment` is added to this process's own, without any PACKETBOAT_* or TF_* of it."""
        self.directory = directory
        own = {k: v for k, v in os.environ.items() if not k.startswith(("PACKETBOAT_", "TF_"))}
        quiet = {"TF_IN_AUTOMATION": "1", "TF_INPUT": "0", "CHECKPOINT_DISABLE": "1"}
        self.environment = own | quiet | dict(environment)
        directory.mkdir(parents=True, exist_ok=True)

    def write(self, text: str, name: str = "main.tf") -> Workspace:
        """Replaces one file of the configuration."""
        (self.directory / name).write_text(text)
        return self

    def command(self, *arguments: str, codes: tuple[int, ...] = (0,)) -> str:
        """Run a command; return its output. Raises TerraformFailed for any other exit code."""
        done = subprocess.run(
            [terraform_path(), *arguments],
            cwd=self.directory,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMMAND_S,
            check=False,
        )
        if done.returncode not in codes:
            raise TerraformFailed(f"{' '.join(arguments)}: {done.returncode}\n{done.stdout}")
        return done.stdout

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a command without waiting for it, so that two can run at once."""
        return subprocess.Popen(
            [terraform_path(), *arguments],
            cwd=self.directory,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def init(self) -> Workspace:
        """Finds the provider and the modules."""
        self.command("init", "-no-color")
        return self

    def plan(self, *arguments: str) -> Plan:
        """Plan, and keep the plan in a file too, so that `apply_planned` does exactly that."""
        text = self.command(
            "plan",
            "-no-color",
            "-detailed-exitcode",
            f"-out={_PLAN_FILE}",
            *arguments,
            codes=(0, _CHANGED),
        )
        raw = json.loads(self.command("show", "-json", _PLAN_FILE))
        changes = {c["address"]: c["change"] for c in raw.get("resource_changes", [])}
        drift = {c["address"]: c["change"] for c in raw.get("resource_drift", [])}
        return Plan(
            changes={
                address: tuple(change["actions"])
                for address, change in changes.items()
                if change["actions"] not in (["no-op"], ["read"])
            },
            drift={
                address: {"before": change["before"], "after": change["after"]}
                for address, change in drift.items()
            },
            replaced_because={
                address: tuple(".".join(map(str, path)) for path in change["replace_paths"])
                for address, change in changes.items()
                if change.get("replace_paths")
            },
            text=text,
            raw=raw,
        )

    def apply(self, *arguments: str) -> str:
        """Plans and does it."""
        return self.command("apply", "-no-color", "-auto-approve", *arguments)

    def apply_planned(self) -> str:
        """Does what the last `plan` said."""
        return self.command("apply", "-no-color", _PLAN_FILE)

    def destroy(self, *arguments: str) -> str:
        """Destroy everything in the state."""
        return self.command("destroy", "-no-color", "-auto-approve", *arguments)

    def import_resource(self, address: str, name: str) -> str:
        """Takes what is there into the state."""
        return self.command("import", "-no-color", address, name)

    def outputs(self) -> dict[str, Any]:
        """Return the values of the outputs, sensitive ones too."""
        found = json.loads(self.command("output", "-json"))
        return {name: output["value"] for name, output in found.items()}

    def resources(self) -> dict[str, dict[str, Any]]:
        """Return the values in the state of each resource and data source, by address, of
        all modules.
        """
        shown = json.loads(self.command("show", "-json"))
        return _values_of(shown.get("values", {}).get("root_module", {}))


def _values_of(module: dict[str, Any]) -> dict[str, dict[str, Any]]:
    found = {each["address"]: each["values"] for each in module.get("resources", [])}
    for child in module.get("child_modules", []):
        found |= _values_of(child)
    return found
