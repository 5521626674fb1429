"""The audit of the locked libraries for known vulnerabilities: `make audit`.

pip-audit reads the layers in `requirements/`, govulncheck the Go modules. Both ask databases on the
internet. Exit code 1: something was found. A library that could not be audited, because its data or
its tool is missing here, is named in capitals and ends nothing: a machine without a network
is no reason to fail, and never looks like a clean audit.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
TOOLS = ROOT / "build" / "audit"
PIP_AUDIT = "pip-audit==2.10.1"
GOVULNCHECK = "golang.org/x/vuln/cmd/govulncheck@v1.1.4"
GO_MODULES = (
    *("deploy/terraform/provider", "tests/checker", "tests/h2spec", "tests/terraform/kubernetes"),
)
TIMEOUT_S = 600
_LAST_CHARS = 400


class NotAudited(Exception):
    """The audit could not be made; the text says why."""


class Ran(NamedTuple):
    """The end of a command."""

    code: int
    out: str
    errors: str


Run = Callable[[Sequence[str | Path], Path], Ran]
Look = Callable[[], list[str]]
"""Function that returns the vulnerabilities it finds; it raises NotAudited."""


def run(command: Sequence[str | Path], directory: Path) -> Ran:
    """Run a command. Raises NotAudited if there is no such program, or if it does not end."""
    try:
        done = subprocess.run(
            command, cwd=directory, capture_output=True, text=True, timeout=TIMEOUT_S
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotAudited(str(error)) from error
    return Ran(done.returncode, done.stdout, done.stderr)


def of_layer(layer: Path, pip_audit: Path, run: Run = run) -> list[str]:
    """Return the vulnerabilities of the packages in a lock file. Raises NotAudited."""
    # With hashes and without pip, exactly the locked packages are audited, and nothing is
    # installed.
    asked = [pip_audit, "-r", layer, "--disable-pip", "--require-hashes", "-f", "json"]
    ran = run([*asked, "--progress-spinner", "off"], ROOT)
    try:
        packages = json.loads(ran.out)["dependencies"]
    except (ValueError, KeyError, TypeError):
        raise NotAudited(_end(ran)) from None
    unknown = [each["name"] for each in packages if "skip_reason" in each]
    if unknown:
        raise NotAudited(f"nothing is known of {', '.join(unknown)}")
    return [
        f"{each['name']} {each['version']}: {found['id']}, mended in {found['fix_versions']}"
        for each in packages
        for found in each["vulns"]
    ]


def of_go_module(module: Path, run: Run = run) -> list[str]:
    """Return the vulnerabilities that a module's code reaches. Raises NotAudited."""
    ran = run(["go", "run", GOVULNCHECK, "-format", "text", "./..."], module)
    if ran.code == 0:
        return []
    found = [line.strip() for line in ran.out.splitlines() if line.startswith("Vulnerability #")]
    if not found:
        raise NotAudited(_end(ran))
    return found


def installed_pip_audit(run: Run = run) -> Path:
    """Install pip-audit in an environment of its own; return its program. Raises NotAudited."""
    program = TOOLS / "bin" / "pip-audit"
    if not program.exists():
        for command in (
            [sys.executable, "-m", "venv", TOOLS],
            [TOOLS / "bin" / "pip", "install", "--quiet", PIP_AUDIT],
        ):
            ran = run(command, ROOT)
            if ran.code != 0:
                raise NotAudited(_end(ran))
    return program


def _end(ran: Ran) -> str:
    return (ran.errors or ran.out).strip()[-_LAST_CHARS:] or f"exit code {ran.code}"


def main() -> int:
    layers = sorted((ROOT / "requirements").glob("*.lock"))
    looks: list[tuple[str, Look]] = [
        (f"requirements/{layer.name}", partial(_locked, layer)) for layer in layers
    ]
    looks += [(module, partial(of_go_module, ROOT / module)) for module in GO_MODULES]
    return report(looks)


def _locked(layer: Path) -> list[str]:
    return of_layer(layer, installed_pip_audit())


def report(looks: Sequence[tuple[str, Look]]) -> int:
    """Prints what each look finds; the exit code."""
    code = 0
    for name, look in looks:
        try:
            found = look()
        except NotAudited as why:
            print(f"NOT AUDITED: {name}: {why}", flush=True)
            continue
        print(f"{name}: {'; '.join(found) or 'nothing known'}", flush=True)
        code = code or int(bool(found))
    return code


if __name__ == "__main__":
    sys.exit(main())
