"""The keys that a push subscription's requests are signed with: list, make a new one, delete."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

import msgspec
from msgspec.structs import replace

from edge.asgi import Receive, Route, Scope, Send, header, path_param, respond, tenant_of
from edge.egress.guard import Guard
from edge.problem import Problem, not_found
from edge.sealing import Sealer
from gateway.http.decoding import etag, if_match, read_json
from gateway.resources import precondition_failed, respond_no_content
from gateway.subscriptions.bodies import spec_of
from gateway.subscriptions.push_bodies import NewSecret, PushMaker, key_view, secret_view
from metadata.errors import Conflict
from metadata.subscriptions.push_config import PushConfig, SigningKey
from metadata.subscriptions.subscriptions import SubscriptionRepository
from metadata.types import Subscription, SubscriptionSpec
from openapi import webhooks as contract


class SigningSecretRoutes:
    """A change of a key is a change of its subscription, with a new version of that."""

    def __init__(self, subscriptions: SubscriptionRepository, sealer: Sealer) -> None:
        self._subscriptions = subscriptions
        self._sealer = sealer

    def routes(self) -> list[Route]:
        return [
            Route(contract.OPERATIONS["listSigningSecrets"], self.page),
            Route(contract.OPERATIONS["createSigningSecret"], self.create),
            Route(contract.OPERATIONS["deleteSigningSecret"], self.delete),
        ]

    async def page(self, scope: Scope, receive: Receive, send: Send) -> None:
        """List the keys that sign now, the newest first, without their secrets."""
        found = await self._subscriptions.get(tenant_of(scope), path_param(scope, "name"))
        keys = [key_view(key) for key in _signing(_pushed(found))]
        body = msgspec.json.encode(contract.SigningSecrets(keys))
        await respond(send, 200, body, headers=[etag(found.version)])

    async def create(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 201 with the secret, which is not told again."""
        body = await read_json(scope, receive, contract.SigningSecretCreate)
        tenant_id, kind = tenant_of(scope), body.kind
        made: tuple[NewSecret, ...] = ()

        def change(present: Subscription) -> SubscriptionSpec:
            nonlocal made
            maker = PushMaker(self._sealer, Guard(), tenant_id, present.uid, datetime.now(UTC))
            push = maker.rotated(_pushed(present), kind, body.expires_previous_after_seconds)
            made = maker.made
            return replace(spec_of(present), push=push)

        found = await self._change(scope, change)
        shown = msgspec.json.encode(secret_view(made[0]))
        headers = [etag(found.version), (b"cache-control", b"no-store")]
        await respond(send, 201, shown, headers=headers)

    async def delete(self, scope: Scope, receive: Receive, send: Send) -> None:
        """End a key at once. Raise a 409 Problem for the last one: nothing would be signed."""
        wanted = path_param(scope, "signing_secret")

        def change(present: Subscription) -> SubscriptionSpec:
            push = _pushed(present)
            left = tuple(key for key in _signing(push) if key.id != wanted)
            if len(left) == len(_signing(push)):
                raise not_found("signing-secret", wanted)
            if not left:
                raise Problem.of(
                    "last-signing-secret",
                    "Nothing would be signed any more. Make another secret first; or say so, by a "
                    "PATCH of the subscription with an empty push.signing.",
                )
            return replace(spec_of(present), push=msgspec.structs.replace(push, signing=left))

        await self._change(scope, change)
        await respond_no_content(send)

    async def _change(
        self, scope: Scope, change: Callable[[Subscription], SubscriptionSpec]
    ) -> Subscription:
        try:
            return await self._subscriptions.update(
                tenant_of(scope),
                path_param(scope, "name"),
                change,
                if_version=if_match(header(scope, b"if-match")),
            )
        except Conflict as error:
            raise precondition_failed("subscription") from error


def _pushed(subscription: Subscription) -> PushConfig:
    if subscription.push is None:
        raise Problem.of(
            "not-a-push-subscription",
            f"The subscription {subscription.name!r} is pulled and signs nothing. A PATCH with type"
            " push and a push.url makes it one that is pushed.",
        )
    return subscription.push


def _signing(push: PushConfig) -> list[SigningKey]:
    now = datetime.now(UTC)
    return [key for key in push.signing if key.signs_at(now)]
