"""A server process: the parts of its role, served on uvloop until told to stop.

Stopping, in this order: readiness off → long-polls answered with what they have → what still comes
is answered, for `linger_s` at most, each as the last of its connection → running requests finish →
listening sockets close → leases are released → exit. `drain_s` bounds all of it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable

import structlog
import uvloop
from hypercorn.config import Config

from edge.lifetime import keep_running
from edge.tracing import Tracer
from gateway import descriptors, heap, logs, metrics
from gateway.addresses import CannotListen, bound
from gateway.app import create_app
from gateway.configuration.settings import Listener, ServerSettings
from gateway.http.dispatch import Dispatcher
from gateway.http.request import MAX_HEAD_BYTES
from gateway.http.server import HttpServer
from gateway.http.unsent import UnsentLimits
from gateway.telemetry.opening import open_telemetry
from gateway.wiring.opening import open_parts
from gateway.wiring.parts import Parts
from metadata.postgres.database_schema import UnfitSchema
from peering.tls import PeerTlsError

MAX_STREAMS = 100
"""The number of streams that one connection of HTTP/2 may have at once."""
GRACE_S = 1.0
LAST_MARGIN_S = 2.0
_log = structlog.get_logger("packetboat.server")


def run(
    settings: ServerSettings,
    *,
    shared: bool = False,
    loop_factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop,
) -> int:
    """Serves until SIGTERM or SIGINT; returns the exit code: 1 where it can't begin, 2 where
    what it is given can't be right. `shared`: other processes serve the same port."""
    logs.configure(settings.log_level, role=settings.role.value)
    descriptors.raise_limit(settings.max_connections + descriptors.BESIDE_CONNECTIONS)
    heap.give_back_freed()
    try:
        listener = listen(settings.host, settings.port, shared=shared)
        with (
            metrics.served(
                settings.metrics_host,
                settings.metrics_port,
                shared=shared,
                old_names=settings.metrics_old_names,
            ),
            asyncio.Runner(loop_factory=loop_factory) as runner,
        ):
            runner.run(_serve_observed(settings, listener))
    except (UnfitSchema, PeerTlsError, CannotListen) as error:
        _log.error("not started", reason=str(error))
        return 1 if isinstance(error, UnfitSchema) else 2
    return 0


def listen(host: str, port: int, *, shared: bool = False) -> socket.socket:
    """Return a bound TCP socket; `shared` lets several processes bind the same port.

    Raises CannotListen.
    """
    listener = bound(host, port, shared=shared)
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    listener.setblocking(False)
    return listener


async def _serve_observed(settings: ServerSettings, listener: socket.socket) -> None:
    async with open_telemetry(settings.role.value) as tracer:
        await _serve(settings, listener, tracer)


async def _serve(settings: ServerSettings, listener: socket.socket, tracer: Tracer | None) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    watchdog = asyncio.ensure_future(_exit_at_deadline(stop, settings.drain_s + LAST_MARGIN_S))
    try:
        async with open_parts(settings, tracer) as parts:
            app = create_app(
                parts.routes,
                parts.verifier,
                parts.readiness,
                access_log_every=settings.access_log_every,
                body_timeout_s=settings.body_timeout_s,
                cors_origins=settings.cors_origins,
                tickets=parts.tickets,
                admission=parts.admission,
                quotas=parts.quotas,
                usage=parts.usage,
            )
            sweeper = asyncio.ensure_future(keep_running(app.sweep, "sweep of requests"))
            try:
                server = HttpServer(
                    app,
                    hypercorn_config(),
                    own=settings.http_listener is Listener.OWN,
                    http2=settings.http2,
                    unsent=UnsentLimits(
                        settings.max_unsent_bytes_of_connection,
                        settings.max_unsent_bytes_of_tenant,
                        settings.max_unsent_bytes,
                        settings.send_timeout_s,
                    ),
                    turn_away=app.turned_away,
                    direct=app.direct,
                    max_connections=settings.max_connections,
                    max_connections_of_address=settings.max_connections_of_address,
                )
                await server.start(listener)
                heap.freeze()
                await stop.wait()
                await _drain(parts, app, server, settings)
                await server.close(GRACE_S)
            finally:
                sweeper.cancel()
    finally:
        watchdog.cancel()


async def _drain(
    parts: Parts, app: Dispatcher, server: HttpServer, settings: ServerSettings
) -> None:
    """Drain the process, from the signal until the rest may be cut."""
    _log.info("stopping", in_flight=app.running.count)
    parts.readiness.draining = server.leaving = True
    parts.drain()
    try:
        async with asyncio.timeout(settings.drain_s):
            await server.leave(settings.linger_s)
            await app.running.until_idle()
    except TimeoutError:
        _log.warning("drain deadline passed", in_flight=app.running.count)


async def _exit_at_deadline(stop: asyncio.Event, seconds: float) -> None:
    """Exit at the deadline, as a last resort: a stop never hangs, whatever does not end."""
    await stop.wait()
    await asyncio.sleep(seconds)
    _log.error("forced exit: the stop did not end in time", seconds=seconds)
    os._exit(1)


def hypercorn_config() -> Config:
    """Return the settings of the connections that are Hypercorn's."""
    config = Config()
    config.keep_alive_max_requests = 2**62
    config.keep_alive_timeout = 75.0
    config.h11_max_incomplete_size = MAX_HEAD_BYTES
    config.h2_max_header_list_size = MAX_HEAD_BYTES
    config.h2_max_concurrent_streams = MAX_STREAMS
    config.include_server_header = False
    config.accesslog = None
    config.loglevel = "WARNING"
    return config
