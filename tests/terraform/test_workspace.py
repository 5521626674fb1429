"""The harness itself, with what terraform has built in: no provider, no server."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.terraform.workspace import TerraformFailed, Workspace

TRIVIAL = """
variable "word" {
  default = "one"
}
resource "terraform_data" "it" {
  input            = var.word
  triggers_replace = var.word == "three" ? [var.word] : ["same"]
}
output "word" {
  value = terraform_data.it.output
}
"""


def test_plans_outputs_state_and_failures_are_read_as_terraform_means_them(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path / "main", {}).write(TRIVIAL).init()

    assert workspace.plan().changes == {"terraform_data.it": ("create",)}
    workspace.apply_planned()
    assert workspace.outputs() == {"word": "one"}
    assert workspace.resources()["terraform_data.it"]["input"] == "one"
    assert workspace.plan().empty
    assert workspace.plan("-var=word=two").changes == {"terraform_data.it": ("update",)}
    replaced = workspace.plan("-var=word=three")
    assert replaced.changes == {"terraform_data.it": ("delete", "create")}
    assert replaced.replaced_because == {"terraform_data.it": ("triggers_replace",)}
    workspace.destroy()
    assert workspace.resources() == {}
    with pytest.raises(TerraformFailed, match="undeclared variable"):
        workspace.plan("-var=unknown=1")
