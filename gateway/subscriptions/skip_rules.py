"""Control plane of skip rules, by which a subscription passes over messages."""

from __future__ import annotations

import re

import msgspec

from edge.asgi import Receive, Route, Scope, Send, path_param, respond, subject_of, tenant_of
from edge.expressions.ahead import read_ahead
from edge.parameters import Query
from edge.problem import FieldError, invalid, not_found
from gateway.http.decoding import read_json
from gateway.resources import respond_no_content
from gateway.subscriptions.bodies import filter_errors
from metadata.delivery.cursors import CursorRepository
from metadata.subscriptions.skip_rules import SkipRuleRepository
from metadata.subscriptions.subscriptions import SubscriptionRepository
from metadata.types import SkipRule
from openapi import subscriptions as contract

_ID = re.compile(r"[0-9a-f]{32}")


def check(body: contract.SkipRuleCreate) -> None:
    """Raise a 422 Problem for a rule that cannot be."""
    errors = filter_errors(body.expression, "expression")
    if "\0" in body.reason:
        errors.append(FieldError("reason", "no NUL characters"))
    if errors:
        raise invalid("The body does not fit.", errors)


def view(rule: SkipRule) -> contract.SkipRule:
    """Return a rule as the API shows it."""
    return contract.SkipRule(
        id=rule.uid.hex(),
        expression=rule.expression,
        reason=rule.reason,
        created_by=rule.created_by,
        created_at=rule.created_at,
        removed_by=rule.removed_by,
        removed_at=rule.removed_at,
    )


class SkipRuleRoutes:
    """A rule is made and removed, never changed: the audit shows what held when."""

    def __init__(
        self,
        rules: SkipRuleRepository,
        subscriptions: SubscriptionRepository,
        cursors: CursorRepository,
    ) -> None:
        self._rules = rules
        self._subscriptions = subscriptions
        self._cursors = cursors

    def routes(self) -> list[Route]:
        return [
            Route(contract.OPERATIONS["listSkipRules"], self.list),
            Route(contract.OPERATIONS["addSkipRule"], self.add),
            Route(contract.OPERATIONS["removeSkipRule"], self.remove),
        ]

    async def add(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_json(scope, receive, contract.SkipRuleCreate)
        await read_ahead(scope, body.expression)
        check(body)
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
        skipped = sum(cursor.counters.skipped for cursor in cursors)
        listing = contract.SkipRules([view(rule) for rule in rules], skipped)
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
