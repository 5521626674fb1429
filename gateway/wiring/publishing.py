"""The publish role's parts."""

from __future__ import annotations

from gateway.wiring.parts import Shared
from metadata.delivery.forwarded import ForwardedRepository
from publish_forwarder.opening import open_publish_forwarder


def open_publishing(shared: Shared) -> None:
    """Open the routes and parts that accept messages."""
    shared.parts.routes += open_publish_forwarder(
        shared.stack,
        catalog=shared.catalog,
        store=shared.store,
        forwarded=ForwardedRepository(shared.database),
        schemas=shared.schema_catalog,
        process_pool=shared.process_pool,
        admits=shared.store.admits,
        weight_of=shared.metered.limiter.weight,
        quotas=shared.metered.limiter,
        usage=shared.metered.meter,
        tracer=shared.tracer,
    )
