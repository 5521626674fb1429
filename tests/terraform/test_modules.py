"""Every module and example of deploy/terraform is formatted, valid, and passes its own tests."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.terraform.folder import SOURCE, copy_to, roots
from tests.terraform.workspace import TerraformFailed, Workspace


def test_all_of_it_is_formatted(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path, {})

    assert workspace.command("fmt", "-check", "-recursive", "-diff", str(SOURCE)) == ""


@pytest.mark.parametrize("root", roots(), ids=str)
def test_each_is_valid_and_passes_its_tests(
    root: Path, provider_configuration: Path, tmp_path: Path
) -> None:
    configuration = {"TF_CLI_CONFIG_FILE": str(provider_configuration)}
    workspace = Workspace(copy_to(tmp_path) / root, configuration)
    try:
        workspace.init()
    except TerraformFailed as why:
        missing = re.search(r"Finding (\S+) .*could not connect to registry", str(why), re.DOTALL)
        if missing is None:
            raise
        pytest.skip(f"{root}: {missing[1]} is missing: run this where its registry can be reached")

    assert "Success!" in workspace.command("validate", "-no-color")
    if any((workspace.directory / "tests").glob("*.tftest.hcl")):
        assert ", 0 failed" in workspace.command("test", "-no-color")


def test_a_module_has_tests_of_its_own() -> None:
    untested = [
        str(root)
        for root in roots()
        if root.parts[0] == "modules" and not any((SOURCE / root / "tests").glob("*.tftest.hcl"))
    ]

    # The thin wrapper has nothing but what the module of manifests computes.
    assert set(untested) <= {"modules/platform"}
