"""The endpoints of push subscriptions and their signing secrets."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from openapi.common import CONFLICT, ETAG, IF_MATCH
from openapi.contract import Answer, Body, Operation, Success, no_content, ok, table

Audience = Annotated[str, Meta(min_length=1, max_length=512)]
Url = Annotated[str, Meta(min_length=1, max_length=2048)]
HeaderValue = Annotated[str, Meta(max_length=4096, pattern=r"^[ -~]*\Z")]
TimeoutSeconds = Annotated[float, Meta(ge=0.1, le=600)]
MaxConcurrency = Annotated[int, Meta(ge=1, le=1000)]
DisableAfterSeconds = Annotated[float, Meta(ge=1, le=2_592_000)]
PushFormat = Annotated[
    Literal["raw", "json", "cloudevents_binary", "cloudevents_structured", "cloudevents_batched"],
    Meta(
        description=(
            "What a request's body is. json is an envelope of messages as a pull shows them."
        )
    ),
]
SigningKind = Annotated[
    Literal["v1", "v1a"], Meta(description="v1 is HMAC-SHA256, v1a is ed25519.")
]


class PushToken(Body):
    """A bearer token, signed by this installation, with that audience and subject."""

    audience: Audience
    """The `aud` of its tokens."""
    subject: Audience | None = None
    """`subscription:` and its name, where none is given."""


class NewSigningSecret(Answer):
    id: str
    kind: SigningKind
    public_key: str | None
    """`whpk_…`, of v1a."""
    created_at: datetime
    expires_at: datetime | None
    secret: str | None
    """`whsec_…`, of v1. Of v1a, receivers need the public key alone."""


class PushView(Answer):
    url: str
    format: PushFormat
    headers: dict[str, Literal["set"]]
    signing: list[SigningKind]
    oidc: PushToken | None
    timeout_seconds: float
    max_concurrency: int
    max_batch: int
    disable_after_seconds: float | None
    verify: bool
    events_topic: str | None
    signing_secrets: list[NewSigningSecret] | UnsetType = UNSET
    """Only in the answer that made them."""


class Push(Body):
    """How messages are brought to an endpoint, of a subscription of type push."""

    url: Url
    """https, to a public address, unless the installation allows more. Redirects are not followed.
    """
    format: PushFormat | UnsetType = UNSET
    headers: Annotated[
        dict[Annotated[str, Meta(pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}\Z")], HeaderValue],
        Meta(max_length=20),
    ] = {}
    """Sent with each request. Values are write-only and shown as `set`; `set` keeps the value
    there is, as long as scheme, host and port of the URL stay."""
    signing: (
        Annotated[list[SigningKind], Meta(extra_json_schema={"uniqueItems": True})] | UnsetType
    ) = UNSET
    """The kinds of signatures, of Standard Webhooks. Without it, the keys that are there stay; a
    new one has `v1`."""
    oidc: PushToken | None = None
    timeout_seconds: TimeoutSeconds = 30.0
    """For a whole answer."""
    max_concurrency: MaxConcurrency = 100
    """Requests under way at a time."""
    max_batch: MaxConcurrency = 1
    """Messages in a request, of the formats json and cloudevents_batched."""
    disable_after_seconds: DisableAfterSeconds | None = 432_000
    """An endpoint that has failed for so long is disabled; null is never."""
    verify: bool = True
    """The endpoint has to answer a challenge before it gets messages."""
    events_topic: str | None = None
    """A topic that is told when the endpoint is disabled, enabled, verified or unverified."""


class PushTokenPatch(Body):
    """As PushToken, merged member by member."""

    audience: Audience | UnsetType = UNSET
    """The `aud` of its tokens."""
    subject: Audience | UnsetType | None = UNSET
    """`subscription:` and its name, where none is given."""


class PushPatch(Body):
    """As Push, merged member by member."""

    url: Url | UnsetType = UNSET
    """https, to a public address, unless the installation allows more. Redirects are not followed.
    """
    format: PushFormat | UnsetType | None = UNSET
    headers: (
        Annotated[
            dict[
                Annotated[str, Meta(pattern=r"^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}\Z")],
                HeaderValue | None,
            ],
            Meta(max_length=20),
        ]
        | UnsetType
        | None
    ) = UNSET
    """Sent with each request. Values are write-only and shown as `set`; `set` keeps the value
    there is, as long as scheme, host and port of the URL stay."""
    signing: (
        Annotated[list[SigningKind], Meta(extra_json_schema={"uniqueItems": True})]
        | UnsetType
        | None
    ) = UNSET
    """The kinds of signatures, of Standard Webhooks. Without it, the keys that are there stay; a
    new one has `v1`."""
    oidc: PushTokenPatch | UnsetType | None = UNSET
    timeout_seconds: TimeoutSeconds | UnsetType | None = UNSET
    """For a whole answer."""
    max_concurrency: MaxConcurrency | UnsetType | None = UNSET
    """Requests under way at a time."""
    max_batch: MaxConcurrency | UnsetType | None = UNSET
    """Messages in a request, of the formats json and cloudevents_batched."""
    disable_after_seconds: DisableAfterSeconds | UnsetType | None = UNSET
    """An endpoint that has failed for so long is disabled; null is never."""
    verify: bool | UnsetType | None = UNSET
    """The endpoint has to answer a challenge before it gets messages."""
    events_topic: str | UnsetType | None = UNSET
    """A topic that is told when the endpoint is disabled, enabled, verified or unverified."""


class SigningSecret(Answer):
    id: str
    kind: SigningKind
    public_key: str | None
    """`whpk_…`, of v1a."""
    created_at: datetime
    expires_at: datetime | None


class SigningSecrets(Answer):
    signing_secrets: list[SigningSecret]


class SigningSecretCreate(Body):
    kind: Literal["v1", "v1a"] = "v1"
    expires_previous_after_seconds: Annotated[float, Meta(ge=0, le=2_592_000)] = 86400.0
    """How long the earlier ones of the kind go on signing."""


OPERATIONS = table(
    "subscriptions",
    Operation(
        id="listSigningSecrets",
        route="GET /subscriptions/{name}/signing_secrets",
        needs="read subscription:name",
        summary="List signing secrets",
        description=(
            "What requests are signed with now, the newest first. Secrets themselves are not "
            "told again."
        ),
        answers=(ok(SigningSecrets, "The secrets' ids, public keys and ends.", ETAG),),
        problems=(CONFLICT,),
    ),
    Operation(
        id="createSigningSecret",
        route="POST /subscriptions/{name}/signing_secrets",
        needs="manage subscription:name",
        summary="Make a new signing secret",
        description=(
            "Requests bear its signature at once, and those of the earlier secrets of its kind "
            "until these expire."
        ),
        parameters=(IF_MATCH,),
        body=SigningSecretCreate,
        answers=(Success(201, "The secret, told this once.", NewSigningSecret, (ETAG,)),),
        problems=(CONFLICT,),
    ),
    Operation(
        id="deleteSigningSecret",
        route="DELETE /subscriptions/{name}/signing_secrets/{signing_secret}",
        needs="manage subscription:name",
        summary="Delete a signing secret",
        description="It signs nothing from now on. The last one is not deleted.",
        parameters=(IF_MATCH,),
        answers=(no_content("Gone."),),
        problems=(CONFLICT,),
    ),
)
