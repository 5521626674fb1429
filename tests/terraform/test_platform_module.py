"""The thin module that has Terraform apply the manifests. Its provider is not everywhere: here each
object is kept as plain data instead, by the same resources in the same order. With the provider:
test_platform_cluster.py."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.terraform.built_provider import ROOT
from tests.terraform.folder import copy_to
from tests.terraform.manifests import LARGE, rendered
from tests.terraform.workspace import Workspace

MODULE = ROOT / "deploy/terraform/modules/platform"


def replaced(pattern: str, by: str, text: str) -> str:
    """At least one place must fit."""
    text, count = re.subn(pattern, by, text, flags=re.MULTILINE)
    assert count > 0, pattern
    return text


def as_data(text: str) -> str:
    """Return the module's text with resources that Terraform has built in."""
    text = replaced(r"  required_providers \{\n(    .*\n)+  \}\n", "", text)
    text = replaced(
        r"  (wait|timeouts|lifecycle|metadata|field_manager) \{\n(    .*\n)+  \}\n", "", text
    )
    text = replaced(r"^  (computed_fields|type) += .*\n", "", text)
    text = replaced(r"^  data( +)= .*$", r"  input\1= module.manifests.secrets[each.key]", text)
    text = replaced("kubernetes_(manifest|secret_v1)", "terraform_data", text)
    return replaced(r"^  manifest( +)=", r"  input\1=", text)


@pytest.fixture
def applied(tmp_path: Path) -> Workspace:
    module = copy_to(tmp_path) / "modules/platform"
    (module / "main.tf").write_text(as_data((module / "main.tf").read_text()))
    main = {"module": {"platform": {"source": f"../{module.relative_to(tmp_path)}", **LARGE}}}
    workspace = Workspace(tmp_path / "main", {}).write(json.dumps(main), "main.tf.json").init()
    workspace.command("apply", "-no-color", "-auto-approve")
    return workspace


def test_every_object_is_applied_once_and_the_second_plan_is_empty(
    applied: Workspace, tmp_path: Path
) -> None:
    made = {
        (value["kind"], value["metadata"]["name"])
        for address, values in applied.resources().items()
        if ".manifests." not in address
        for value in [values["input"]]
    }
    objects = rendered(tmp_path / "rendered", LARGE).objects
    assert made == {(each["kind"], each["metadata"]["name"]) for each in objects}
    assert applied.plan().empty


def test_every_variable_is_handed_on() -> None:
    assert (MODULE / "variables.tf").resolve() == (MODULE / "manifests/variables.tf").resolve()
    declared = re.findall(r'^variable "(\w+)"', (MODULE / "variables.tf").read_text(), re.M)
    handed_on = re.findall(r"^  (\w+) += var\.\1$", (MODULE / "main.tf").read_text(), re.M)
    assert handed_on == declared


def test_what_runs_waits_for_the_schema() -> None:
    text = (MODULE / "main.tf").read_text()
    for before, after in (
        ("namespace", "first"),
        ("namespace", "secrets"),
        ("first", "migration"),
        ("secrets", "migration"),
        ("migration", "workloads"),
    ):
        (block,) = re.findall(
            rf'^resource "kubernetes_\w+" "{after}" \{{\n(.*?)^\}}', text, re.M | re.S
        )
        assert re.search(rf"depends_on += \[.*kubernetes_\w+\.{before}\b", block)
    assert 'type   = "Complete"' in text
