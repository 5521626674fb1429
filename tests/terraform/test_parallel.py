"""Many changes at once, of one apply and of several, end in what was asked for."""

from __future__ import annotations

from tests.terraform.conftest import MakeWorkspace

MANY = """
locals {
  names = toset([for number in range(8) : "PREFIX-${number}"])
}
resource "packetboat_topic" "it" {
  for_each   = local.names
  name       = each.key
  partitions = 1
}
resource "packetboat_subscription" "it" {
  for_each = local.names
  name     = each.key
  topic    = packetboat_topic.it[each.key].name
}
resource "packetboat_client" "it" {
  for_each = local.names
  name     = each.key
}
"""
WAIT_S = 300.0


def test_two_applies_at_once_and_all_of_each_at_once(workspace: MakeWorkspace) -> None:
    workspaces = [workspace(MANY.replace("PREFIX", name), name) for name in ("one", "two")]
    arguments = ("-no-color", "-auto-approve", "-parallelism=24")

    for command in ("apply", "destroy"):
        running = [each.start(command, *arguments) for each in workspaces]
        for process in running:
            printed, _ = process.communicate(timeout=WAIT_S)
            assert process.returncode == 0, printed
        if command == "apply":
            assert all(each.plan().empty for each in workspaces)
    assert all(each.resources() == {} for each in workspaces)
