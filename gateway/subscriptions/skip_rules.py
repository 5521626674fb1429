"""Control plane of skip rules: what a subscription passes over, by whose decision and why."""

from __future__ import annotations

import re
from typing import Annotated, Any, Protocol

import msgspec

from edge.asgi import Receive, Route, Scope, Send, path_param, respond, subject_of, tenant_of
from edge.problem import FieldError, invalid, not_found
from gateway.http.decoding import Query, read_json
from gateway.subscriptions.bodies import filter_errors
from gateway.topics.topics import respond_no_content
from metadata.subscriptions.skip_rules import SkipRuleRepository
from metadata.subscriptions.subscriptions import SubscriptionRepository
from metadata.types import CursorState, SkipRule
from openapi.subscriptions import OPERATIONS

_ID = re.compile(r"[0-9a-f]{32}")


class Cursors(Protocol):
    """The part of `metadata.delivery.cursors.CursorRepository` that counting needs."""

    async def of_subscription(
        self, tenant_id: bytes, subscription_uid: bytes
    ) -> tuple[CursorState, ...]: ...


class SkipRuleCreate(msgspec.Struct, forbid_unknown_fields=True):
    """What `POST /subscriptions/{name}/skip_rules` takes."""

    expression: str
    reason: Annotated[str, msgspec.Meta(min_length=1, max_length=1024)]

    def check(self) -> None:
        """Raises a 422 Problem."""
        errors = filter_errors(self.expression, "expression")
        if "\0" in self.reason:
            errors.append(FieldError("reason", "no NUL characters"))
        if errors:
            raise invalid("The body does not fit.", errors)


def view(rule: SkipRule) -> dict[str, Any]:
    """A rule as the API shows it."""
    return {
        "id": rule.uid.hex(),
        "expression": rule.expression,
        "reason": rule.reason,
        "created_by": rule.created_by,
        "created_at": rule.created_at,
        "removed_by": rule.removed_by,
        "removed_at": rule.removed_at,
    }


class SkipRuleRoutes:
    """A rule is made and removed, never changed: the audit shows what held when."""

    def __init__(
        self, rules: SkipRuleRepository, subscriptions: SubscriptionRepository, cursors: Cursors
    ) -> None:
        self._rules = rules
        self._subscriptions = subscriptions
        self._cursors = cursors

    def routes(self) -> list[Route]:
        return [
            Route(OPERATIONS["listSkipRules"], self.list),
            Route(OPERATIONS["addSkipRule"], self.add),
            Route(OPERATIONS["removeSkipRule"], self.remove),
        ]

    async def add(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_json(scope, receive, SkipRuleCreate)
        body.check()
        rule = await self._rules.add(
            tenant_of(scope),
            path_param(scope, "name"),
            expression=body.expression,
            reason=body.reason,
            created_by=subject_of(scope),
        )
        await respond(send, 201, msgspec.json.encode(view(rule)))

    async def list(self, scope: Scope, receive: Receive, send: Send) -> None:
        removed = Query(scope).flag("removed")
        tenant_id, name = tenant_of(scope), path_param(scope, "name")
        subscription = await self._subscriptions.get(tenant_id, name)
        rules = await self._rules.of(tenant_id, name, removed=removed)
        cursors = await self._cursors.of_subscription(tenant_id, subscription.uid)
        listing = {
            "skip_rules": [view(rule) for rule in rules],
            "skipped": sum(cursor.counters.skipped for cursor in cursors),
        }
        await respond(send, 200, msgspec.json.encode(listing))

    async def remove(self, scope: Scope, receive: Receive, send: Send) -> None:
        rule = path_param(scope, "rule")
        if not _ID.fullmatch(rule):
            raise not_found("skip-rule", rule)
        await self._rules.remove(
            tenant_of(scope),
            path_param(scope, "name"),
            bytes.fromhex(rule),
            removed_by=subject_of(scope),
        )
        await respond_no_content(send)
