"""Tenants that one operator makes by one configuration share nothing."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import requests

from tests.e2e.installation import Installation
from tests.terraform.conftest import OpenWorkspace
from tests.terraform.folder import copy_to


def token_of(installation: Installation, client: Mapping[str, str]) -> dict[str, str]:
    """Return the headers of a client of a team."""
    answer = requests.post(
        f"{installation.url}/oauth/token",
        auth=(client["client_id"], client["client_secret"]),
        data={"grant_type": "client_credentials"},
        timeout=60,
    )
    answer.raise_for_status()
    return {"Authorization": f"Bearer {answer.json()['access_token']}"}


def test_two_teams_have_the_same_names_and_nothing_in_common(
    open_workspace: OpenWorkspace,
    installation: Installation,
    operator: dict[str, str],
    tmp_path: Path,
) -> None:
    workspace = open_workspace(copy_to(tmp_path) / "examples/two-teams", operator).init()
    workspace.apply()
    assert workspace.plan().empty

    teams = workspace.outputs()
    harbour = token_of(installation, teams["harbour"]["radar"])
    pilots = token_of(installation, teams["harbour"]["pilots"])
    railway = token_of(installation, teams["railway"]["radar"])
    arrivals = f"{installation.url}/topics/arrivals/messages"
    with requests.Session() as session:
        session.post(arrivals, headers=harbour, json="ship").raise_for_status()
        session.post(arrivals, headers=railway, json="train").raise_for_status()
        # The backlog of each has its own message, and no more.
        seen = {}
        for name, headers in (("pilots", pilots), ("boards", railway)):
            pulled = session.get(
                f"{installation.url}/subscriptions/{name}/messages",
                params={"wait_seconds": 20},
                headers=headers,
            )
            pulled.raise_for_status()
            messages = pulled.json()["messages"]
            seen[name] = [message["data"] for message in messages]
            acks = {"ack_ids": [message["ack_id"] for message in messages]}
            url = f"{installation.url}/subscriptions/{name}/ack"
            session.post(url, json=acks, headers=headers).raise_for_status()
        assert seen == {"pilots": ["ship"], "boards": ["train"]}
        for name, headers in (("boards", pilots), ("pilots", railway)):
            foreign = session.get(f"{installation.url}/subscriptions/{name}", headers=headers)
            assert foreign.status_code in (403, 404)
        # The other team's things do not exist for a client, even one that may do everything.
        foreign = session.get(f"{installation.url}/subscriptions/pilots", headers=railway)
        assert foreign.status_code == 404
        # A change of one team is a change of that team.
        other = workspace.directory / "main.tf"
        other.write_text(other.read_text().replace("weight = 2", "weight = 3"))
        assert workspace.plan().changes == {"module.railway.packetboat_quota.this[0]": ("update",)}

    workspace.destroy()
    assert workspace.resources() == {}
