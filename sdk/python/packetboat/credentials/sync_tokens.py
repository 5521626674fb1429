"""Access tokens of a blocking client: threads that need one share one request for it."""

from __future__ import annotations

import threading
from time import monotonic

from packetboat.credentials import token_endpoint
from packetboat.credentials.kinds import ClientCredentials
from packetboat.credentials.token_endpoint import AccessToken
from packetboat.errors import ConnectionFailed, NotDone, PacketboatError
from packetboat.transport import forking
from packetboat.transport.seam import Transport

AGAIN_S = 5.0
"""Seconds before the next try after a failure, while the token still holds."""


class IssuedTokens:
    """`transport` reaches the token endpoint."""

    def __init__(self, credentials: ClientCredentials, transport: Transport) -> None:
        self._credentials = credentials
        self._transport = transport
        self._token: AccessToken | None = None
        self._renewal: _Renewal | None = None
        self._lock = threading.Lock()
        forking.watch(self)

    def current(self, timeout_s: float) -> str:
        """Return a token that holds.

        While one does, only the thread that requests the next waits for it.
        """
        with self._lock:
            token, now_s = self._token, monotonic()
            holds = token is not None and now_s < token.ends_s
            if token is not None and holds and (now_s < token.renew_s or self._renewal):
                return token.value
            renewal, ours = self._renewal, self._renewal is None
            if renewal is None:
                renewal = self._renewal = _Renewal()
        if ours:
            self._renew(renewal)
        if token is not None and holds and renewal.error is not None:
            return token.value
        return renewal.result(timeout_s).value

    def refused(self, token: str) -> bool:
        """Return whether there is, or may be, another token: this one was revoked, or our
        clocks differ.
        """
        with self._lock:
            if self._token is not None and self._token.value == token:
                self._token = None
        return True

    def close(self) -> None:
        self._transport.close()

    def _forked(self) -> None:
        """The thread that asked is not in this process."""
        self._lock = threading.Lock()
        self._renewal = None

    def _renew(self, renewal: _Renewal) -> None:
        try:
            renewal.token = self._asked()
        except NotDone as error:
            renewal.error = error
        finally:
            with self._lock:
                self._renewal = None
                if renewal.token is not None:
                    self._token = renewal.token
                elif self._token is not None:
                    self._token = self._token._replace(renew_s=monotonic() + AGAIN_S)
                renewal.done.set()

    def _asked(self) -> AccessToken:
        try:
            response = self._transport.send(token_endpoint.request(self._credentials))
        except PacketboatError as error:
            raise token_endpoint.not_sent(error) from error
        return token_endpoint.read(response, monotonic())


class _Renewal:
    """One request for a token, and all who wait for it."""

    def __init__(self) -> None:
        self.done = threading.Event()
        self.token: AccessToken | None = None
        self.error: NotDone | None = None

    def result(self, timeout_s: float) -> AccessToken:
        if not self.done.wait(timeout_s):
            raise ConnectionFailed("no access token in time")
        if self.token is None:
            raise self.error or ConnectionFailed("no access token: who asked for it gave up")
        return self.token
