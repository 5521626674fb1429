"""Opens the transport of a client as its options say."""

from __future__ import annotations

from packetboat.credentials import token_endpoint
from packetboat.credentials.at_hand import AsyncAtHand, TokenAtHand, TokenOfFile
from packetboat.credentials.authorized import AsyncAuthorized, AsyncTokens, Authorized, Tokens
from packetboat.credentials.kinds import ClientCredentials, Credentials, StaticToken, TokenFile
from packetboat.credentials.sync_tokens import IssuedTokens
from packetboat.options import Options
from packetboat.transport.failover import AsyncFailover, Failover
from packetboat.transport.seam import AsyncTransport, Transport


def open_transport(options: Options, transport: Transport | None = None) -> Transport:
    """Return the transport of a blocking client. A given one replaces the network."""
    transport = transport or _network(options.urls, options)
    if options.credentials is None:
        return transport
    return Authorized(transport, _tokens(options.credentials, transport, options))


def open_async_transport(
    options: Options, transport: AsyncTransport | None = None
) -> AsyncTransport:
    """Return the transport of an asyncio client."""
    transport = transport or _async_network(options.urls, options)
    if options.credentials is None:
        return transport
    return AsyncAuthorized(transport, _async_tokens(options.credentials, transport, options))


def _network(urls: tuple[str, ...], options: Options) -> Transport:
    from packetboat.transport.httpx_sync import HttpxTransport

    servers = [HttpxTransport(url, options) for url in urls]
    return servers[0] if len(servers) == 1 else Failover(servers)


def _async_network(urls: tuple[str, ...], options: Options) -> AsyncTransport:
    from packetboat.transport.httpx_async import AsyncHttpxTransport

    servers = [AsyncHttpxTransport(url, options) for url in urls]
    return servers[0] if len(servers) == 1 else AsyncFailover(servers)


def _tokens(credentials: Credentials, transport: Transport, options: Options) -> Tokens:
    if isinstance(credentials, ClientCredentials):
        issuer = token_endpoint.origin(credentials)
        return IssuedTokens(
            credentials, transport if issuer is None else _network((issuer,), options)
        )
    return _at_hand(credentials)


def _async_tokens(
    credentials: Credentials, transport: AsyncTransport, options: Options
) -> AsyncTokens:
    if isinstance(credentials, ClientCredentials):
        from packetboat.credentials.async_tokens import AsyncIssuedTokens  # imports asyncio

        issuer = token_endpoint.origin(credentials)
        return AsyncIssuedTokens(
            credentials, transport if issuer is None else _async_network((issuer,), options)
        )
    return AsyncAtHand(_at_hand(credentials))


def _at_hand(credentials: StaticToken | TokenFile) -> TokenAtHand | TokenOfFile:
    if isinstance(credentials, StaticToken):
        return TokenAtHand(credentials)
    return TokenOfFile(credentials)
