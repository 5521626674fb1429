"""The options of a client: one frozen value, which all parts of the client share."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from packetboat.credentials.kinds import Credentials
from packetboat.publisher.settings import PublisherSettings

DEFAULT_URL = "http://127.0.0.1:8080"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tls:
    """The certificates by which the client knows servers, and by which they know the client."""

    verify: bool = True
    """Whether certificates are verified; False accepts any server, and warns loudly."""
    ca_file: str | None = None
    """The file of the only trusted authorities; None: those of the system, or of certifi."""
    certificate_file: str | None = None
    key_file: str | None = None
    key_password: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.key_file is not None and self.certificate_file is None:
            raise ValueError("key_file needs certificate_file")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of a client. Clients with equal options behave alike."""

    urls: tuple[str, ...] = (DEFAULT_URL,)
    """The servers of one installation.

    The client asks the first; when it can't be reached or answers 503, the next.
    """
    urls_from: str = field(default="the program's options", compare=False, repr=False)
    """The source of the URLs, which errors show beside the server. Empty: no network is used."""
    credentials: Credentials | None = None
    retry_for_s: float = 10.0
    """Seconds for which a call that did not take effect is sent again; 0: never."""
    timeout_s: float = 30.0
    """Seconds for one try, beside the time that it asks the server to wait.

    `timeout_s` of a call bounds that call, all tries and pauses included; of a stream it bounds
    each opening.
    """
    connect_timeout_s: float = 5.0
    proxy: str | None = field(default=None, repr=False)
    """`http://`, `https://` or `socks5://`, with user and password if need be."""
    trust_env: bool = True
    """Whether HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY count where `proxy` is not given.

    Nothing else of the environment is read.
    """
    tls: Tls = field(default_factory=Tls)
    max_connections: int = 100
    """The limit of connections to each server; a waiting pull holds one.

    A call without a free connection waits for one.
    """
    keep_alive_s: float = 30.0
    """Seconds after which an unused connection is closed; servers do so after 75 s."""
    http2: bool = False
    """The extra `http2` is needed. Requests share a connection, and then wait for each other's lost
    packets; HTTP/1.1 is faster here."""
    publisher: PublisherSettings = field(default_factory=PublisherSettings)

    def __post_init__(self) -> None:
        if not self.urls:
            raise ValueError("urls must not be empty")
        for url in self.urls:
            _check_url(url)
        for name in ("timeout_s", "connect_timeout_s", "max_connections"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} must be more than 0")
        for name in ("retry_for_s", "keep_alive_s"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} must not be negative")

    @property
    def server(self) -> str | None:
        """The URLs and their source, as errors and warnings show them."""
        return f"{', '.join(self.urls)}, from {self.urls_from}" if self.urls_from else None

    def replace(self, **changes: Any) -> Options:
        """Return the same options with these changes."""
        return dataclasses.replace(self, **changes)


def _check_url(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{url!r} is no URL of a server: https://host or https://host:port")
    if parts.username is not None:
        raise ValueError(f"the URL of {parts.hostname} must not have a user or password")
    if parts.query or parts.fragment:
        raise ValueError(f"{url!r} must have neither a query nor a fragment")
