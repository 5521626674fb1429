"""TLS between processes of the platform: both sides show a certificate.

A peer may speak if it has a certificate of our CA with the installation's name *and* proves the
secret that the protocol inside asks for. Certificates carry that name and no address, because
processes move; the protocol inside says which process it is. Only TLS 1.3 is spoken, and no session
is resumed, so that each connection is judged by the present certificates.

The files are checked every few seconds. New ones count for connections made from then on; open
connections stay. Unusable files (a key that is not the certificate's, half a file) are logged and
counted, and the last good ones stay in use.
"""

from __future__ import annotations

import asyncio
import ssl
import time
from pathlib import Path
from typing import NamedTuple

import structlog

from peering import certificate, metrics
from peering.settings import PREFIX, PeerSettings, PeerTlsMode

LOOK_EVERY_S = 5.0
_log = structlog.get_logger("packetboat.peering")


class PeerTlsError(ValueError):
    """The files cannot be used; the text names the file."""


class Dialing(NamedTuple):
    """The TLS arguments of `create_connection` for a dialer."""

    context: ssl.SSLContext | None = None
    name: str | None = None
    """The name that the other side's certificate must have."""


class _Contexts(NamedTuple):
    dialing: ssl.SSLContext
    listening: ssl.SSLContext


class PeerTls:
    """TLS contexts made from the files, and again when those change; used on one event loop."""

    def __init__(self, settings: PeerSettings) -> None:
        """Read the files, for a mode other than off; raises PeerTlsError."""
        assert settings.tls is not PeerTlsMode.OFF
        self.mode = settings.tls
        self._settings = settings
        self._files = (settings.tls_ca, settings.tls_cert, settings.tls_key)
        self._stamp = _stamp(self._files)
        self._contexts = self._read()

    def dialing(self) -> Dialing:
        """Return the TLS arguments for the next connection to dial."""
        if not self.mode.dials_tls:
            return Dialing()
        return Dialing(self._contexts.dialing, self._settings.tls_name)

    def listening(self) -> ssl.SSLContext:
        """Return the context for the next connection that arrives with TLS."""
        return self._contexts.listening

    async def watch(self) -> None:
        """Check for changed files until this is cancelled."""
        while True:
            await asyncio.sleep(LOOK_EVERY_S)
            self.refresh()

    def refresh(self) -> None:
        """Read the files again if they have changed."""
        stamp = _stamp(self._files)
        if stamp == self._stamp:
            return
        self._stamp = stamp
        try:
            self._contexts = self._read()
        except PeerTlsError as error:
            metrics.unread.set(1)
            _log.error("changed certificates can't be used; the old ones hold", reason=str(error))

    def _read(self) -> _Contexts:
        settings = self._settings
        own = _read_certificates("CERT", settings.tls_cert)[0]
        fault = own.fault(settings.tls_name, time.time())
        if fault is not None:
            raise PeerTlsError(f"{PREFIX}TLS_CERT: {settings.tls_cert}: {fault}")
        trusted_until_s = max(one.until_s for one in _read_certificates("CA", settings.tls_ca))
        contexts = _Contexts(
            self._context(ssl.PROTOCOL_TLS_CLIENT), self._context(ssl.PROTOCOL_TLS_SERVER)
        )
        metrics.ends.labels("own").set(own.until_s)
        metrics.ends.labels("ca").set(trusted_until_s)
        metrics.unread.set(0)
        days_left = round((own.until_s - time.time()) / 86_400, 1)
        _log.info("peer certificate read", subject=own.subject, days_left=days_left)
        return contexts

    def _context(self, side: int) -> ssl.SSLContext:
        settings = self._settings
        context = ssl.SSLContext(side)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_mode = ssl.CERT_REQUIRED
        try:
            context.load_verify_locations(settings.tls_ca)
        except (OSError, ssl.SSLError) as error:
            raise PeerTlsError(f"{PREFIX}TLS_CA: {settings.tls_ca}: {error}") from None
        try:
            # An encrypted key is refused, not asked for at a terminal.
            context.load_cert_chain(settings.tls_cert, settings.tls_key, password=_no_password)
        except (OSError, ssl.SSLError, ValueError) as error:
            raise PeerTlsError(f"{PREFIX}TLS_KEY: {settings.tls_key}: {error}") from None
        if side == ssl.PROTOCOL_TLS_SERVER:
            context.num_tickets = 0
            context.sslobject_class = _knowing(settings.tls_name)
        return context


def open_peer_tls(settings: PeerSettings) -> PeerTls | None:
    """Return the TLS of the settings, or None if it is off; raises PeerTlsError."""
    return None if settings.tls is PeerTlsMode.OFF else PeerTls(settings)


def dialing(tls: PeerTls | None) -> Dialing:
    """Return the TLS arguments for the next connection to dial; none without TLS."""
    return tls.dialing() if tls is not None else Dialing()


def _knowing(name: str) -> type[ssl.SSLObject]:
    """Return a class that checks a client's certificate for a name.

    The library checks the name of dialed servers only. This class checks clients within the
    handshake, before any byte of theirs is read.
    """

    class Knowing(ssl.SSLObject):
        def do_handshake(self) -> None:
            super().do_handshake()
            shown = self.getpeercert() or {}
            if ("DNS", name) not in shown.get("subjectAltName", ()):
                raise ssl.SSLCertVerificationError(f"the certificate is not for the name {name}")

    return Knowing


def _read_certificates(variable: str, path: Path) -> list[certificate.Certificate]:
    try:
        return certificate.read(path.read_bytes())
    except (OSError, ValueError) as error:
        raise PeerTlsError(f"{PREFIX}TLS_{variable}: {path}: {error}") from None


def _no_password() -> str:
    raise ValueError("the key is encrypted")


def _stamp(files: tuple[Path, ...]) -> tuple[tuple[int, int, int] | None, ...]:
    """Return a value that differs once a file was written, replaced or pointed elsewhere."""
    return tuple(map(_stamp_of, files))


def _stamp_of(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size
