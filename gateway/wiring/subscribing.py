"""The subscribe role's parts."""

from __future__ import annotations

from gateway.middleware.errors import problem_of
from gateway.stream_tickets import StreamTickets
from gateway.telemetry.requests import continued
from gateway.wiring.parts import Shared
from publish_forwarder.opening import open_output_reader
from subscribe_forwarder.opening import Process, open_subscribe_forwarder


async def open_subscribing(shared: Shared) -> None:
    """Open the delivery of messages, and the tickets of its streams."""
    settings, parts = shared.settings, shared.parts
    assert settings.ack_secret is not None
    process = Process(
        database=shared.database,
        store=shared.store,
        history=shared.history,
        catalog=shared.catalog,
        feed=shared.feed,
        outputs=open_output_reader(shared.catalog, shared.schema_catalog, shared.process_pool),
        process_pool=shared.process_pool,
        load=parts.load,
        limits=shared.metered.limiter,
        usage=shared.metered.meter,
        egress=shared.egress,
        sealer=shared.sealer,
        endpoint_tokens=shared.identity.tokens.push,
        tracer=shared.tracer,
        problem_of=problem_of,
        around_peers=None if shared.tracer is None else continued,
        peer_tls=shared.peer_tls,
        ack_key=settings.ack_secret,
        link_host=settings.subscribe_link_host,
        link_port=settings.subscribe_link_port,
        link_advertise=settings.subscribe_link_advertise,
        weight=settings.subscribe_weight,
        egress_proxy=settings.egress_proxy,
        trace_file=settings.subscribe_trace_file,
    )
    forwarder = await open_subscribe_forwarder(shared.stack, process)
    parts.readiness.add("subscribe", forwarder.not_ready_reason)
    parts.drains.append(forwarder.drain)
    parts.routes += forwarder.routes
    sealer = shared.sealer if settings.stream_tickets else None
    parts.tickets = StreamTickets(sealer, forwarder.find_subscription)
    parts.routes += parts.tickets.routes()
