"""Messages that nobody has acked do not go by a plan, unless it was said that they may."""

from __future__ import annotations

import pytest

from tests.e2e.installation import Installation
from tests.terraform.conftest import MakeWorkspace
from tests.terraform.workspace import TerraformFailed

CONFIGURATION = """
variable "force" {
  default = false
}
variable "ordered" {
  default = false
}
variable "read" {
  default = true
}
resource "packetboat_topic" "it" {
  name          = "NAME"
  partitions    = 1
  force_destroy = var.force
}
resource "packetboat_subscription" "it" {
  count         = var.read ? 1 : 0
  topic         = packetboat_topic.it.name
  name          = "NAME"
  ordered       = var.ordered
  force_destroy = var.force
}
"""
SUBSCRIPTION = "packetboat_subscription.it[0]"


def publish(installation: Installation, topic: str, count: int) -> None:
    with installation.session() as session:
        for number in range(count):
            answer = session.post(f"{installation.url}/topics/{topic}/messages", data=str(number))
            answer.raise_for_status()


def exists(installation: Installation, path: str) -> bool:
    with installation.session() as session:
        return session.get(f"{installation.url}/{path}").status_code == 200


def test_a_destroy_with_messages_at_stake_is_refused_and_says_how_many(
    workspace: MakeWorkspace, installation: Installation
) -> None:
    made = workspace(CONFIGURATION.replace("NAME", "at-stake"))
    made.apply()
    publish(installation, "at-stake", 3)

    for arguments in (["-destroy"], ["-var=read=false"]):
        with pytest.raises(TerraformFailed, match=r"3 messages") as refused:
            made.plan(*arguments)
        assert "force_destroy" in str(refused.value)
    assert exists(installation, "subscriptions/at-stake")

    # It has to be in the state, not only in the plan that destroys.
    made.apply("-var=force=true")
    plan = made.plan("-destroy", "-var=force=true")
    assert "3 messages" in plan.text
    made.apply_planned()
    assert not exists(installation, "topics/at-stake")


def test_a_replacement_says_what_forces_it_and_what_is_lost(
    workspace: MakeWorkspace, installation: Installation
) -> None:
    made = workspace(CONFIGURATION.replace("NAME", "replaced"))
    made.apply()
    assert made.plan("-var=ordered=true").replaced_because == {SUBSCRIPTION: ("ordered",)}
    publish(installation, "replaced", 2)

    with pytest.raises(TerraformFailed, match=r"2 messages") as refused:
        made.plan("-var=ordered=true")
    assert "ordered" in str(refused.value)

    made.apply("-var=force=true")
    plan = made.plan("-var=force=true", "-var=ordered=true")
    assert plan.changes == {SUBSCRIPTION: ("delete", "create")}
    assert plan.replaced_because == {SUBSCRIPTION: ("ordered",)}
    assert "2 messages" in plan.text
    made.apply_planned()
    assert made.plan("-var=force=true", "-var=ordered=true").empty


def test_messages_that_come_after_the_plan_are_not_lost(
    workspace: MakeWorkspace, installation: Installation
) -> None:
    made = workspace(CONFIGURATION.replace("NAME", "late"))
    made.apply()
    assert made.plan("-destroy").changes[SUBSCRIPTION] == ("delete",)
    publish(installation, "late", 1)

    with pytest.raises(TerraformFailed, match=r"not acked|messages"):
        made.apply_planned()

    assert exists(installation, "subscriptions/late")
    assert exists(installation, "topics/late")
