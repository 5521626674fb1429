"""Lists attempts to push, tests endpoints, replays messages, and asks endpoints for their consent.

Nothing here needs ownership: changes are written, and the owners hear of them.
"""

from __future__ import annotations

import msgspec
from msgspec import UNSET

from edge.asgi import Receive, Route, Scope, Send, path_param, read_body, respond, tenant_of
from edge.problem import Problem
from metadata.catalog import Catalog
from metadata.subscriptions.push_attempts import PushAttempt, PushAttemptRepository
from metadata.subscriptions.push_endpoints import PushEndpointRepository
from metadata.types import Subscription
from openapi import push as contract
from outbox import TopicFull
from subscribe_forwarder.api.push_bodies import (
    MAX_BODY_BYTES,
    AttemptQuery,
    attempts_of,
    replay_of,
    token_of,
)
from subscribe_forwarder.push.endpoint_state import endpoint_state_of
from subscribe_forwarder.push.engine import Means
from subscribe_forwarder.push.pushers import Pushers
from subscribe_forwarder.push.replaying import Replaying
from subscribe_forwarder.push.trial import Tried, try_endpoint

NO_STORE = [(b"cache-control", b"no-store")]
_encode = msgspec.json.encode


class PushRoutes:
    def __init__(
        self,
        catalog: Catalog,
        attempts: PushAttemptRepository,
        endpoints: PushEndpointRepository,
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
        return [
            Route(contract.OPERATIONS["listPushAttempts"], self.page),
            Route(contract.OPERATIONS["testPushEndpoint"], self.test),
            Route(contract.OPERATIONS["replayToEndpoint"], self.replay),
            Route(contract.OPERATIONS["enablePushEndpoint"], self.enable),
            Route(contract.OPERATIONS["verifyPushEndpoint"], self.verify),
        ]

    async def page(self, scope: Scope, receive: Receive, send: Send) -> None:
        """List the attempts, newest first."""
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
        listing = contract.PushAttemptPage(
            [_attempt(one) for one in page],
            token_of(page[-1].id) if len(found) > len(page) else None,
        )
        await respond(send, 200, _encode(listing), headers=NO_STORE)

    async def test(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send a sample now, and answer with the answer of the endpoint."""
        await read_body(scope, receive, MAX_BODY_BYTES)
        subscription = await self._subscription(scope)
        endpoint = await self._endpoint(subscription)
        if endpoint.state == "unverified":
            raise Problem.of(
                "endpoint-unverified",
                f"Nothing is sent to an endpoint before it has answered the challenge "
                f"({endpoint.reason}); have it asked again with :verify.",
            )
        means = self._means
        tried = await try_endpoint(subscription, means.requests, means.sender, means.wall_s)
        await respond(send, 200, _encode(_tried(tried)), headers=NO_STORE)

    async def replay(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 202: the messages are published, to this subscription alone."""
        body = replay_of(await read_body(scope, receive, MAX_BODY_BYTES))
        subscription = await self._subscription(scope)
        try:
            if body.message_ids is not UNSET:
                done = await self._replaying.by_ids(subscription, body.message_ids)
            else:
                assert body.from_ is not None
                assert body.to is not None
                span_us = [int(one.timestamp() * 1_000_000) for one in (body.from_, body.to)]
                done = await self._replaying.by_time(
                    subscription, max(0, span_us[0]), max(0, span_us[1]), body.max_messages
                )
        except TopicFull as error:
            raise Problem.of(error.kind, str(error)) from error
        await respond(send, 202, _encode(done), headers=NO_STORE)

    async def enable(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Deliver to the endpoint again, its backlog first, unless it is to be verified."""
        await read_body(scope, receive, MAX_BODY_BYTES)
        subscription = await self._subscription(scope)
        await self._pushers.enable(subscription)
        await respond(send, 200, _encode(await self._endpoint(subscription)), headers=NO_STORE)

    async def verify(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Ask the endpoint once, now."""
        await read_body(scope, receive, MAX_BODY_BYTES)
        subscription = await self._subscription(scope)
        await self._pushers.verify_now(subscription)
        await respond(send, 200, _encode(await self._endpoint(subscription)), headers=NO_STORE)

    async def _subscription(self, scope: Scope) -> Subscription:
        name = path_param(scope, "name")
        found = await self._catalog.subscription(tenant_of(scope), name)
        if found.push is None:
            raise Problem.of(
                "not-a-push-subscription",
                f"The subscription {name} is of type {found.type}; nothing is sent for it.",
            )
        return found

    async def _endpoint(self, subscription: Subscription) -> contract.PushEndpointState:
        """Return the state that is committed."""
        row = await self._endpoints.get(subscription.tenant_id, subscription.uid)
        assert subscription.push is not None
        state, reason = endpoint_state_of(subscription.push, row)
        return contract.PushEndpointState(
            state,
            reason,
            None if row is None else row.failing_since,
            None if row is None else row.verified_at,
        )


def _attempt(one: PushAttempt) -> contract.PushAttempt:
    return contract.PushAttempt(
        id=one.id.hex(),
        at=one.at,
        message_id=one.message_id,
        partition=one.partition,
        offset=one.offset,
        attempt=one.attempt,
        status=one.status,
        outcome=one.outcome,
        latency_ms=one.latency_ms,
        detail=one.detail or None,
        response_excerpt=one.response.decode("utf-8", "replace"),
    )


def _tried(tried: Tried) -> contract.PushTest:
    answer, verdict = tried.answer, tried.verdict
    return contract.PushTest(
        request_id=tried.request_id,
        outcome="unsent" if verdict is None else verdict.outcome,
        status=None if answer is None else answer.status,
        latency_ms=None if answer is None else round(answer.latency_s * 1000, 3),
        detail=tried.detail or None,
        response_excerpt="" if answer is None else answer.excerpt.decode("utf-8", "replace"),
    )
