"""Flow control of a subscription."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, ClassVar

from msgspec import Meta

from openapi.common import BODY_TIMEOUT, OUTCOME_UNKNOWN
from openapi.contract import Body, OpenAnswer, Operation, no_content, ok, table


class FlowSpec(Body):
    """The number of messages that a consumer can take now."""

    AT_LEAST_ONE: ClassVar[tuple[str, ...]] = ("messages_per_second", "max_outstanding")
    messages_per_second: Annotated[float, Meta(ge=0, le=1_000_000)] | None = None
    """Messages per second, for all consumers together; 0 stops delivery."""
    max_outstanding: Annotated[int, Meta(ge=1, le=1_000_000)] | None = None
    """The number of leased and waiting messages at which new deliveries pause."""
    ttl_seconds: Annotated[float, Meta(ge=1, le=3600)] = 60.0
    """Seconds that the limit holds."""
    reason: Annotated[str, Meta(max_length=256)] = ""
    """The reason that people see with the limit."""


class Flow(OpenAnswer):
    """Limits that a consumer asked for."""

    DESCRIBED_BY = FlowSpec

    subscription: str
    """The name of the subscription."""
    messages_per_second: float | None
    """Messages per second, for all consumers together; 0 stops delivery, and null is no limit."""
    max_outstanding: int | None
    """The number of leased and waiting messages at which new deliveries pause; null is no limit."""
    reason: str
    said_by: str | None
    """The caller that said it, as audits name it; null where no limit holds."""
    until: datetime | None
    """The time until which the limits hold; null where none does."""


class Throttle(OpenAnswer):
    """A limit that slows a subscription now, beside its own settings."""

    kind: str
    """flow_messages_per_second and flow_max_outstanding: a consumer said so. machine: all
    deliveries of a forwarder together, messages a second. endpoint_messages_per_second,
    endpoint_requests, endpoint_pause: what the endpoint asked for. endpoint_breaker: it fails."""
    reason: str
    """The reason for the limit, for people."""
    value: int | float | None
    """The limit, in the unit that its kind names; 0 stops deliveries."""
    until: datetime | None
    """Null while its reason lasts."""


OPERATIONS = table(
    "subscriptions",
    Operation(
        id="sayFlow",
        route="POST /subscriptions/{name}/flow",
        needs="consume subscription:name",
        summary="Say how much can be taken now",
        description=(
            "For a consumer, or for a program that speaks for the endpoint of a push subscription. "
            "It holds for all consumers of the subscription together, beside its own limits, "
            "everywhere within a second, until ttl_seconds are over or something else is said. "
            "0 messages a second is none."
        ),
        body=FlowSpec,
        answers=(ok(Flow, "The limits that hold now."),),
        never=(BODY_TIMEOUT,),
    ),
    Operation(
        id="getFlow",
        route="GET /subscriptions/{name}/flow",
        needs="consume subscription:name",
        summary="Get the limits that consumers asked for, if they still hold",
        answers=(ok(Flow, "The limits that hold now; nulls where none does."),),
        never=(OUTCOME_UNKNOWN,),
    ),
    Operation(
        id="endFlow",
        route="DELETE /subscriptions/{name}/flow",
        needs="consume subscription:name",
        summary="Take back what was said",
        answers=(no_content("Nothing holds now."),),
    ),
)
