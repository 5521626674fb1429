"""Resources of the SDK: tenants, and who may do what in them."""

from __future__ import annotations

from openapi.sdk.methods import Area, Given, Method
from openapi.sdk.work import GET, LIST

TAKEN = "Raise Conflict where the name is taken."
PUT = "fields that are not given get their defaults."
NOBODY_LEFT = (
    "Raise Conflict where nobody would be left who may give roles, unless `force` is true."
)
ROTATED = (
    "The earlier secrets hold for `old_expires_in_seconds`, a day unless given; 0 ends them at "
    "once."
)
LIFETIME = Given("old_expires_in_seconds", kind="int | None", default="None")

TENANTS = Area(
    "tenants",
    "Tenants",
    "Tenants, for operators.",
    (
        Method(
            "create",
            "createTenant",
            "Create a tenant; with `owner` the answer has the first client and its secret, shown "
            f"once. {TAKEN}",
            settings="TenantSettings",
        ),
        Method("get", "getTenant", f"Return the tenant. {GET}"),
        Method("list", "listTenants", LIST),
        Method(
            "put",
            "putTenant",
            f"Create or replace the tenant; {PUT}",
            settings="TenantSettings",
            safe='settings.get("owner") is None',
        ),
        Method(
            "delete",
            "deleteTenant",
            "Delete the tenant, which is `deleting` until all that it has is gone. Raise Conflict "
            "while it has topics, unless `force` is true.",
        ),
    ),
    named={"tenant": "name"},
)

CLIENTS = Area(
    "clients",
    "Clients",
    "Clients that get access tokens with a secret.",
    (
        Method(
            "create",
            "createClient",
            f"Create a client; `client_secret` of the answer is shown once. {TAKEN}",
            settings="ClientSettings",
        ),
        Method("get", "getClient", f"Return the client. {GET}"),
        Method("list", "listClients", LIST),
        Method(
            "put",
            "putClient",
            f"Create or replace the client; {PUT} {NOBODY_LEFT}",
            settings="ClientSettings",
        ),
        Method("delete", "deleteClient", f"Delete the client. {NOBODY_LEFT}"),
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
    calls="access",
)

KEYS = Area(
    "keys",
    "Keys",
    "API keys.",
    (
        Method(
            "create",
            "createKey",
            "Create a key. `scopes` are permissions, each alone or with a resource: `read`, "
            f"`publish:topics/orders-*`. `key` of the answer is shown once. {TAKEN}",
            settings="KeySettings",
        ),
        Method("get", "getKey", f"Return the key. {GET}"),
        Method("list", "listKeys", LIST),
        Method(
            "put",
            "putKey",
            f"Create or replace the key; {PUT} {NOBODY_LEFT}",
            settings="KeySettings",
        ),
        Method("delete", "deleteKey", f"Delete the key. {NOBODY_LEFT}"),
        Method(
            "rotate",
            "rotateKey",
            f"Give the key another secret, `key` of the answer, shown once. {ROTATED}",
            given=(LIFETIME,),
        ),
    ),
    calls="access",
)

POLICIES = Area(
    "policies",
    "Policies",
    "Policies: who may do what.",
    (
        Method(
            "create",
            "createPolicy",
            "Give `members`, each `client:NAME` or `issuer:NAME#SUBJECT`, the role for "
            "`resources`: `*`, or `topics/NAME`, `subscriptions/NAME`, …; `*` stands for any "
            f"characters. {TAKEN}",
            given=(Given("resources", kind="Sequence[str]", default='("*",)'),),
        ),
        Method("get", "getPolicy", f"Return the policy. {GET}"),
        Method("list", "listPolicies", LIST),
        Method(
            "put",
            "putPolicy",
            f"Create or replace the policy. {NOBODY_LEFT}",
            given=(Given("resources", kind="Sequence[str]", default='("*",)'),),
        ),
        Method("delete", "deletePolicy", f"Delete the policy. {NOBODY_LEFT}"),
    ),
    calls="access",
)

ISSUERS = Area(
    "issuers",
    "Issuers",
    "Other issuers, whose tokens the tenant trusts.",
    (
        Method(
            "create",
            "createIssuer",
            "Trust an issuer. Its keys are found by OpenID Connect Discovery. Its tokens name the "
            "tenant's own audience (`whoami().token_audience`); another needs a proof. " + TAKEN,
            settings="IssuerSettings",
            fields=("audience",),
            positional=("audience",),
        ),
        Method("get", "getIssuer", f"Return the issuer. {GET}"),
        Method("list", "listIssuers", LIST),
        Method(
            "put",
            "putIssuer",
            f"Create or replace the issuer; {PUT}",
            settings="IssuerSettings",
            fields=("audience",),
            positional=("audience",),
        ),
        Method("delete", "deleteIssuer", f"Delete the issuer. {NOBODY_LEFT}"),
    ),
    calls="access",
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
    calls="tenants",
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
    calls="tenants",
)

AREAS = (TENANTS, CLIENTS, KEYS, POLICIES, ISSUERS, QUOTAS, USAGE)
