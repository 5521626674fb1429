"""Clients, keys, policies and trusted issuers of a tenant."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType, field

from openapi.common import (
    CONFLICT,
    ETAG,
    FORBIDDEN_OR_FULL,
    IF_MATCH,
    OUTCOME_UNKNOWN,
    CreatedAt,
    DisplayName,
    Labels,
    NameOfPath,
    NextPageToken,
    ShownLabels,
    UpdatedAt,
    created,
)
from openapi.contract import (
    Answer,
    Body,
    Header,
    Operation,
    Parameter,
    Success,
    no_content,
    ok,
    table,
)

MAX_CLAIM_CHARS = 255
MAX_REQUIRED_CLAIMS = 16
_KINDS = "topics|subscriptions|schemas|schedules|snapshots|locks|jobs|pools|exports"
_NAMED = r"[^\u0000-\u001f\u007f]+"
CLAIM = r"[A-Za-z0-9_:/.-]{1,128}"
"""The names that a claim may have, as a regular expression."""

State = Literal["active", "disabled"]
Role = Literal["owner", "admin", "publisher", "subscriber", "viewer"]
Algorithm = Literal[
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"
]
"""All have public keys: who can only check a token cannot make one."""
Trust = Literal["audience", "document", "operator", "unproved", "withdrawn"]
Scope = Annotated[
    str,
    Meta(
        max_length=256,
        extra_json_schema={
            "pattern": (
                "^(publish|consume|lock|read|manage|administer)"
                rf"(:(\*|({_KINDS})/{_NAMED}))?$"
            )
        },
    ),
]
Member = Annotated[
    str,
    Meta(
        max_length=256,
        extra_json_schema={
            "pattern": rf"^(client:{_NAMED}|issuer:[^#\u0000-\u001f\u007f]+#{_NAMED})$"
        },
    ),
]
Resource = Annotated[
    str,
    Meta(max_length=256, extra_json_schema={"pattern": rf"^(\*|({_KINDS})/{_NAMED})$"}),
]
"""Servers check scopes, members and resources themselves, with refusals that say the rule."""


class RoleGiven(Answer):
    """A role that a policy gives."""

    role: Role
    """The role, whose permissions hold on the resources."""
    resources: list[str]
    """The resources that the role is for, as in the policy."""
    policy: str
    """The name of the policy."""


class WhoAmI(Answer):
    """The holder of a token, with what the token allows."""

    tenant: str
    """The tenant's name."""
    subject: str
    """The caller, as audits name it: `client:NAME`, `key:NAME`, `issuer:NAME#SUBJECT`,
    `operator:NAME` or `dev`."""
    roles: list[RoleGiven]
    """The roles that the tenant's policies give this subject."""
    grants: list[str]
    """Permissions of the token, each written as a scope of an API key, `permission:resource`."""
    token_audience: str
    """The audience that is this tenant's alone, for tokens of issuers that it trusts."""
    expires_at: datetime | None
    """The end of the token; null for a token without an end."""


class SecretShown(Answer):
    """A secret, by its first characters."""

    prefix: str
    """The first characters of the secret, after the prefix that all of its kind have."""
    created_at: CreatedAt
    expires_at: datetime | None
    """The time from which it is refused; null: never."""


class ClientBody(Body):
    """A client as a whole."""

    name: NameOfPath | UnsetType = UNSET
    display_name: DisplayName = ""
    """A name for people."""
    state: State = "active"
    """The secrets and tokens of a `disabled` client are refused."""
    labels: Labels = {}


class Client(Answer):
    """A program that gets access tokens with a secret."""

    DESCRIBED_BY = ClientBody

    name: str
    """The name of the client."""
    client_id: str
    """The id by which the client gets tokens."""
    display_name: str
    state: State
    labels: ShownLabels
    secrets: list[SecretShown]
    """The secrets that hold, of which a rotation leaves two for a time."""
    tokens_valid_from: datetime | None
    """Tokens issued before are refused; null: none was revoked."""
    created_at: CreatedAt
    updated_at: UpdatedAt
    last_used_at: datetime | None
    """The time at which it last got a token; null: never."""


class ClientPage(Answer):
    """One page of clients."""

    clients: list[Client]
    """The clients of this page, by name."""
    next_page_token: NextPageToken


class ClientMade(Client):
    """A client with its secret."""

    client_secret: str
    """Shown here and never again."""


class KeyBody(Body):
    """An API key as a whole."""

    scopes: Annotated[list[Scope], Meta(min_length=1, max_length=100)]
    """All that it may do: permissions, each alone or with a resource: `read`,
    `publish:topics/orders-*`."""
    name: NameOfPath | UnsetType = UNSET
    expires_at: datetime | None = None
    """The time from which the key is refused (RFC 3339); null: never."""
    state: State = "active"
    """A `disabled` key is refused."""
    labels: Labels = {}


class Key(Answer):
    """An API key, without the key itself."""

    DESCRIBED_BY = KeyBody

    name: str
    """The name of the key."""
    key_id: str
    """The part that is the same in all secrets of this key."""
    prefix: str
    """The first characters of the key."""
    scopes: list[str]
    state: State
    expires_at: datetime | None
    labels: ShownLabels
    secrets: list[SecretShown]
    """The keys that hold, of which a rotation leaves two for a time."""
    created_at: CreatedAt
    updated_at: UpdatedAt
    last_used_at: datetime | None
    """The time of its last use; null: never."""


class KeyPage(Answer):
    """One page of API keys."""

    keys: list[Key]
    """The keys of this page, by name."""
    next_page_token: NextPageToken


class KeyMade(Key):
    """An API key, with the key itself."""

    key: str
    """Shown here and never again."""


class PolicyBody(Body):
    """A policy as a whole."""

    role: Role
    """The role of the members: each has its permissions on the resources."""
    members: Annotated[list[Member], Meta(min_length=1, max_length=500)]
    """`client:NAME`, or `issuer:NAME#SUBJECT` for what an issuer says; `*` stands for any
    characters."""
    resources: Annotated[list[Resource], Meta(min_length=1, max_length=100)] = field(
        default_factory=lambda: ["*"]
    )
    """`*` for everything, or `topics/NAME`, `subscriptions/NAME`, `schemas/NAME`,
    `schedules/NAME`, `snapshots/NAME`, `locks/NAME`, `jobs/NAME`, `pools/NAME`, `exports/NAME`;
    `*` stands for any characters."""
    name: NameOfPath | UnsetType = UNSET
    labels: Labels = {}


class Policy(Answer):
    """A role, with its members and the resources that it is for."""

    DESCRIBED_BY = PolicyBody

    name: str
    """The name of the policy."""
    role: Role
    members: list[str]
    resources: list[str]
    labels: ShownLabels
    created_at: CreatedAt
    updated_at: UpdatedAt


class PolicyPage(Answer):
    """One page of policies."""

    policies: list[Policy]
    """The policies of this page, by name."""
    next_page_token: NextPageToken


class IssuerBody(Body):
    """A trusted issuer as a whole."""

    issuer: Annotated[str, Meta(max_length=512)]
    """The `iss` of its tokens; its keys are found by it (OpenID Connect Discovery)."""
    audience: Annotated[str, Meta(min_length=1, max_length=MAX_CLAIM_CHARS)] | UnsetType = UNSET
    """The `aud` that its tokens must name. Left out, it is the tenant's own (`token_audience`);
    another needs a proof, else 422 `issuer-unproved`."""
    algorithms: Annotated[list[Algorithm], Meta(min_length=1, max_length=10)] = field(
        default_factory=lambda: ["RS256"]
    )
    """The algorithms that may sign its tokens."""
    subject_claim: Annotated[str, Meta(extra_json_schema={"pattern": f"^{CLAIM}$"})] = "sub"
    """The claim that says who it is."""
    required_claims: Annotated[
        dict[str, str],
        Meta(
            max_length=MAX_REQUIRED_CLAIMS,
            extra_json_schema={
                "additionalProperties": {"type": "string", "maxLength": MAX_CLAIM_CHARS}
            },
        ),
    ] = {}
    """Claims that must have these values."""
    name: NameOfPath | UnsetType = UNSET
    labels: Labels = {}


class Issuer(Answer):
    """Another issuer, whose tokens the tenant trusts."""

    DESCRIBED_BY = IssuerBody

    name: str
    """The name of the issuer in the tenant."""
    issuer: str
    audience: str
    """The `aud` that its tokens must name."""
    algorithms: list[str]
    subject_claim: str
    required_claims: dict[str, str]
    labels: ShownLabels
    trust: Trust
    """The proof that its tokens are this tenant's. audience: they name the tenant's own audience;
    document: a document of the issuer names the tenant; operator: the installation's operator
    allowed it; unproved: it was registered before a proof was asked for, and holds while no
    other tenant's claim fits a token; withdrawn: the operator took it back, and no token holds."""
    created_at: CreatedAt
    updated_at: UpdatedAt


class IssuerPage(Answer):
    """One page of issuers."""

    issuers: list[Issuer]
    """The issuers of this page, by name."""
    next_page_token: NextPageToken


class Rotation(Body):
    """A request for a new secret."""

    old_expires_in_seconds: Annotated[int, Meta(ge=0, le=2_592_000)] = 86_400
    """Seconds that the present secret holds beside the new one; 0: it ends at once."""


FORCE_OWNER = Parameter(
    "force_owner",
    "force",
    "query",
    "Also when nobody is left who may give others their roles.",
    bool,
    default=False,
)

OPERATIONS = table(
    "access",
    Operation(
        id="whoAmI",
        route="GET /whoami",
        needs="self",
        summary="Describe the caller of a token",
        description=(
            "The tenant and subject of the token that the request came with, and what it may "
            "do. Any valid token may ask, also one that may do nothing else."
        ),
        answers=(
            ok(WhoAmI, "Its bearer.", Header("Cache-Control", "`no-store`.", component=False)),
        ),
        never=(OUTCOME_UNKNOWN,),
    ),
    Operation(
        id="listClients",
        route="GET /clients",
        needs="administer *",
        summary="List clients",
        paged=True,
        answers=(ok(ClientPage, "One page, by name."),),
    ),
    Operation(
        id="createClient",
        route="POST /clients",
        needs="administer *",
        summary="Create a client",
        body=ClientBody,
        answers=(created(ClientMade, "The client."),),
        problems=(
            FORBIDDEN_OR_FULL,
            CONFLICT,
        ),
    ),
    Operation(
        id="getClient",
        route="GET /clients/{name}",
        needs="administer *",
        summary="Get a client",
        answers=(ok(Client, "The client.", ETAG),),
    ),
    Operation(
        id="putClient",
        route="PUT /clients/{name}",
        needs="administer *",
        summary="Create or replace a client",
        parameters=(
            IF_MATCH,
            FORCE_OWNER,
        ),
        body=ClientBody,
        answers=(
            ok(Client, "The client as it is now.", ETAG),
            created(ClientMade, "The client, which was not there."),
        ),
        problems=(
            FORBIDDEN_OR_FULL,
            CONFLICT,
        ),
    ),
    Operation(
        id="deleteClient",
        route="DELETE /clients/{name}",
        needs="administer *",
        summary="Delete a client",
        parameters=(
            IF_MATCH,
            FORCE_OWNER,
        ),
        answers=(no_content("It is gone."),),
        problems=(CONFLICT,),
    ),
    Operation(
        id="listKeys",
        route="GET /keys",
        needs="administer *",
        summary="List keys",
        paged=True,
        answers=(ok(KeyPage, "One page, by name."),),
    ),
    Operation(
        id="createKey",
        route="POST /keys",
        needs="administer *",
        summary="Create an API key",
        body=KeyBody,
        answers=(created(KeyMade, "The key."),),
        problems=(
            FORBIDDEN_OR_FULL,
            CONFLICT,
        ),
    ),
    Operation(
        id="getKey",
        route="GET /keys/{name}",
        needs="administer *",
        summary="Get an API key",
        answers=(ok(Key, "The key.", ETAG),),
    ),
    Operation(
        id="putKey",
        route="PUT /keys/{name}",
        needs="administer *",
        summary="Create or replace an API key",
        parameters=(
            IF_MATCH,
            FORCE_OWNER,
        ),
        body=KeyBody,
        answers=(
            ok(Key, "The key as it is now.", ETAG),
            created(KeyMade, "The key, which was not there."),
        ),
        problems=(
            FORBIDDEN_OR_FULL,
            CONFLICT,
        ),
    ),
    Operation(
        id="deleteKey",
        route="DELETE /keys/{name}",
        needs="administer *",
        summary="Delete an API key",
        parameters=(
            IF_MATCH,
            FORCE_OWNER,
        ),
        answers=(no_content("It is gone."),),
        problems=(CONFLICT,),
    ),
    Operation(
        id="listPolicies",
        route="GET /policies",
        needs="administer *",
        summary="List policies",
        paged=True,
        answers=(ok(PolicyPage, "One page, by name."),),
    ),
    Operation(
        id="createPolicy",
        route="POST /policies",
        needs="administer *",
        summary="Create a policy",
        body=PolicyBody,
        answers=(created(Policy, "The policy."),),
        problems=(
            FORBIDDEN_OR_FULL,
            CONFLICT,
        ),
    ),
    Operation(
        id="getPolicy",
        route="GET /policies/{name}",
        needs="administer *",
        summary="Get a policy",
        answers=(ok(Policy, "The policy.", ETAG),),
    ),
    Operation(
        id="putPolicy",
        route="PUT /policies/{name}",
        needs="administer *",
        summary="Create or replace a policy",
        parameters=(
            IF_MATCH,
            FORCE_OWNER,
        ),
        body=PolicyBody,
        answers=(
            ok(Policy, "The policy as it is now.", ETAG),
            created(Policy, "The policy, which was not there."),
        ),
        problems=(
            FORBIDDEN_OR_FULL,
            CONFLICT,
        ),
    ),
    Operation(
        id="deletePolicy",
        route="DELETE /policies/{name}",
        needs="administer *",
        summary="Delete a policy",
        parameters=(
            IF_MATCH,
            FORCE_OWNER,
        ),
        answers=(no_content("It is gone."),),
        problems=(CONFLICT,),
    ),
    Operation(
        id="listIssuers",
        route="GET /issuers",
        needs="administer *",
        summary="List issuers",
        paged=True,
        answers=(ok(IssuerPage, "One page, by name."),),
    ),
    Operation(
        id="createIssuer",
        route="POST /issuers",
        needs="administer *",
        summary="Create an issuer",
        body=IssuerBody,
        answers=(created(Issuer, "The issuer."),),
        problems=(
            FORBIDDEN_OR_FULL,
            CONFLICT,
        ),
    ),
    Operation(
        id="getIssuer",
        route="GET /issuers/{name}",
        needs="administer *",
        summary="Get an issuer",
        answers=(ok(Issuer, "The issuer.", ETAG),),
    ),
    Operation(
        id="putIssuer",
        route="PUT /issuers/{name}",
        needs="administer *",
        summary="Create or replace an issuer",
        parameters=(IF_MATCH,),
        body=IssuerBody,
        answers=(
            ok(Issuer, "The issuer as it is now.", ETAG),
            created(Issuer, "The issuer, which was not there."),
        ),
        problems=(
            FORBIDDEN_OR_FULL,
            CONFLICT,
        ),
    ),
    Operation(
        id="deleteIssuer",
        route="DELETE /issuers/{name}",
        needs="administer *",
        summary="Delete an issuer",
        parameters=(
            IF_MATCH,
            FORCE_OWNER,
        ),
        answers=(no_content("It is gone."),),
        problems=(CONFLICT,),
    ),
    Operation(
        id="addClientSecret",
        route="POST /clients/{name}/secrets",
        needs="administer *",
        summary="Give a client another secret",
        parameters=(IF_MATCH,),
        body=Rotation,
        answers=(
            Success(
                201,
                ("The client, with its new secret; the present one holds for a while beside it."),
                ClientMade,
                (ETAG,),
            ),
        ),
        problems=(CONFLICT,),
    ),
    Operation(
        id="removeClientSecret",
        route="DELETE /clients/{name}/secrets/{prefix}",
        needs="administer *",
        summary="Remove a secret of a client",
        parameters=(
            IF_MATCH,
            FORCE_OWNER,
        ),
        answers=(no_content("It is gone. Tokens that it got hold until they end or are revoked."),),
        problems=(CONFLICT,),
    ),
    Operation(
        id="revokeClientTokens",
        route="POST /clients/{name}:revoke_tokens",
        needs="administer *",
        summary="Revoke all access tokens of a client",
        answers=(
            ok(Client, "The client; tokens issued to it before are refused from now on.", ETAG),
        ),
    ),
    Operation(
        id="rotateKey",
        route="POST /keys/{name}:rotate",
        needs="administer *",
        summary="Give a key another secret",
        parameters=(IF_MATCH,),
        body=Rotation,
        answers=(
            Success(
                201,
                ("The key, of the same id; the present one holds for a while beside it."),
                KeyMade,
                (ETAG,),
            ),
        ),
        problems=(CONFLICT,),
    ),
)
