"""The endpoints of push subscriptions and their signing secrets."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

from msgspec import UNSET, Meta, UnsetType

from openapi.common import CONFLICT, ETAG, IF_MATCH, CreatedAt
from openapi.contract import Answer, Body, Operation, Success, no_content, ok, table

Audience = Annotated[str, Meta(min_length=1, max_length=512)]
Url = Annotated[str, Meta(extra_json_schema={"minLength": 1, "maxLength": 2048})]
HeaderName = Annotated[
    str, Meta(extra_json_schema={"pattern": r"^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}$"})
]
HeaderValue = Annotated[str, Meta(extra_json_schema={"maxLength": 4096, "pattern": "^[ -~]*$"})]
Headers = Annotated[dict[HeaderName, HeaderValue], Meta(extra_json_schema={"maxProperties": 20})]
HiddenValue = Annotated[str, Meta(extra_json_schema={"enum": ["set"]})]
"""Servers check the URL and the headers themselves, with refusals that say the rule."""
TimeoutSeconds = Annotated[float, Meta(ge=0.1, le=600)]
MaxConcurrency = Annotated[int, Meta(ge=1, le=1000)]
DisableAfterSeconds = Annotated[float, Meta(ge=1, le=2_592_000)]
PushFormat = Annotated[
    Literal["raw", "json", "cloudevents_binary", "cloudevents_structured", "cloudevents_batched"],
    Meta(
        description=(
            "The form of a request's body. json is an envelope of messages as a pull shows them."
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


class Push(Body):
    """The way of messages to an endpoint, of a subscription of type push."""

    url: Url
    """The URL of the endpoint: https, to a public address, unless the installation allows more.
    Redirects are not followed."""
    format: PushFormat = "json"
    headers: Headers = {}
    """Sent with each request. Values are write-only and shown as `set`; `set` keeps the value
    there is, as long as scheme, host and port of the URL stay."""
    signing: (
        Annotated[list[SigningKind], Meta(extra_json_schema={"uniqueItems": True})] | UnsetType
    ) = UNSET
    """The kinds of signatures, of Standard Webhooks. Without it, the keys that are there stay; a
    new one has `v1`."""
    oidc: PushToken | None = None
    """The bearer token that each request carries, signed by this installation; null: requests carry
    none."""
    timeout_seconds: TimeoutSeconds = 30.0
    """Seconds to wait for a whole answer."""
    max_concurrency: MaxConcurrency = 100
    """Requests under way at a time."""
    max_batch: MaxConcurrency = 1
    """Messages in a request, of the formats json and cloudevents_batched."""
    disable_after_seconds: DisableAfterSeconds | None = 432_000
    """Seconds of failures after which an endpoint is disabled; null is never."""
    verify: bool = True
    """The endpoint has to answer a challenge before it gets messages."""
    events_topic: str | None = None
    """A topic that is told when the endpoint is disabled, enabled, verified or unverified."""


class SigningSecret(Answer):
    """A secret that signs requests to an endpoint, without its value."""

    id: str
    """The id of the signing secret."""
    kind: SigningKind
    public_key: str | None
    """`whpk_…`, of v1a."""
    created_at: CreatedAt
    expires_at: datetime | None
    """The time from which it signs no more; null while no newer one replaces it."""


class NewSigningSecret(SigningSecret):
    """A signing secret as it is told once."""

    secret: str | None
    """`whsec_…`, of v1. Receivers need only the public key of v1a."""


class PushView(Push, Answer, kw_only=True):
    """The way of messages to an endpoint, without secrets."""

    headers: dict[HeaderName, HiddenValue]
    signing: list[SigningKind]
    signing_secrets: list[NewSigningSecret] | UnsetType = UNSET
    """Only in the answer that made them."""


class SigningSecrets(Answer):
    """The secrets that sign requests now, the newest first."""

    signing_secrets: list[SigningSecret]
    """The keys that sign, those that end soon included."""


class SigningSecretCreate(Body):
    """A request for a new signing secret."""

    kind: SigningKind = "v1"
    """The kind of signature: receivers of `v1` need the secret, and of `v1a` the public key."""
    expires_previous_after_seconds: Annotated[float, Meta(ge=0, le=2_592_000)] = 86400.0
    """Seconds that the earlier keys of the kind go on signing."""


OPERATIONS = table(
    "subscriptions",
    Operation(
        id="listSigningSecrets",
        route="GET /subscriptions/{name}/signing_secrets",
        needs="read subscription:name",
        summary="List signing secrets",
        description=(
            "The secrets that sign requests now, the newest first, without the secrets themselves."
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
