"""Tenants, clients, keys, policies, issuers and quotas, as an operator has them by Terraform."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import requests
from packetboat.testing.faults import Fault, Faults
from packetboat.testing.proxy import FaultyProxy

from metadata.counts import BUILT_IN_LIMITS
from tests.e2e.installation import Installation
from tests.terraform.conftest import PROVIDER_BLOCK, MakeWorkspace, OpenWorkspace
from tests.terraform.workspace import TerraformFailed, Workspace

TENANT = """
variable "version_of_secrets" {
  default = null
}
resource "packetboat_tenant" "it" {
  name           = "NAME"
  display_name   = "Harbour authority"
  labels         = { plan = "small" }
  egress_allowed = ["hooks.internal:8443", "10.1.0.0/16"]
}
resource "packetboat_quota" "it" {
  tenant = packetboat_tenant.it.name
  limits = { topics = 10, publish_messages_per_second = 12.5, in_flight = 0 }
  weight = 0.5
}
resource "packetboat_client" "it" {
  tenant         = packetboat_tenant.it.name
  name           = "captain"
  secret_version = var.version_of_secrets
}
resource "packetboat_policy" "it" {
  tenant    = packetboat_tenant.it.name
  name      = "captains"
  role      = "owner"
  members   = ["client:${packetboat_client.it.name}"]
}
resource "packetboat_api_key" "it" {
  tenant         = packetboat_tenant.it.name
  name           = "radar"
  scopes         = ["read", "publish:topics/ships-*"]
  expires_at     = "2100-01-01T02:00:00+02:00"
  secret_version = var.version_of_secrets
}
resource "packetboat_issuer" "it" {
  tenant          = packetboat_tenant.it.name
  name            = "sso"
  issuer          = "https://id.example.com"
  required_claims = { hd = "example.com" }
}
data "packetboat_client" "it" {
  tenant = packetboat_tenant.it.name
  name   = packetboat_client.it.name
}
data "packetboat_quota" "it" {
  tenant = packetboat_quota.it.tenant
}
"""
KINDS = ("api_key", "client", "issuer", "policy", "quota", "tenant")
NAMES = {
    "api_key": "harbour/radar",
    "client": "harbour/captain",
    "issuer": "harbour/sso",
    "policy": "harbour/captains",
    "quota": "harbour",
    "tenant": "harbour",
}
"""The name by which each kind is imported."""


@pytest.fixture(scope="module")
def harbour(
    tmp_path_factory: pytest.TempPathFactory,
    open_workspace: OpenWorkspace,
    operator: dict[str, str],
) -> Iterator[Workspace]:
    """Yield a workspace of a tenant with one of each kind; each test leaves it so."""
    workspace = open_workspace(tmp_path_factory.mktemp("harbour"), operator)
    workspace.write(PROVIDER_BLOCK + TENANT.replace("NAME", "harbour")).init().apply()
    yield workspace
    workspace.destroy()
    assert workspace.resources() == {}


@pytest.fixture(scope="module")
def inside(
    installation: Installation, operator: dict[str, str], harbour: Workspace
) -> requests.Session:
    """Return a session of the operator inside that tenant."""
    asked = {"grant_type": "client_credentials", "tenant": "harbour"}
    answer = requests.post(
        f"{installation.url}/oauth/token",
        auth=(operator["PACKETBOAT_CLIENT_ID"], operator["PACKETBOAT_CLIENT_SECRET"]),
        data=asked,
        timeout=60,
    )
    session = requests.Session()
    session.headers["Authorization"] = f"Bearer {answer.json()['access_token']}"
    return session


def of(workspace: Workspace, kind: str) -> dict[str, object]:
    """Return the attributes of a resource in the state."""
    return workspace.resources()[f"packetboat_{kind}.it"]


def gets_a_token(installation: Installation, client_id: object, secret: object) -> bool:
    answer = requests.post(
        f"{installation.url}/oauth/token",
        auth=(str(client_id), str(secret)),
        data={"grant_type": "client_credentials"},
        timeout=60,
    )
    return answer.ok


def test_what_was_made_is_as_it_was_asked_for(
    harbour: Workspace, installation: Installation
) -> None:
    assert harbour.plan().empty
    made = harbour.resources()
    captain = made["packetboat_client.it"]
    assert gets_a_token(installation, captain["client_id"], captain["client_secret"])
    key = {"Authorization": f"Bearer {made['packetboat_api_key.it']['key']}"}
    whoami = requests.get(f"{installation.url}/whoami", headers=key, timeout=60).json()
    assert whoami["grants"] == ["publish:topics/ships-*", "read:*"]
    assert made["data.packetboat_client.it"]["client_id"] == captain["client_id"]
    quota = made["data.packetboat_quota.it"]
    assert (quota["limits"]["in_flight"], quota["in_force"]["in_flight"]) == (0, None)
    assert quota["in_force"]["publish_messages_per_second"] == 12.5


def test_what_is_imported_needs_no_change(
    harbour: Workspace, workspace: MakeWorkspace, operator: dict[str, str]
) -> None:
    other = workspace(TENANT.replace("NAME", "harbour"), environment=operator)
    blocks = (
        f'import {{\n  to = packetboat_{kind}.it\n  id = "{NAMES[kind]}"\n}}\n' for kind in KINDS
    )
    other.write("".join(blocks), "imports.tf")

    plan = other.plan()

    assert plan.changes == {}, plan.text
    assert f"{len(KINDS)} to import, 0 to add, 0 to change" in plan.text


def test_a_state_of_release_0_2_0_needs_no_change(harbour: Workspace) -> None:
    """The platform of 0.2.0 had no limit that its operator had not set, and its states say so."""
    path = harbour.directory / "terraform.tfstate"
    present = path.read_text()
    state = json.loads(present)
    quotas = [
        instance["attributes"]
        for resource in state["resources"]
        if resource["type"] == "packetboat_quota"
        for instance in resource["instances"]
    ]
    assert len(quotas) == 2, "the resource and the data source"
    for quota in quotas:
        assert quota["in_force"]["subscriptions"] == BUILT_IN_LIMITS["subscriptions"]
        quota["in_force"] |= dict.fromkeys(BUILT_IN_LIMITS.keys() - {"topics"})
    path.write_text(json.dumps(state))
    try:
        plan = harbour.plan()
    finally:
        path.write_text(present)
    assert plan.changes == {}, plan.text


def test_what_was_changed_beside_terraform_is_shown_and_repaired(
    harbour: Workspace, inside: requests.Session, installation: Installation
) -> None:
    url = installation.url
    inside.put(f"{url}/keys/radar", json={"scopes": ["read"]}).raise_for_status()
    viewer = {"role": "viewer", "members": ["client:nobody"], "resources": ["topics/a"]}
    inside.put(f"{url}/policies/captains?force=true", json=viewer).raise_for_status()
    inside.delete(f"{url}/issuers/sso").raise_for_status()

    plan = harbour.plan()

    assert plan.changes == {
        "packetboat_api_key.it": ("update",),
        "packetboat_policy.it": ("update",),
        "packetboat_issuer.it": ("create",),
    }
    assert plan.drift["packetboat_policy.it"]["after"]["role"] == "viewer"
    harbour.apply_planned()
    assert harbour.plan().empty
    assert inside.get(f"{url}/policies/captains").json()["role"] == "owner"


def test_what_somebody_changed_after_the_plan_is_not_overwritten(
    harbour: Workspace, inside: requests.Session, installation: Installation
) -> None:
    url = f"{installation.url}/clients/captain"
    inside.put(url, json={"display_name": "seen"}).raise_for_status()
    harbour.plan()
    inside.put(url, json={"display_name": "unseen"}).raise_for_status()

    with pytest.raises(TerraformFailed, match="changed by somebody else since the plan"):
        harbour.apply_planned()

    assert inside.get(url).json()["display_name"] == "unseen"
    harbour.apply()
    assert inside.get(url).json()["display_name"] == ""


def test_secrets_are_renewed_and_never_shown(
    harbour: Workspace, installation: Installation
) -> None:
    before, old_key = of(harbour, "client"), of(harbour, "api_key")["key"]

    plan = harbour.plan("-var=version_of_secrets=second")
    assert plan.changes == {
        "packetboat_api_key.it": ("update",),
        "packetboat_client.it": ("update",),
    }
    printed = plan.text + harbour.apply_planned()

    after, key = of(harbour, "client"), of(harbour, "api_key")["key"]
    assert after["client_secret"] != before["client_secret"]
    assert key != old_key
    for secret in (before["client_secret"], after["client_secret"]):
        assert gets_a_token(installation, after["client_id"], secret)  # both hold for a while
        assert str(secret) not in printed
    for shown in (old_key, key):
        bearer = {"Authorization": f"Bearer {shown}"}
        assert requests.get(f"{installation.url}/whoami", headers=bearer, timeout=60).ok
        assert str(shown) not in printed
    assert harbour.plan("-var=version_of_secrets=second").empty


def test_what_is_there_already_is_not_taken_over(
    harbour: Workspace, workspace: MakeWorkspace, operator: dict[str, str]
) -> None:
    other = workspace(
        'resource "packetboat_client" "it" {\n  tenant = "harbour"\n  name = "captain"\n}\n',
        environment=operator,
    )
    with pytest.raises(TerraformFailed) as refused:
        other.apply()
    assert "import packetboat_client.NAME harbour/captain" in " ".join(str(refused.value).split())
    assert harbour.plan("-var=version_of_secrets=second").empty


RENEWED = ("POST /clients/captain/secrets", "POST /keys/radar:rotate")
"""Requests that replace a lost secret."""


def drops_the_first(faults: Faults, line: str) -> None:
    """Lose the answer to the first request of that line, and none after it."""
    for seed in range(10_000):
        tried = Faults()
        tried.drop_replies(0.5, seed=seed, on=line)
        others = [each for each in RENEWED if each != line]
        lost = [bool(tried.fate(each).faults) for each in (line, line, line, *others)]
        if lost[0] and not any(lost[1:]):
            faults.drop_replies(0.5, seed=seed, on=line)
            return
    raise AssertionError("no such seed")


def test_lost_answers_leave_one_of_each_and_secrets_that_hold(
    workspace: MakeWorkspace, operator: dict[str, str], installation: Installation
) -> None:
    proxy = FaultyProxy(int(installation.url.rpartition(":")[2]))
    behind = operator | {"PACKETBOAT_URL": proxy.url}
    lossy = workspace(TENANT.replace("NAME", "lossy"), environment=behind)
    try:
        faults = proxy.begin()
        for path in ("tenants", "clients", "keys", "policies", "issuers"):
            drops_the_first(faults, f"POST /{path}")
        drops_the_first(faults, "PUT /tenants/lossy/quotas")
        lossy.apply()
        assert faults.counts[Fault.DROP_REPLY] == 6
        client = of(lossy, "client")
        assert gets_a_token(installation, client["client_id"], client["client_secret"])
        assert len(lossy.resources()["data.packetboat_client.it"]["secrets"]) == 1
        assert lossy.plan().empty

        faults = proxy.begin()
        drops_the_first(faults, "PUT /tenants/lossy")
        text = PROVIDER_BLOCK + TENANT.replace("NAME", "lossy")
        lossy.write(text.replace("Harbour authority", "Harbour"))
        lossy.apply()
        assert faults.counts[Fault.DROP_REPLY] == 1
        assert of(lossy, "tenant")["display_name"] == "Harbour"

        faults = proxy.begin()
        drops_the_first(faults, RENEWED[0])
        lossy.apply("-target=packetboat_client.it", "-var=version_of_secrets=second")
        assert faults.counts[Fault.DROP_REPLY] == 1
        renewed = of(lossy, "client")
        for secret in (client["client_secret"], renewed["client_secret"]):
            assert gets_a_token(installation, client["client_id"], secret)
    finally:
        proxy.begin()
        lossy.destroy()
        proxy.close()


def test_a_tenant_with_topics_is_destroyed_by_force_alone(
    workspace: MakeWorkspace, operator: dict[str, str], installation: Installation
) -> None:
    full = workspace(
        'variable "force" {\n  default = false\n}\n'
        'resource "packetboat_tenant" "it" {\n  name = "full"\n  force_destroy = var.force\n}\n',
        environment=operator,
    )
    full.apply()
    asked = {"grant_type": "client_credentials", "tenant": "full"}
    credential = (operator["PACKETBOAT_CLIENT_ID"], operator["PACKETBOAT_CLIENT_SECRET"])
    token = requests.post(
        f"{installation.url}/oauth/token", auth=credential, data=asked, timeout=60
    )
    bearer = {"Authorization": f"Bearer {token.json()['access_token']}"}
    made = requests.put(f"{installation.url}/topics/t", json={}, headers=bearer, timeout=60)
    made.raise_for_status()

    with pytest.raises(TerraformFailed, match="has 1 topics"):
        full.destroy()

    full.apply("-var=force=true")
    full.destroy("-var=force=true")
    assert full.resources() == {}
    full.apply()  # the name is free at once
    full.destroy()


WRONG = """
resource "packetboat_client" "it" {
  name   = "no/slash"
  labels = { "a key" = "x" }
}
resource "packetboat_policy" "it" {
  name    = "it"
  role    = "king"
  members = ["key:x"]
}
resource "packetboat_quota" "it" {
  tenant = "it"
  limits = { topics = -1 }
  weight = 0
}
resource "packetboat_api_key" "it" {
  name               = "it"
  scopes             = ["operate"]
  expires_at         = "tomorrow"
  old_secret_seconds = 99999999
}
"""
FOUND = (
    "name: has to match",
    'labels["a key"]: its name',
    "role: one of owner, admin",
    'members: "key:x"',
    "limits.topics: at least 0",
    "weight: more than 0",
    'scopes: "operate"',
    "expires_at: has to be a time",
    "old_secret_seconds: at most 2592000",
)


def test_what_is_outside_the_servers_limits_is_found_without_the_server(
    workspace: MakeWorkspace,
) -> None:
    nowhere = workspace(WRONG, environment={"PACKETBOAT_URL": "http://127.0.0.1:1"})
    printed = nowhere.command("validate", "-no-color", codes=(1,))
    for text in FOUND:
        assert text in printed


def test_what_only_the_server_finds_is_told_at_its_attribute(workspace: MakeWorkspace) -> None:
    wrong = workspace(
        'resource "packetboat_issuer" "it" {\n  name = "it"\n  issuer = "ftp://x"\n'
        '  audience = "a"\n}\n'
    )
    with pytest.raises(TerraformFailed, match=r'issuer += "ftp://x"'):
        wrong.apply()


def test_a_token_of_one_tenant_works_in_no_other(workspace: MakeWorkspace) -> None:
    elsewhere = workspace(
        'resource "packetboat_client" "it" {\n  tenant = "harbour"\n  name = "spy"\n}\n'
    )
    with pytest.raises(TerraformFailed, match='is of the tenant "dev"'):
        elsewhere.apply()
