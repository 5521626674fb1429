"""How a client behaves: one frozen value, shared by all that is made of it."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field

from packetboat.publisher.settings import PublisherSettings


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """`urls` are tried in turn when one does not answer; the first is preferred."""

    urls: tuple[str, ...] = ("http://127.0.0.1:8080",)
    token: str | None = field(default=None, repr=False)
    retry_for_s: float = 10.0
    """A call that did not take effect is sent again until then; 0: never."""
    timeout_s: float = 30.0
    """One try, beside what it asks the server to wait."""
    connect_timeout_s: float = 5.0
    proxy: str | None = field(default=None, repr=False)
    """`http://`, `https://` or `socks5://`, with user and password if need be."""
    trust_env: bool = True
    """Without `proxy`: HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY say it."""
    tls: Tls = Tls()
    max_connections: int = 100
    keep_alive_s: float = 30.0
    http2: bool = False
    """Needs the `h2` package; requests of one client then share a connection."""
    publisher: PublisherSettings = PublisherSettings()

    def replace(self, **changes: object) -> Options:
        """The same but for these."""
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]
