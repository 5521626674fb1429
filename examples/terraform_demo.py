"""Apply the tenant module's example to a running platform, and show that a second plan is empty.

    packetboat up                 # in one terminal
    make terraform-demo           # in another, as often as you like
    make terraform-demo-destroy   # takes away what it made

Finds the server by PACKETBOAT_URL and PACKETBOAT_TOKEN, else by .packetboat/client.env, which
`packetboat up` writes. Works on a copy of the example in build/terraform/demo, a folder for each
server, where the state stays. Exits 0 only if the second plan has nothing to do.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from rich.console import Console

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "deploy/terraform"
BUILT = ROOT / "build/terraform"
EXAMPLE = "examples/team"
_NOTHING_TO_DO, _CHANGES = 0, 2
console = Console(markup=False, highlight=False, soft_wrap=True)


class Stop(Exception):
    """The demo cannot go on; the text says why and what to do."""


def server() -> dict[str, str]:
    """Return the environment with PACKETBOAT_URL and PACKETBOAT_TOKEN."""
    names = ("PACKETBOAT_URL", "PACKETBOAT_TOKEN")
    if all(os.environ.get(name) for name in names):
        return {name: os.environ[name] for name in names}
    path = Path(os.environ.get("PACKETBOAT_DATA_DIR", ROOT / ".packetboat")) / "client.env"
    if not path.exists():
        raise Stop("set PACKETBOAT_URL and PACKETBOAT_TOKEN, or start `packetboat up` here")
    found = dict(re.findall(r"^export (\w+)=(.*)$", path.read_text(), re.MULTILINE))
    return {name: found[name] for name in names}


def folder_for(url: str) -> Path:
    """Return a fresh copy of the demo's files, with the state of earlier runs."""
    folder = BUILT / "demo" / re.sub(r"\W+", "-", url)
    for part in (EXAMPLE, "modules/tenant"):
        shutil.copytree(SOURCE / part, folder / part, dirs_exist_ok=True)
    # It pins the checksum of a provider that may have been built anew.
    (folder / EXAMPLE / ".terraform.lock.hcl").unlink(missing_ok=True)
    return folder / EXAMPLE


class Demo:
    """Steps that are told, shown and run."""

    def __init__(self, directory: Path, environment: dict[str, str]) -> None:
        self._directory = directory
        own = {name: value for name, value in os.environ.items() if not name.startswith("TF_")}
        configuration = {"TF_CLI_CONFIG_FILE": str(BUILT / "terraform.rc")}
        self._environment = own | environment | configuration

    def step(self, title: str, *arguments: str, codes: tuple[int, ...] = (0,)) -> int:
        """Return the exit code of terraform, one of `codes`; raises Stop for any other."""
        console.print(f"\n== {title}\n$ terraform {' '.join(arguments)}")
        plain = [] if console.is_terminal else ["-no-color"]
        done = subprocess.run(
            ["terraform", *arguments, *plain],
            cwd=self._directory,
            env=self._environment,
            check=False,
        )
        if done.returncode not in codes:
            raise Stop(f"terraform {arguments[0]} ended with {done.returncode}")
        return done.returncode

    def apply(self) -> None:
        """Ends with the plan that has nothing to do."""
        self.step("The provider and the module", "init", "-input=false")
        self.step("Create the objects", "apply", "-input=false", "-auto-approve")
        second = self.step(
            "The same again: nothing to do",
            "plan",
            "-input=false",
            "-detailed-exitcode",
            codes=(_NOTHING_TO_DO, _CHANGES),
        )
        if second == _CHANGES:
            raise Stop("the second plan has something to do")
        console.print(
            "\nThe second plan is empty. `make terraform-demo-destroy` takes all of it away."
        )

    def destroy(self) -> None:
        """Destroy the objects of the demo; messages in them stop it."""
        self.step("The provider and the module", "init", "-input=false")
        self.step("Destroy the objects", "destroy", "-input=false", "-auto-approve")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--destroy", action="store_true", help="take away what it made")
    destroy = parser.parse_args().destroy
    try:
        if shutil.which("terraform") is None:
            raise Stop("terraform is missing: put its binary, 1.11 or later, on the PATH")
        environment = server()
        url = environment["PACKETBOAT_URL"]
        demo = Demo(folder_for(url), environment)
        console.print(f"{EXAMPLE} of {SOURCE}, at {url}")
        demo.destroy() if destroy else demo.apply()
    except Stop as why:
        console.print(f"terraform demo: {why}")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
