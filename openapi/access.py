"""Who may do what: clients, keys, policies and trusted issuers of a tenant."""

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
    Labels,
    Name,
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

State = Literal["active", "disabled"]
Label = Annotated[str, Meta(max_length=255, pattern=r"^[^\u0000-\u001f\u007f]*\Z")]
Role = Literal["owner", "admin", "publisher", "subscriber", "viewer"]


class RoleGiven(Answer):
    role: Literal["owner", "admin", "publisher", "subscriber", "viewer"]
    resources: list[str]
    policy: str
    """The name of the policy."""


class WhoAmI(Answer):
    tenant: str
    """The tenant's name."""
    subject: str
    """Who calls, as audits name it: `client:NAME`, `key:NAME`, `issuer:NAME#SUBJECT`,
    `operator:NAME` or `dev`."""
    roles: list[RoleGiven]
    """What the tenant's policies give this subject."""
    grants: list[str]
    """What the token allows, each as a scope of an API key is written, `permission:resource`."""
    token_audience: str
    """The audience that is this tenant's alone, for tokens of issuers that it trusts."""
    expires_at: datetime | None
    """When the token ends; null for one without an end."""


class SecretShown(Answer):
    prefix: str
    """How it begins, after what all of its kind begin with."""
    created_at: datetime
    expires_at: datetime | None


class Client(Answer):
    name: str
    client_id: str
    display_name: str
    state: State
    """disabled: its secrets and its tokens are refused."""
    labels: dict[str, str]
    secrets: list[SecretShown]
    tokens_valid_from: datetime | None
    """Tokens issued before are refused; null: none was revoked."""
    created_at: datetime
    updated_at: datetime
    last_used_at: datetime | None


class ClientPage(Answer):
    clients: list[Client]
    next_page_token: str | None


class ClientBody(Body):
    name: Name | UnsetType = UNSET
    """POST: its name. PUT: that of the path, or left out."""
    display_name: Label = ""
    state: State = "active"
    labels: Labels | UnsetType = UNSET


class ClientMade(Answer):
    name: str
    client_id: str
    display_name: str
    state: State
    """disabled: its secrets and its tokens are refused."""
    labels: dict[str, str]
    secrets: list[SecretShown]
    tokens_valid_from: datetime | None
    """Tokens issued before are refused; null: none was revoked."""
    created_at: datetime
    updated_at: datetime
    last_used_at: datetime | None
    client_secret: str
    """Shown here and never again."""


class Key(Answer):
    name: str
    key_id: str
    prefix: str
    """How the key begins."""
    scopes: list[str]
    state: State
    expires_at: datetime | None
    labels: dict[str, str]
    secrets: list[SecretShown]
    created_at: datetime
    updated_at: datetime
    last_used_at: datetime | None


class KeyPage(Answer):
    keys: list[Key]
    next_page_token: str | None


class KeyBody(Body):
    scopes: Annotated[
        list[
            Annotated[
                str,
                Meta(
                    max_length=256,
                    pattern=r"^(publish|consume|lock|read|manage|administer)(:(\*|(topics|subscriptions|schemas|schedules|snapshots|locks|jobs|pools|exports)/[^\u0000-\u001f\u007f]+))?\Z",
                ),
            ]
        ],
        Meta(min_length=1, max_length=100),
    ]
    """All that it may do: permissions, each alone or with a resource: `read`,
    `publish:topics/orders-*`."""
    name: Name | UnsetType = UNSET
    """POST: its name. PUT: that of the path, or left out."""
    expires_at: datetime | None = None
    state: State = "active"
    labels: Labels | UnsetType = UNSET


class KeyMade(Answer):
    name: str
    key_id: str
    prefix: str
    """How the key begins."""
    scopes: list[str]
    state: State
    expires_at: datetime | None
    labels: dict[str, str]
    secrets: list[SecretShown]
    created_at: datetime
    updated_at: datetime
    last_used_at: datetime | None
    key: str
    """Shown here and never again."""


class Policy(Answer):
    name: str
    role: Role
    members: list[str]
    resources: list[str]
    labels: dict[str, str]
    created_at: datetime
    updated_at: datetime


class PolicyPage(Answer):
    policies: list[Policy]
    next_page_token: str | None


class PolicyBody(Body):
    role: Role
    members: Annotated[
        list[
            Annotated[
                str,
                Meta(
                    max_length=256,
                    pattern=r"^(client:[^\u0000-\u001f\u007f]+|issuer:[^#\u0000-\u001f\u007f]+#[^\u0000-\u001f\u007f]+)\Z",
                ),
            ]
        ],
        Meta(min_length=1, max_length=500),
    ]
    """`client:NAME`, or `issuer:NAME#SUBJECT` for what an issuer says; `*` stands for any
    characters."""
    resources: Annotated[
        list[
            Annotated[
                str,
                Meta(
                    max_length=256,
                    pattern=r"^(\*|(topics|subscriptions|schemas|schedules|snapshots|locks|jobs|pools|exports)/[^\u0000-\u001f\u007f]+)\Z",
                ),
            ]
        ],
        Meta(min_length=1, max_length=100),
    ] = field(default_factory=lambda: ["*"])
    """`*` for everything, or `topics/NAME`, `subscriptions/NAME`, `schemas/NAME`,
    `schedules/NAME`, `snapshots/NAME`, `locks/NAME`, `jobs/NAME`, `pools/NAME`, `exports/NAME`;
    `*` stands for any characters."""
    name: Name | UnsetType = UNSET
    """POST: its name. PUT: that of the path, or left out."""
    labels: Labels | UnsetType = UNSET


class Issuer(Answer):
    name: str
    issuer: str
    audience: str
    algorithms: list[str]
    subject_claim: str
    required_claims: dict[str, str]
    labels: dict[str, str]
    trust: Literal["audience", "document", "operator", "unproved", "withdrawn"]
    """Why its tokens are this tenant's. audience: they name the tenant's own; document: the issuer
    names the tenant; operator: the installation's operator said so; unproved: registered before
    proof was asked for, and holds while nobody else's claim fits a token; withdrawn: the
    operator took it back, and no token holds."""
    created_at: datetime
    updated_at: datetime


class IssuerPage(Answer):
    issuers: list[Issuer]
    next_page_token: str | None


class IssuerBody(Body):
    issuer: Annotated[str, Meta(max_length=512)]
    """The `iss` of its tokens; its keys are found by it (OpenID Connect Discovery)."""
    audience: Annotated[str, Meta(min_length=1, max_length=255)] | UnsetType = UNSET
    """The `aud` that its tokens must name. Left out, it is the tenant's own (`token_audience`);
    another needs a proof, else 422 `issuer-unproved`."""
    algorithms: Annotated[
        list[
            Literal[
                "RS256",
                "RS384",
                "RS512",
                "PS256",
                "PS384",
                "PS512",
                "ES256",
                "ES384",
                "ES512",
                "EdDSA",
            ]
        ],
        Meta(min_length=1, max_length=10),
    ] = field(default_factory=lambda: ["RS256"])
    subject_claim: Annotated[str, Meta(pattern=r"^[A-Za-z0-9_:/.-]{1,128}\Z")] = "sub"
    """The claim that says who it is."""
    required_claims: (
        Annotated[dict[str, Annotated[str, Meta(max_length=255)]], Meta(max_length=16)] | UnsetType
    ) = UNSET
    """Claims that must have these values."""
    name: Name | UnsetType = UNSET
    """POST: its name. PUT: that of the path, or left out."""
    labels: Labels | UnsetType = UNSET


class Rotation(Body):
    old_expires_in_seconds: Annotated[int, Meta(ge=0, le=2_592_000)] = 86_400
    """For so long the present one holds too; 0: not at all."""


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
        summary="Who a token is",
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
