"""Resources of the SDK: tenants, and who may do what in them."""

from __future__ import annotations

from typing import Any

from openapi.sdk.methods import Area, Given, Method
from openapi.sdk.work import GET, LIST

TAKEN = "Raise Conflict where the name is taken."
PUT = "; fields that are not given get their defaults."
NOBODY_LEFT = (
    "Raise Conflict where nobody would be left who may give roles, unless `force` is true."
)
ROTATED = (
    "The earlier secrets hold for `old_expires_in_seconds`, a day unless given; 0 ends them at "
    "once."
)
LIFETIME = Given("old_expires_in_seconds", kind="int | None", default="None")


def crud(
    noun: str, plural: str, create: str, put: str, delete: str, *, safe: str = "", **fields: Any
) -> tuple[Method, ...]:
    """Return the five methods of a noun; the three texts say more about what they do, and the
    fields belong to its creation and to its replacement."""
    kind = noun.capitalize()
    return (
        Method("create", f"create{kind}", f"{create} {TAKEN}", **fields),
        Method("get", f"get{kind}", f"Return the {noun}. {GET}"),
        Method("list", f"list{plural}", LIST),
        Method("put", f"put{kind}", f"Create or replace the {noun}{put}", safe=safe, **fields),
        Method("delete", f"delete{kind}", f"Delete the {noun}{delete}"),
    )


TENANTS = Area(
    "tenants",
    "Tenants",
    "Tenants, for operators.",
    crud(
        "tenant",
        "Tenants",
        "Create a tenant; with `owner` the answer has the first client and its secret, shown once.",
        PUT,
        ", which is `deleting` until all that it has is gone. Raise Conflict while it has topics, "
        "unless `force` is true.",
        settings="TenantSettings",
        safe='settings.get("owner") is None',
    ),
    named={"tenant": "name"},
    calls="tenancy",
)

CLIENTS = Area(
    "clients",
    "Clients",
    "Clients that get access tokens with a secret.",
    (
        *crud(
            "client",
            "Clients",
            "Create a client; `client_secret` of the answer is shown once.",
            f"{PUT} {NOBODY_LEFT}",
            f". {NOBODY_LEFT}",
            settings="ClientSettings",
        ),
        Method(
            "add_secret",
            "addClientSecret",
            f"Give the client another secret, `client_secret` of the answer, shown once. {ROTATED}",
            given=(LIFETIME,),
        ),
        Method(
            "remove_secret",
            "removeClientSecret",
            "Remove a secret, which `prefix` names by its beginning.",
        ),
        Method(
            "revoke_tokens",
            "revokeClientTokens",
            "Refuse all tokens that were issued to the client until now.",
            safe="True",
        ),
    ),
    calls="tenancy",
)

KEYS = Area(
    "keys",
    "Keys",
    "API keys.",
    (
        *crud(
            "key",
            "Keys",
            "Create a key. `scopes` are permissions, each alone or with a resource: `read`, "
            "`publish:topics/orders-*`. `key` of the answer is shown once.",
            f"{PUT} {NOBODY_LEFT}",
            f". {NOBODY_LEFT}",
            settings="KeySettings",
        ),
        Method(
            "rotate",
            "rotateKey",
            f"Give the key another secret, `key` of the answer, shown once. {ROTATED}",
            given=(LIFETIME,),
        ),
    ),
    calls="tenancy",
)

POLICIES = Area(
    "policies",
    "Policies",
    "Policies: who may do what.",
    crud(
        "policy",
        "Policies",
        "Give `members`, each `client:NAME` or `issuer:NAME#SUBJECT`, the role for `resources`: "
        "`*`, or `topics/NAME`, `subscriptions/NAME`, …; `*` stands for any characters.",
        f". {NOBODY_LEFT}",
        f". {NOBODY_LEFT}",
        given=(Given("resources", kind="Sequence[str]", default='("*",)'),),
    ),
    calls="tenancy",
)

ISSUERS = Area(
    "issuers",
    "Issuers",
    "Other issuers, whose tokens the tenant trusts.",
    crud(
        "issuer",
        "Issuers",
        "Trust an issuer. Its keys are found by OpenID Connect Discovery. Its tokens name the "
        "tenant's own audience (`whoami().token_audience`); another needs a proof.",
        PUT,
        f". {NOBODY_LEFT}",
        settings="IssuerSettings",
        fields=("audience",),
        positional=("audience",),
    ),
    calls="tenancy",
)

QUOTAS = Area(
    "quotas",
    "Quotas",
    "Quotas: the limits of a tenant.",
    (
        Method(
            "get",
            "getQuotas",
            "Return the own quotas, or those of a tenant, for operators.",
            own="getOwnQuotas",
        ),
        Method(
            "put",
            "putQuotas",
            "Set all limits that a tenant has of its own, for operators; limits that are not "
            "named are the platform's.",
            required=("limits",),
            given=(Given("limits", kind="Limits"),),
        ),
    ),
    calls="tenancy",
)

USAGE = Area(
    "usage",
    "Usage",
    "The usage of a tenant, per hour.",
    (
        Method(
            "list",
            "getUsage",
            "Iterate over hours not before `since` and before `until`, which have a zone: of a "
            "tenant, for operators, or of the own one.",
            own="getOwnUsage",
        ),
    ),
    calls="tenancy",
)

AUDIT = Area(
    "audit",
    "Audit",
    "The changes of a tenant, and their authors.",
    (
        Method(
            "list",
            "getAudit",
            "Iterate over the changes of a tenant, for operators, or of the own one, the newest "
            "first unless `order` says otherwise.",
            own="getOwnAudit",
            settings="AuditFilter",
            body="audit_query",
        ),
    ),
    calls="tenancy",
    base=True,
)

SERVER = Area(
    "server",
    "Server",
    "The installation: its health, its forwarders, and the caller of a token.",
    (
        Method(
            "who_am_i",
            "whoAmI",
            "Return the tenant and the subject of the token, with what the token allows.",
        ),
        Method(
            "forwarders",
            "listForwarders",
            "Return the processes that deliver messages, and their load.",
        ),
        Method("alive", "healthz", "Return once a process has answered.", result="None"),
        Method(
            "ready",
            "readyz",
            "Return where the process takes requests. Raise Unavailable where it does not.",
            result="None",
            safe="False",
        ),
    ),
    calls="tenancy",
)

AREAS = (TENANTS, CLIENTS, KEYS, POLICIES, ISSUERS, QUOTAS, USAGE, AUDIT, SERVER)
