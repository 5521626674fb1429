"""Push subscriptions: attempts, tests, replays, and the consent of their endpoints.

None needs ownership: what changes is written, and whoever owns something hears of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from edge.asgi import Receive, Route, Scope, Send, path_param, read_body, respond, tenant_of
from edge.problem import Problem
from metadata.subscriptions.push_attempts import PushAttempt
from metadata.subscriptions.push_endpoints import PushEndpoint
from metadata.types import Subscription
from openapi.push import OPERATIONS
from outbox import TopicFull
from subscribe_forwarder.api.push_bodies import (
    MAX_BODY_BYTES,
    AttemptQuery,
    attempts_of,
    replay_of,
    token_of,
)
from subscribe_forwarder.ports import Catalog
from subscribe_forwarder.push.engine import Means
from subscribe_forwarder.push.replaying import Replaying
from subscribe_forwarder.push.standing import standing_of
from subscribe_forwarder.push.trial import Tried, try_endpoint
from subscribe_forwarder.push.verification import Verified

NO_STORE = [(b"cache-control", b"no-store")]
_encode = msgspec.json.encode


class Attempts(Protocol):
    """`metadata.subscriptions.push_attempts.PushAttemptRepository`."""

    async def page(
        self,
        tenant_id: bytes,
        subscription_uid: bytes,
        *,
        before: bytes,
        outcome: str | None,
        message_id: str | None,
        limit: int,
    ) -> list[PushAttempt]: ...


class Endpoints(Protocol):
    """`metadata.subscriptions.push_endpoints.PushEndpointRepository`."""

    async def get(self, tenant_id: bytes, subscription_uid: bytes) -> PushEndpoint | None: ...


class Pushers(Protocol):
    """`push.pushers.Pushers`."""

    async def verify_now(self, subscription: Subscription) -> Verified: ...
    async def enable(self, subscription: Subscription) -> None: ...


class PushRoutes:
    def __init__(
        self,
        catalog: Catalog,
        attempts: Attempts,
        endpoints: Endpoints,
        pushers: Pushers,
        means: Means,
        replaying: Replaying,
    ) -> None:
        self._catalog = catalog
        self._attempts = attempts
        self._endpoints = endpoints
        self._pushers = pushers
        self._means = means
        self._replaying = replaying

    def routes(self) -> list[Route]:
        _one, _on = "/subscriptions/{name}", "subscription:name"
        return [
            Route(OPERATIONS["listPushAttempts"], self.page),
            Route(OPERATIONS["testPushEndpoint"], self.test),
            Route(OPERATIONS["replayToEndpoint"], self.replay),
            Route(OPERATIONS["enablePushEndpoint"], self.enable),
            Route(OPERATIONS["verifyPushEndpoint"], self.verify),
        ]

    async def page(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Newest first."""
        query: AttemptQuery = attempts_of(scope)
        subscription = await self._subscription(scope)
        found = await self._attempts.page(
            subscription.tenant_id,
            subscription.uid,
            before=query.before,
            outcome=query.outcome,
            message_id=query.message_id,
            limit=query.page_size + 1,
        )
        page = found[: query.page_size]
        listing = {
            "attempts": [_attempt(one) for one in page],
            "next_page_token": token_of(page[-1].id) if len(found) > len(page) else None,
        }
        await respond(send, 200, _encode(listing), headers=NO_STORE)

    async def test(self, scope: Scope, receive: Receive, send: Send) -> None:
        """A sample, sent now; its answer is the answer's, whatever it is."""
        await read_body(scope, receive, MAX_BODY_BYTES)
        subscription = await self._subscription(scope)
        endpoint = await self._endpoint(subscription)
        if endpoint["state"] == "unverified":
            raise Problem(
                409,
                "endpoint-unverified",
                "Endpoint not verified",
                f"Nothing is sent to an endpoint before it has answered the challenge "
                f"({endpoint['reason']}); have it asked again with :verify.",
            )
        means = self._means
        tried = await try_endpoint(subscription, means.requests, means.sender, means.wall_s)
        await respond(send, 200, _encode(_tried(tried)), headers=NO_STORE)

    async def replay(self, scope: Scope, receive: Receive, send: Send) -> None:
        """202: they are published, to this subscription alone."""
        body = replay_of(await read_body(scope, receive, MAX_BODY_BYTES))
        subscription = await self._subscription(scope)
        try:
            if body.message_ids is not None:
                done = await self._replaying.by_ids(subscription, body.message_ids)
            else:
                assert body.from_ is not None
                assert body.to is not None
                span_us = [int(one.timestamp() * 1_000_000) for one in (body.from_, body.to)]
                done = await self._replaying.by_time(
                    subscription, max(0, span_us[0]), max(0, span_us[1]), body.max_messages
                )
        except TopicFull as error:
            raise Problem(507, error.kind, "No room", str(error)) from error
        answer = {
            "replayed": done.messages,
            "skipped": [one._asdict() for one in done.skipped],
            "complete": done.complete,
        }
        await respond(send, 202, _encode(answer), headers=NO_STORE)

    async def enable(self, scope: Scope, receive: Receive, send: Send) -> None:
        """It gets messages again, its backlog first; unless it is to be verified."""
        await read_body(scope, receive, MAX_BODY_BYTES)
        subscription = await self._subscription(scope)
        await self._pushers.enable(subscription)
        await respond(send, 200, _encode(await self._endpoint(subscription)), headers=NO_STORE)

    async def verify(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Asks it once, now."""
        await read_body(scope, receive, MAX_BODY_BYTES)
        subscription = await self._subscription(scope)
        await self._pushers.verify_now(subscription)
        await respond(send, 200, _encode(await self._endpoint(subscription)), headers=NO_STORE)

    async def _subscription(self, scope: Scope) -> Subscription:
        name = path_param(scope, "name")
        found = await self._catalog.subscription(tenant_of(scope), name)
        if found.push is None:
            raise Problem(
                409,
                "not-a-push-subscription",
                "Not a push subscription",
                f"The subscription {name} is of type {found.type.value}; nothing is sent for it.",
            )
        return found

    async def _endpoint(self, subscription: Subscription) -> Mapping[str, Any]:
        """As it is committed."""
        row = await self._endpoints.get(subscription.tenant_id, subscription.uid)
        assert subscription.push is not None
        state, reason = standing_of(subscription.push, row)
        return {
            "state": state,
            "reason": reason,
            "failing_since": None if row is None else row.failing_since,
            "verified_at": None if row is None else row.verified_at,
        }


def _attempt(one: PushAttempt) -> Mapping[str, Any]:
    return {
        "id": one.id.hex(),
        "at": one.at,
        "message_id": one.message_id,
        "partition": one.partition,
        "offset": one.offset,
        "attempt": one.attempt,
        "status": one.status,
        "outcome": one.outcome,
        "latency_ms": one.latency_ms,
        "detail": one.detail or None,
        "response_excerpt": one.response.decode("utf-8", "replace"),
    }


def _tried(tried: Tried) -> Mapping[str, Any]:
    answer, verdict = tried.answer, tried.verdict
    return {
        "request_id": tried.request_id,
        "outcome": "unsent" if verdict is None else verdict.outcome.value,
        "status": None if answer is None else answer.status,
        "latency_ms": None if answer is None else round(answer.latency_s * 1000, 3),
        "detail": tried.detail or None,
        "response_excerpt": "" if answer is None else answer.excerpt.decode("utf-8", "replace"),
    }
