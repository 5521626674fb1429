"""Links to the other subscribe forwarders: where this process listens, and how they find it."""

from __future__ import annotations

from typing import NamedTuple

from gateway.middleware.errors import problem_of
from gateway.settings import ServerSettings
from gateway.telemetry.requests import continued
from gateway.wiring.parts import Shared
from subscribe_forwarder.backlogs import exchange
from subscribe_forwarder.fronts import attending
from subscribe_forwarder.links.network import LinkNetwork

GRACE_S = 1.0


class OpenLinks(NamedTuple):
    network: LinkNetwork
    address: str
    """`host:port`, for the others."""


async def open_links(shared: Shared) -> OpenLinks:
    """Open links that listen, and are closed with the parts.

    Raises OSError where the address is not available.
    """
    settings = shared.settings
    assert settings.ack_secret is not None
    lossy = (exchange.SUBJECT, attending.SUBJECT)
    network = LinkNetwork(
        settings.ack_secret,
        problem_of=problem_of,
        lossy=lossy,
        tls=shared.peer_tls,
        around=None if shared.tracer is None else continued,
    )
    port = await network.start(settings.subscribe_link_host, settings.subscribe_link_port)
    shared.stack.push_async_callback(network.close, GRACE_S)
    return OpenLinks(network, advertised(settings, port))


def advertised(settings: ServerSettings, port: int) -> str:
    """Return the address to advertise, as `host:port`.

    `settings` name `host`, `host:port` or nothing; `port` is where the process listens.
    """
    host = settings.subscribe_link_advertise or settings.subscribe_link_host
    if host.startswith("["):
        return host if "]:" in host else f"{host}:{port}"
    if host.count(":") == 1:
        return host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
