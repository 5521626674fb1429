"""The reasons why a webhook is not taken, and the answers that a handler may raise.

WebhookError                 `status` is what to answer
├── NotVerified              401: nobody has shown that Packetboat sent it; `header` says where
│   ├── MissingHeader        a header that every request has is not there, or is there twice
│   ├── BadTimestamp         it says no time, or one too far from now
│   ├── BadSignature         no signature is of these bytes, under a secret that is known here
│   └── BadToken             the bearer token is not one for this endpoint
└── Unreadable               400: sent by Packetboat, in another format than is read here

Outcome                      raised by handlers
├── DeliverLater             503: not now; the message comes again, the endpoint is fed less
├── Reject                   422: the message is at fault; an attempt of it is used up
└── Gone                     410: the endpoint is disabled until somebody enables it
"""

from __future__ import annotations

from packetboat.errors import PacketboatError


class WebhookError(PacketboatError):
    """A request that is not taken; the text says why and what to do, and names no secret."""

    status = 400


class NotVerified(WebhookError):
    """Nobody has shown that Packetboat sent it."""

    status = 401

    def __init__(self, header: str, detail: str) -> None:
        super().__init__(f"{header}: {detail}")
        self.header = header


class MissingHeader(NotVerified):
    """A header that every request has is not there, or is there twice."""


class BadTimestamp(NotVerified):
    """`webhook-timestamp` says no time, or one too far from now."""


class BadSignature(NotVerified):
    """No signature is of these bytes, under a secret that is known here."""


class BadToken(NotVerified):
    """The bearer token is not one for this endpoint."""


class Unreadable(WebhookError):
    """Sent by Packetboat, and not in the format that is read here."""


class Outcome(Exception):
    """The answer of a handler to a delivery that it did not take."""

    status = 503

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason)
        self.reason = reason


class DeliverLater(Outcome):
    """Raised when the message cannot be handled now.

    It comes again after its back-off, and after `after_s` at the earliest.
    """

    def __init__(self, reason: str = "", *, after_s: float | None = None) -> None:
        super().__init__(reason)
        self.after_s = after_s


class Reject(Outcome):
    """The message is at fault. It comes again until its `max_attempts` are used up, and is a dead
    letter then; the endpoint is not held to be ill."""

    status = 422


class Gone(Outcome):
    """Nothing is wanted here any more: the endpoint is disabled, and its messages wait."""

    status = 410
