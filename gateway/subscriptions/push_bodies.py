"""The `push` of a subscription in JSON: what makes one, what is shown of it, and its secrets.

Values of headers are write-only: they are shown as `set`, and a body that says `set` keeps the
value there is; for another endpoint they are to be given again, or who may change a subscription
could have them sent to himself. Signing secrets are made here and shown once, in the answer that
made them.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Literal, NamedTuple

import msgspec
from msgspec import UNSET, UnsetType
from yarl import URL

from edge.egress.guard import EgressDenied, Guard
from edge.egress.session import check_url
from edge.problem import FieldError, Problem, invalid
from edge.sealing import SealBroken, Sealer
from edge.signing import new_key, public_text, secret_text
from metadata.subscriptions.push_config import (
    BATCHING,
    OidcToken,
    PushConfig,
    SigningKey,
    header_purpose,
    key_purpose,
)
from openapi import webhooks as contract

MAX_HEADERS = 20
MAX_HEADER_NAME_CHARS = 100
MAX_HEADER_VALUE_CHARS = 4096
MAX_SIGNING_KEYS = 10
DAY_S = 86_400
SET: Literal["set"] = "set"
"""The text in the place of a value that is not shown."""
_TOKEN_CHARS = frozenset(
    "!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
)
_TAKEN = frozenset(
    {"accept-encoding", "connection", "content-encoding", "content-length", "content-type"}
    | {"expect", "host", "keep-alive", "te", "traceparent", "tracestate", "trailer"}
    | {"transfer-encoding", "upgrade", "user-agent"}
)
_TAKEN_PREFIXES = ("webhook-", "packetboat-", "ce-", "proxy-")


class NewSecret(NamedTuple):
    """A key as it is told once."""

    key: SigningKey
    plain: bytes


class PushMaker:
    """Makes configurations for one subscription, under the rules of its tenant."""

    def __init__(
        self, sealer: Sealer, guard: Guard, tenant_id: bytes, subscription_uid: bytes, now: datetime
    ) -> None:
        self._sealer = sealer
        self._guard = guard
        self._tenant_id = tenant_id
        self._uid = subscription_uid
        self._now = now
        self.made: tuple[NewSecret, ...] = ()
        """The keys of the last configuration that was made, as far as they are new."""

    def config(self, body: contract.Push, present: PushConfig | None) -> PushConfig:
        """Return the configuration that a body asks for. Raise a 422 Problem that names each field.
        A secret that is the same stays sealed as it is, so that asking twice changes nothing."""
        self.made = ()
        format_ = body.format
        known = present.headers if present and same_endpoint(present.url, body.url) else {}
        errors = self._url_errors(body.url) + header_errors(body, known)
        if body.max_batch > 1 and format_ not in BATCHING:
            detail = "1: only json and cloudevents_batched carry more than one message"
            errors.append(FieldError("push.max_batch", detail))
        if body.signing is not UNSET and len(set(body.signing)) < len(body.signing):
            errors.append(FieldError("push.signing", "each kind once"))
        if errors:
            raise invalid("The body does not fit.", errors)
        oidc = body.oidc
        return PushConfig(
            url=body.url,
            format=format_,
            headers=self._headers(body.headers, known),
            signing=self._signing(body.signing, present),
            oidc=None if oidc is None else OidcToken(oidc.audience, oidc.subject),
            timeout_s=float(body.timeout_seconds),
            max_concurrency=body.max_concurrency,
            max_batch=body.max_batch,
            disable_after_s=body.disable_after_seconds and float(body.disable_after_seconds),
            verify=body.verify,
            events_topic=body.events_topic,
        )

    def rotated(
        self, config: PushConfig, kind: contract.SigningKind, overlap_s: float
    ) -> PushConfig:
        """Return the push with a new key; the others of its kind expire. Raise a 409 Problem where
        too many keys sign."""
        self.made = ()
        ends = self._now + timedelta(seconds=overlap_s)
        keys = [
            key if key.kind != kind else _expiring(key, ends)
            for key in config.signing
            if key.signs_at(self._now)
        ]
        keys = [key for key in keys if key.signs_at(self._now)]
        if len(keys) >= MAX_SIGNING_KEYS:
            raise Problem.of(
                "too-many-signing-secrets",
                f"A subscription has at most {MAX_SIGNING_KEYS} that are not expired: delete one.",
            )
        return msgspec.structs.replace(config, signing=(self._new(kind), *keys))

    def _url_errors(self, url: str) -> list[FieldError]:
        try:
            check_url(self._guard, url)
        except EgressDenied as error:
            return [FieldError("push.url", f"{error}")]
        return []

    def _headers(self, given: Mapping[str, str], present: Mapping[str, bytes]) -> dict[str, bytes]:
        known = {name.lower(): sealed for name, sealed in present.items()}
        headers = {}
        for name, value in given.items():
            sealed = known.get(name.lower())
            purpose = header_purpose(self._tenant_id, self._uid, name)
            if sealed is None or (value != SET and not self._is(sealed, purpose, value)):
                sealed = self._sealer.seal(value.encode("ascii"), purpose)
            headers[name] = sealed
        return headers

    def _is(self, sealed: bytes, purpose: str, value: str) -> bool:
        try:
            return self._sealer.open(sealed, purpose) == value.encode("ascii")
        except SealBroken:
            return False

    def _signing(
        self, wanted: Sequence[contract.SigningKind] | UnsetType, present: PushConfig | None
    ) -> tuple[SigningKey, ...]:
        if wanted is UNSET:
            if present is not None:
                return present.signing
            wanted = ["v1"]
        kept = [
            key
            for key in (present.signing if present else ())
            if key.kind in wanted and key.signs_at(self._now)
        ]
        lasting = {key.kind for key in kept if key.expires_at is None}
        new = [self._new(kind) for kind in wanted if kind not in lasting]
        return (*new, *kept)

    def _new(self, kind: contract.SigningKind) -> SigningKey:
        key_id, plain = secrets.token_hex(8), new_key()
        key = SigningKey(
            id=key_id,
            kind=kind,
            sealed=self._sealer.seal(plain, key_purpose(self._tenant_id, self._uid, key_id)),
            created_at=self._now,
            public_key=public_text(plain) if kind == "v1a" else None,
        )
        self.made = (*self.made, NewSecret(key, plain))
        return key


def same_endpoint(one: str, other: str) -> bool:
    """Return whether both have the same scheme, host and port. Neither need be a URL."""
    try:
        return URL(one).origin() == URL(other).origin()
    except (ValueError, TypeError):
        return False


def header_errors(body: contract.Push, present: Mapping[str, bytes]) -> list[FieldError]:
    """Return the faults of the headers; `present` are those whose value may be kept."""
    if len(body.headers) > MAX_HEADERS:
        return [FieldError("push.headers", f"at most {MAX_HEADERS} headers")]
    errors, seen = [], set()
    known = {name.lower() for name in present}
    for name, value in body.headers.items():
        field, lower = f"push.headers.{name[:MAX_HEADER_NAME_CHARS]}", name.lower()
        if not 1 <= len(name) <= MAX_HEADER_NAME_CHARS or not _TOKEN_CHARS.issuperset(name):
            detail = f"a header's name has 1 to {MAX_HEADER_NAME_CHARS} characters of RFC 9110"
            errors.append(FieldError("push.headers", f"{name[:80]!r}: {detail}"))
        elif lower in _TAKEN or lower.startswith(_TAKEN_PREFIXES):
            errors.append(FieldError(field, "is set by Packetboat: choose another name"))
        elif lower == "authorization" and body.oidc is not None:
            errors.append(FieldError(field, "is set by push.oidc: leave one of them out"))
        elif lower in seen:
            errors.append(FieldError(field, "is there twice"))
        elif value == SET and lower not in known:
            detail = f"give its value: {SET!r} keeps one that is there, for the same endpoint"
            errors.append(FieldError(field, detail))
        elif len(value) > MAX_HEADER_VALUE_CHARS or not (value.isascii() and value.isprintable()):
            detail = f"at most {MAX_HEADER_VALUE_CHARS} characters of printable ASCII"
            errors.append(FieldError(field, detail))
        seen.add(lower)
    return errors


def view(config: PushConfig, made: Sequence[NewSecret] = ()) -> contract.PushView:
    """Return the push as the API shows it, with the secrets that the answer makes known."""
    return contract.PushView(
        headers=dict.fromkeys(config.headers, SET),
        signing=sorted({key.kind for key in config.signing if key.expires_at is None}),
        signing_secrets=[secret_view(new) for new in made] if made else UNSET,
        **_shown(config),
    )


def put_of(config: PushConfig) -> contract.Push:
    """Return the body that asks for the push as it is: values of headers are kept, and keys."""
    return contract.Push(headers=dict.fromkeys(config.headers, SET), **_shown(config))


def _shown(config: PushConfig) -> dict[str, Any]:
    oidc = config.oidc
    return {
        "url": config.url,
        "format": config.format,
        "oidc": None if oidc is None else contract.PushToken(oidc.audience, oidc.subject),
        "timeout_seconds": config.timeout_s,
        "max_concurrency": config.max_concurrency,
        "max_batch": config.max_batch,
        "disable_after_seconds": config.disable_after_s,
        "verify": config.verify,
        "events_topic": config.events_topic,
    }


def key_view(key: SigningKey) -> contract.SigningSecret:
    """Return a key without what is secret."""
    return contract.SigningSecret(**_key(key))


def secret_view(new: NewSecret) -> contract.NewSigningSecret:
    """Return a new key with its secret; the private half of a v1a key is never told."""
    secret = secret_text(new.plain) if new.key.kind == "v1" else None
    return contract.NewSigningSecret(secret=secret, **_key(new.key))


def _key(key: SigningKey) -> dict[str, Any]:
    return {
        "id": key.id,
        "kind": key.kind,
        "public_key": key.public_key,
        "created_at": key.created_at,
        "expires_at": key.expires_at,
    }


def _expiring(key: SigningKey, at: datetime) -> SigningKey:
    if key.expires_at is not None and key.expires_at <= at:
        return key
    return msgspec.structs.replace(key, expires_at=at)
