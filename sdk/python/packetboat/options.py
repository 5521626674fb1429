"""How a client behaves: one frozen value, shared by all that is made of it."""

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
    """How servers are known, and how we are."""

    verify: bool = True
    """False: anybody may pretend to be the server. Warned of, loudly."""
    ca_file: str | None = None
    """Trusted beside nothing else; None: what the system, or certifi, trusts."""
    certificate_file: str | None = None
    key_file: str | None = None
    key_password: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if self.key_file is not None and self.certificate_file is None:
            raise ValueError("key_file needs certificate_file")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a client behaves. Clients made of equal options behave alike."""

    urls: tuple[str, ...] = (DEFAULT_URL,)
    """Of one installation. The first is asked; when it can't be reached or says 503, the next."""
    urls_from: str = field(default="the program's options", compare=False, repr=False)
    """Who named the URLs: errors say it beside the server. Empty: no network is used."""
    credentials: Credentials | None = None
    retry_for_s: float = 10.0
    """A call that did not take effect is sent again for so long; 0: never."""
    timeout_s: float = 30.0
    """What one try may take, beside the time that it asks the server to wait. `timeout_s` of a call
    bounds that call, all tries and pauses included; of a stream it bounds each opening."""
    connect_timeout_s: float = 5.0
    proxy: str | None = field(default=None, repr=False)
    """`http://`, `https://` or `socks5://`, with user and password if need be."""
    trust_env: bool = True
    """Without `proxy`: HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY say it. Nothing else of the
    environment is read."""
    tls: Tls = field(default_factory=Tls)
    max_connections: int = 100
    """To each server; a pull that waits holds one. Who finds none free waits for one."""
    keep_alive_s: float = 30.0
    """A connection that nobody uses is closed then; servers do so after 75 s."""
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
        """The URLs and who named them, as errors and warnings show them."""
        return f"{', '.join(self.urls)}, from {self.urls_from}" if self.urls_from else None

    def replace(self, **changes: Any) -> Options:
        """The same but for these."""
        return dataclasses.replace(self, **changes)


def _check_url(url: str) -> None:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{url!r} is no URL of a server: https://host or https://host:port")
    if parts.username is not None:
        raise ValueError(f"the URL of {parts.hostname} must not have a user or password")
    if parts.query or parts.fragment:
        raise ValueError(f"{url!r} must have neither a query nor a fragment")
