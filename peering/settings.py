"""Settings of TLS between processes: the one place of peering that reads the environment.

A running installation is changed by one round of restarts for each line:

    mode       listens for     dials
    off        plain           plain
    accept     plain and TLS   plain
    prefer     plain and TLS   TLS
    require    TLS             TLS

Each line understands the one before and the one after. No dialer ever falls back from TLS to plain.
"""

from __future__ import annotations

import enum
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

PREFIX = "PACKETBOAT_PEER_"
DEFAULT_NAME = "packetboat-peer"


class PeerTlsMode(enum.Enum):
    """The transport on which a process listens and dials; see the table above."""

    OFF = "off"
    ACCEPT = "accept"
    PREFER = "prefer"
    REQUIRE = "require"

    @property
    def listens_plain(self) -> bool:
        return self is not PeerTlsMode.REQUIRE

    @property
    def dials_tls(self) -> bool:
        return self in (PeerTlsMode.PREFER, PeerTlsMode.REQUIRE)


@dataclass(frozen=True, slots=True)
class PeerSettings:
    """`PACKETBOAT_PEER_TLS_CA` sets `tls_ca`, and so on; the same at store nodes and servers."""

    tls: PeerTlsMode = PeerTlsMode.OFF
    tls_ca: Path = Path()
    """PEM: whose certificates are good; several while the CA is being changed."""
    tls_cert: Path = Path()
    """PEM: this process's certificate, then those between it and the CA."""
    tls_key: Path = Path()
    """PEM: its private key, not encrypted."""
    tls_name: str = DEFAULT_NAME
    """The DNS name that every peer's certificate has: which installation it is of."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> PeerSettings:
        """Raises ValueError: a line for each variable that does not fit."""
        mode = environment.get(f"{PREFIX}TLS", "off")
        files = {
            name: Path(environment.get(f"{PREFIX}{name.upper()}", ""))
            for name in ("tls_ca", "tls_cert", "tls_key")
        }
        name = environment.get(f"{PREFIX}TLS_NAME", DEFAULT_NAME)
        try:
            tls = PeerTlsMode(mode)
        except ValueError:
            known = ", ".join(each.value for each in PeerTlsMode)
            raise ValueError(f"{PREFIX}TLS={mode!r}: one of {known}") from None
        if tls is not PeerTlsMode.OFF:
            faults = [
                f"{PREFIX}{variable.upper()} is needed with {PREFIX}TLS={mode}"
                for variable, path in files.items()
                if path == Path()
            ]
            if not name:
                faults.append(f"{PREFIX}TLS_NAME may not be empty")
            if faults:
                raise ValueError("\n".join(faults))
        return cls(tls=tls, tls_name=name, **files)

    def missing_files(self) -> list[str]:
        """Return a line for each missing file that TLS needs."""
        if self.tls is PeerTlsMode.OFF:
            return []
        return [
            f"{PREFIX}{name.upper()}={str(path)!r}: there is no such file"
            for name, path in (
                ("tls_ca", self.tls_ca),
                ("tls_cert", self.tls_cert),
                ("tls_key", self.tls_key),
            )
            if not path.is_file()
        ]
