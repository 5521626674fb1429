"""The settings of connections to a server: limits, proxies, TLS."""

from __future__ import annotations

import ssl
import urllib.request
import warnings
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit

from packetboat.options import Options, Tls
from packetboat.transport.library import httpx


class InsecureConnection(UserWarning):
    """Certificates are not verified."""


def settings(url: str, options: Options) -> dict[str, Any]:
    """Return the arguments of an httpx transport to this server."""
    return {
        "verify": _context(url, options.tls),
        "trust_env": False,
        "http2": options.http2,
        "limits": httpx.Limits(
            max_connections=options.max_connections,
            max_keepalive_connections=options.max_connections,
            keepalive_expiry=options.keep_alive_s,
        ),
        "proxy": proxy_of(url, options),
    }


def proxy_of(url: str, options: Options) -> str | None:
    """Return the named proxy, else that of the environment; never one for this machine."""
    if options.proxy is not None or not options.trust_env:
        return options.proxy
    parts = urlsplit(url)
    host = parts.hostname or ""
    proxies = urllib.request.getproxies()
    if _is_loopback(host) or urllib.request.proxy_bypass(parts.netloc.rpartition("@")[2]):
        return None
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    return f"http://{proxy}" if proxy and "://" not in proxy else proxy


def _context(url: str, tls: Tls) -> ssl.SSLContext:
    if not url.startswith("https:"):
        return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # trusts nobody; making it costs nothing
    if tls.ca_file is not None:
        context = ssl.create_default_context(cafile=tls.ca_file)
    else:
        context = httpx.create_ssl_context(verify=tls.verify, trust_env=False)
    if not tls.verify:
        warnings.warn(
            f"certificates are not verified: anybody may pretend to be {url}, and read what is"
            " sent there, tokens too",
            InsecureConnection,
            stacklevel=2,
        )
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if tls.certificate_file is not None:
        context.load_cert_chain(tls.certificate_file, tls.key_file, tls.key_password)
    return context


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
