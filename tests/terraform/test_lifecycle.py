"""All things of a team: made once, changed in place, repaired, imported and destroyed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.installation import Installation
from tests.terraform.conftest import OpenWorkspace
from tests.terraform.folder import copy_to
from tests.terraform.workspace import Workspace


@pytest.fixture(scope="module")
def team(
    tmp_path_factory: pytest.TempPathFactory, open_workspace: OpenWorkspace
) -> Iterator[Workspace]:
    """Yield the team's example, applied; each test leaves it in that state."""
    directory = copy_to(tmp_path_factory.mktemp("team")) / "examples/team"
    workspace = open_workspace(directory).init()
    workspace.apply()
    yield workspace
    workspace.destroy()
    assert workspace.resources() == {}


def changed(workspace: Workspace, old: str, new: str) -> None:
    path = workspace.directory / "main.tf"
    text = path.read_text()
    assert text.count(old) == 1, old
    path.write_text(text.replace(old, new))


def test_a_second_plan_has_nothing_to_do(team: Workspace) -> None:
    assert team.plan().empty


def test_a_change_is_made_in_place(team: Workspace, installation: Installation) -> None:
    changed(team, "ack_deadline_seconds = 60", "ack_deadline_seconds = 45")
    assert team.plan().changes == {
        'module.shop.packetboat_subscription.this["shop-billing"]': ("update",)
    }

    team.apply_planned()

    with installation.session() as session:
        found = session.get(f"{installation.url}/subscriptions/shop-billing").json()
    assert found["ack_deadline_seconds"] == 45
    assert team.plan().empty


def test_what_was_changed_beside_terraform_is_shown_and_repaired(
    team: Workspace, installation: Installation
) -> None:
    url = f"{installation.url}/subscriptions/shop-fraud"
    with installation.session() as session:
        before = session.get(url).json()
        session.patch(url, json={"filter": "data.total > 1.0"}).raise_for_status()
        session.delete(f"{installation.url}/schedules/shop-close-of-day").raise_for_status()

        plan = team.plan()
        assert plan.changes == {
            'module.shop.packetboat_subscription.this["shop-fraud"]': ("update",),
            'module.shop.packetboat_schedule.this["shop-close-of-day"]': ("create",),
        }
        (shown,) = (change for address, change in plan.drift.items() if "subscription" in address)
        assert shown["before"]["filter"] == before["filter"]
        assert shown["after"]["filter"] == "data.total > 1.0"

        team.apply_planned()
        assert session.get(url).json()["filter"] == before["filter"]
        session.get(f"{installation.url}/schedules/shop-close-of-day").raise_for_status()
    assert team.plan().empty


def test_what_is_imported_needs_no_change(
    team: Workspace, open_workspace: OpenWorkspace, tmp_path: Path
) -> None:
    other = open_workspace(copy_to(tmp_path) / "examples/team")
    other.write((team.directory / "main.tf").read_text())
    names = {address: values["name"] for address, values in team.resources().items()}
    other.write("".join(map(import_block, names, names.values())), "imports.tf").init()

    plan = other.plan()

    assert plan.changes == {}
    assert f"{len(names)} to import, 0 to add, 0 to change, 0 to destroy" in plan.text
    other.apply_planned()
    assert other.plan().empty


def import_block(address: str, name: str) -> str:
    return f'import {{\n  to = {address}\n  id = "{name}"\n}}\n'


def test_what_is_destroyed_is_gone(
    open_workspace: OpenWorkspace, installation: Installation, tmp_path: Path
) -> None:
    workspace = open_workspace(copy_to(tmp_path) / "examples/exports").init()
    workspace.apply()
    assert workspace.plan().empty
    with installation.session() as session:
        session.get(f"{installation.url}/exports/lake-orders").raise_for_status()

        workspace.destroy()

        for thing in ("exports/lake-orders", "topics/lake-orders", "topics/lake-clicks"):
            assert session.get(f"{installation.url}/{thing}").status_code == 404
    assert set(workspace.plan().changes.values()) == {("create",)}


def test_secrets_of_a_webhook_are_shown_in_no_plan(
    open_workspace: OpenWorkspace, tmp_path: Path
) -> None:
    workspace = open_workspace(copy_to(tmp_path) / "examples/webhooks").init()
    first = workspace.plan("-var=api_key=the-first")
    workspace.apply_planned()
    assert workspace.plan("-var=api_key=the-first").empty
    # Told that its endpoint has not answered yet, `hooks-on-call` has a message.
    arguments = ("-var=api_key=the-second", "-var=force_destroy=true")
    second = workspace.plan(*arguments)
    assert second.changes['module.hooks.packetboat_subscription.this["hooks-erp"]'] == ("update",)
    workspace.apply_planned()
    signing = workspace.outputs()["signing_secrets"]["hooks-erp"]
    (secret,) = (each["secret"] for each in signing if each["kind"] == "v1")
    assert secret.startswith("whsec_")

    destroyed = workspace.destroy(*arguments)

    for text in (first.text, destroyed):
        assert "https://hooks.example.com/orders" in text  # all else of it is shown
    for text in (first.text, second.text, destroyed):
        for hidden in ("the-first", "the-second", secret):
            assert hidden not in text
