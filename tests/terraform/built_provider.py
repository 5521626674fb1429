"""The provider, built once from the tree, and what of Terraform must be on the machine for it."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROVIDER = ROOT / "deploy/terraform/provider"
BUILT = ROOT / "build/terraform"
_MIRROR, _CONFIGURATION = "registry.terraform.io", "terraform.rc"
"""The output of the build: the provider, and the configuration by which Terraform finds it."""
BUILD_S = 1200.0
"""A first build fetches and compiles everything, maybe beside other work."""


def terraform_path() -> str:
    """Return the path of the binary; where there is none, skip with a text that says how to
    get it.
    """
    path = shutil.which("terraform")
    if path is None:
        pytest.skip("terraform is missing: put its binary, 1.11 or later, on the PATH")
    return path


def build_into(directory: Path) -> Path:
    """Return Terraform's configuration that finds a copy of the built provider in that directory.

    It is a copy, so that a build beside the tests changes nothing under them. Skips where it cannot
    be built.
    """
    if shutil.which("go") is None:
        pytest.skip("go is missing: put Go 1.25 or later on the PATH to build the provider")
    BUILT.mkdir(parents=True, exist_ok=True)
    # Workers of pytest share the folder.
    with (BUILT / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        _fetch_modules()
        made = _run(["make", "--no-print-directory", "terraform-provider"], ROOT)
        assert made.returncode == 0, f"the provider was not built:\n{made.stdout}{made.stderr}"
        shutil.copytree(BUILT / _MIRROR, directory / _MIRROR)
    configuration = directory / _CONFIGURATION
    text = (BUILT / _CONFIGURATION).read_text()
    configuration.write_text(text.replace(str(BUILT), str(directory)))
    return configuration


def _fetch_modules() -> None:
    fetched = _run(["go", "mod", "download"], PROVIDER)
    if fetched.returncode != 0:
        reason = fetched.stderr.strip().splitlines()[-1:]
        pytest.skip(
            f"go cannot fetch the provider's modules: set GOPROXY to one it reaches: {reason}"
        )


def _run(command: list[str], directory: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command,
        cwd=directory,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        timeout=BUILD_S,
        check=False,
    )
