"""Tenants and access: `packetboat tenants`, `clients`, `keys`, `policies`, `issuers`, `quotas`,
`usage`, `audit`."""

from __future__ import annotations

from typing import Annotated

import typer

from packetboat.cli.api import path
from packetboat.cli.arguments import File, Force, Labels, Limit, Name, Set, body, moment, wrong
from packetboat.cli.flags import (
    Algorithms,
    Audience,
    ClientDisplayName,
    ClientState,
    ExpiresAt,
    FirstOwner,
    Issuer,
    KeyState,
    Members,
    Resources,
    Role,
    Scopes,
    TenantDisplayName,
    TenantState,
    Weight,
)
from packetboat.cli.invocation import Invocation
from packetboat.cli.nouns import Noun, add_delete, add_set, add_verb, group
from packetboat.cli.secret_text import note_secret
from packetboat.cli.shared_options import add, commands

TENANT = Noun(
    "tenants", "tenant", ("name", "state", "display_name", "labels", "created_at"), "shop"
)
CLIENT = Noun("clients", "client", ("name", "client_id", "state", "last_used_at", "labels"), "shop")
KEY = Noun("keys", "key", ("name", "prefix", "scopes", "state", "expires_at", "last_used_at"), "ci")
POLICY = Noun("policies", "policy", ("name", "role", "members", "resources"), "shop")
ISSUER = Noun("issuers", "issuer", ("name", "issuer", "audience", "trust"), "sso")
AUDIT = ("at", "actor", "action", "resource", "status", "members", "request_id")
OldExpiresIn = Annotated[
    int | None,
    typer.Option(metavar="SECONDS", help="Time for which the old secret stays valid.", min=0),
]
From = Annotated[str | None, typer.Option("--from", help="A time, or an age.")]
To = Annotated[str | None, typer.Option("--to", help="A time, or an age.")]
Another = Annotated[str | None, typer.Option(help="Another tenant; for operators.")]

tenants: typer.Typer = group(TENANT, "Tenants of this installation; for operators.")
clients: typer.Typer = group(CLIENT, "Programs that get tokens with an id and a secret.")
keys: typer.Typer = group(KEY, "API keys.")
policies: typer.Typer = group(POLICY, "Roles of members on resources.")
issuers: typer.Typer = group(ISSUER, "Other issuers whose tokens are accepted.")
quotas: typer.Typer = commands("quotas", "Limits of a tenant.")
usage: typer.Typer = typer.Typer()
audit: typer.Typer = typer.Typer()


@add(tenants, "set", example="packetboat tenants set shop --owner root --display-name 'The shop'")
def set_tenant(
    context: typer.Context,
    name: Name,
    owner: FirstOwner = None,
    display_name: TenantDisplayName = None,
    state: TenantState = None,
    label: Labels = None,
    file: File = None,
    set_: Set = None,
) -> None:
    """Create a tenant, or replace its settings."""
    here = Invocation.of(context)
    first = {"name": owner} if owner else None
    wanted = body(file, set_, label, display_name=display_name, state=state, owner=first)
    here.output.record(here.api.put(path("tenants", name), wanted))


add_delete(
    tenants,
    TENANT,
    "Delete a tenant; `--force` even if it has topics.",
    force=True,
    end="is being deleted",
    example="delete shop --force",
)

add_set(
    clients,
    CLIENT,
    "Create a client, whose secret is shown only once, or replace its settings.",
    "set shop --display-name 'The shop'",
    secret="client_secret",
    display_name=ClientDisplayName,
    state=ClientState,
)


@add(clients, "add-secret", example="packetboat clients add-secret shop --old-expires-in 3600")
def add_secret(context: typer.Context, name: Name, old_expires_in: OldExpiresIn = None) -> None:
    """Create a second secret, shown only once; both are valid for a while."""
    _another(context, path("clients", name, "secrets"), old_expires_in, "client_secret")


@add(clients, "remove-secret", example="packetboat clients remove-secret shop PREFIX")
def remove_secret(
    context: typer.Context,
    name: Name,
    prefix: Annotated[
        str, typer.Argument(metavar="PREFIX", help="First characters of the secret.")
    ],
    force: Force = False,
) -> None:
    """Remove a secret: it is refused from now on."""
    here = Invocation.of(context)
    here.api.delete(path("clients", name, "secrets", prefix), force=force or None)
    here.output.note("The secret is removed.")


add_verb(
    clients,
    CLIENT,
    "revoke_tokens",
    "Revoke all access tokens that the client got until now.",
    name="revoke-tokens",
)
add_delete(clients, CLIENT, "Delete a client; `--force` even if it is the last owner.", force=True)

add_set(
    keys,
    KEY,
    "Create a key, which is shown only once, or replace its settings.",
    "set ci --scope read --scope 'publish:topics/orders-*'",
    secret="key",
    scopes=Scopes,
    expires_at=ExpiresAt,
    state=KeyState,
)


@add(keys, "rotate", example="packetboat keys rotate ci --old-expires-in 3600")
def rotate(context: typer.Context, name: Name, old_expires_in: OldExpiresIn = None) -> None:
    """Create a new secret for a key; it is shown only once."""
    _another(context, path("keys", name, verb="rotate"), old_expires_in, "key")


add_delete(keys, KEY, "Delete a key; `--force` even if it is the last administrator's.", force=True)

add_set(
    policies,
    POLICY,
    "Create a policy, or replace it.",
    "set shop --role publisher --member client:shop --resource 'topics/orders-*'",
    force=True,
    role=Role,
    members=Members,
    resources=Resources,
)
add_delete(
    policies, POLICY, "Delete a policy; `--force` even if it is the last owner's.", force=True
)

add_set(
    issuers,
    ISSUER,
    "Trust an issuer, or change its settings.",
    "set ci --issuer https://token.actions.githubusercontent.com",
    issuer=Issuer,
    audience=Audience,
    algorithms=Algorithms,
)
add_delete(
    issuers,
    ISSUER,
    "Stop trusting an issuer; `--force` even if it is the last owner's.",
    force=True,
)


@add(quotas, "get", example="packetboat quotas get")
def get_quotas(context: typer.Context, tenant: Another = None) -> None:
    """Show the limits; null means no limit."""
    here = Invocation.of(context)
    here.output.record(here.api.get(_of(tenant, "quotas")))


@add(
    quotas, "set", example="packetboat quotas set shop topics=100 publish_messages_per_second=5000"
)
def set_quotas(
    context: typer.Context,
    tenant: Annotated[str, typer.Argument(metavar="TENANT", help="Whose.")],
    limits: Annotated[
        list[str] | None,
        typer.Argument(metavar="LIMIT=NUMBER…", help="All of them: the rest is as by default."),
    ] = None,
    weight: Weight = None,
) -> None:
    """Say what a tenant may use; for operators."""
    here = Invocation.of(context)
    wanted: dict[str, object] = {"limits": dict(_limit(each) for each in limits or ())}
    if weight is not None:
        wanted["weight"] = weight
    here.output.record(here.api.put(path("tenants", tenant, "quotas"), wanted))


@add(usage, "usage", example="packetboat usage --from 7d --metric requests")
def show_usage(
    context: typer.Context,
    from_: From = None,
    to: To = None,
    metric: Annotated[str | None, typer.Option(help="Only this metric.")] = None,
    tenant: Another = None,
    limit: Limit = None,
) -> None:
    """Show the usage of a tenant, per hour."""
    here = Invocation.of(context)
    query = {"from": moment(from_) if from_ else None, "to": moment(to) if to else None}
    rows = here.api.pages(_of(tenant, "usage"), "usage", limit=limit, metric=metric, **query)
    here.output.rows(rows, "hour", "metric", "value")


@add(audit, "audit", example="packetboat audit --from 2h --actor client:shop")
def show_audit(
    context: typer.Context,
    from_: From = None,
    to: To = None,
    actor: Annotated[str | None, typer.Option(help="An actor, such as client:shop.")] = None,
    action: Annotated[str | None, typer.Option(help="An action, such as deleteTopic.")] = None,
    resource: Annotated[
        str | None, typer.Option(help="This resource and everything below it.")
    ] = None,
    oldest: Annotated[bool, typer.Option("--oldest", help="Show the oldest first.")] = False,
    tenant: Another = None,
    limit: Limit = 100,
) -> None:
    """Show who changed which resource, newest first."""
    here = Invocation.of(context)
    query = {
        "from": moment(from_) if from_ else None,
        "to": moment(to) if to else None,
        "actor": actor,
        "action": action,
        "resource": resource,
        "order": "oldest" if oldest else None,
    }
    rows = here.api.pages(_of(tenant, "audit"), "entries", limit=limit, **query)
    here.output.rows(rows, *AUDIT)


def _another(context: typer.Context, where: str, old_expires_in: int | None, secret: str) -> None:
    """Create another secret, which is a member of the answer."""
    here = Invocation.of(context)
    made = here.api.post(where, body(old_expires_in_seconds=old_expires_in))
    here.output.record(made)
    note_secret(here.output, made.get(secret))


def _of(tenant: str | None, what: str) -> str:
    """Return the path of a part of a tenant, or of the own one."""
    return path(what) if tenant is None else path("tenants", tenant, what)


def _limit(text: str) -> tuple[str, float]:
    name, _, number = text.partition("=")
    try:
        value = float(number)
    except ValueError:
        raise wrong(f"{text!r} is not LIMIT=NUMBER") from None
    return name, int(value) if value.is_integer() else value
