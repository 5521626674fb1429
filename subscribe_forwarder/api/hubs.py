"""Finds the hub that serves a request: all of a subscription, or the part of it that is here."""

from __future__ import annotations

from edge.asgi import Scope, path_param, tenant_of
from edge.problem import Problem
from metadata.types import Subscription
from subscribe_forwarder.delivery.hub import Hub
from subscribe_forwarder.forwarder import SubscribeForwarder
from subscribe_forwarder.peers import FORWARDED, PART


def refuse_push(subscription: Subscription) -> None:
    """Raise a 409 Problem for a push subscription, from which nobody pulls."""
    if subscription.push is not None:
        raise Problem.of(
            "push-subscription",
            f"The subscription {subscription.name!r} brings its messages to an endpoint, so nobody "
            "pulls them. A PATCH with type pull changes that; its backlog stays.",
        )


async def hub_of(forwarder: SubscribeForwarder, scope: Scope) -> Hub:
    """Return the hub of the path's subscription.

    Raises Problem: 404, 503, or 421 where the request asks for all of it and some is elsewhere, or
    nothing is here.
    """
    topic = scope["path_params"].get("topic")
    part = PART in scope or FORWARDED in scope
    return await forwarder.hub(tenant_of(scope), path_param(scope, "name"), topic, part=part)
