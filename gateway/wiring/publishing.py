"""The publish role's parts."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from gateway.wiring.parts import Shared
from metadata.delivery.forwarded import ForwardedRepository
from publish_forwarder import routes as publish_routes
from publish_forwarder import settings as publish_settings
from publish_forwarder.forwarder import PublishForwarder
from publish_forwarder.tracing import TracedPublishForwarder


async def open_publishing(shared: Shared) -> None:
    """Open the routes and parts that accept messages."""
    parts, stack = shared.parts, shared.stack
    forwarded = ForwardedRepository(shared.database)
    kind: Callable[..., PublishForwarder] = PublishForwarder
    if shared.tracer is not None:
        kind = partial(TracedPublishForwarder, shared.tracer)
    publisher = kind(
        shared.catalog,
        shared.store,
        publish_settings.load(),
        forwarded=forwarded,
        schemas=shared.schema_catalog,
        workshop=shared.workshop,
        admits=shared.store.admits,
        weight_of=shared.metered.limiter.weight,
        quotas=shared.metered.limiter,
        usage=shared.metered.meter,
    )
    await publisher.start()
    stack.push_async_callback(publisher.close)
    parts.routes += publish_routes.routes(publisher)
