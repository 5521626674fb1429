"""Certificates of peers, for tests."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from peering.authority import Issued, issue, make_authority
from peering.settings import DEFAULT_NAME, PeerSettings, PeerTlsMode
from peering.tls import PeerTls


class Certificates:
    """A CA, and the files of one process."""

    def __init__(self, directory: Path, authority: Issued | None = None) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.authority = authority or make_authority("a CA of tests")
        self.ca = directory / "ca.pem"
        self.certificate = directory / "cert.pem"
        self.key = directory / "key.pem"
        self.ca.write_bytes(self.authority.certificate)
        self.issue()

    def issue(
        self, name: str = DEFAULT_NAME, *, days: float = 2, now: datetime | None = None
    ) -> None:
        """Issue another certificate, written over the present one."""
        issue(self.authority, name, days=days, now=now).write(self.certificate, self.key)

    def trust(self, *authorities: Issued) -> None:
        """Trust these authorities only, from now on."""
        self.ca.write_bytes(b"".join(one.certificate for one in authorities))

    def settings(
        self, mode: PeerTlsMode = PeerTlsMode.REQUIRE, name: str = DEFAULT_NAME
    ) -> PeerSettings:
        return PeerSettings(mode, self.ca, self.certificate, self.key, name)

    def tls(self, mode: PeerTlsMode = PeerTlsMode.REQUIRE, name: str = DEFAULT_NAME) -> PeerTls:
        return PeerTls(self.settings(mode, name))

    def environment(self, mode: PeerTlsMode = PeerTlsMode.REQUIRE) -> dict[str, str]:
        """Return the settings of a process as environment variables."""
        return {
            "PACKETBOAT_PEER_TLS": mode.value,
            "PACKETBOAT_PEER_TLS_CA": str(self.ca),
            "PACKETBOAT_PEER_TLS_CERT": str(self.certificate),
            "PACKETBOAT_PEER_TLS_KEY": str(self.key),
        }
