"""An endpoint's side of webhooks, without a framework: bytes and headers in, an answer out.

    receiver = Receiver("whsec_…")
    status, headers, body = receiver.answer(body, headers, handle)

The adapters beside this module (`starlette`, `flask`, `django`) do the same within a framework.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import ParamSpec, TypeVar

from packetboat.webhooks import answers
from packetboat.webhooks.answers import TAKEN, Answer, Pace
from packetboat.webhooks.deliveries import Challenge, Delivery, Format, Message
from packetboat.webhooks.errors import DeliverLater, Outcome, WebhookError
from packetboat.webhooks.headers import Given, Headers
from packetboat.webhooks.parsing import FORMATS, parse
from packetboat.webhooks.seen import RecentIds, SeenIds
from packetboat.webhooks.signatures import (
    ID,
    TOLERANCE_S,
    check_signature,
    check_timestamp,
    secrets_of,
)
from packetboat.webhooks.tokens import Tokens

Handler = Callable[[Delivery], Pace | None]
P = ParamSpec("P")
R = TypeVar("R")
AsyncHandler = Callable[[Delivery], Awaitable[Pace | None]]
BUSY_S = 1.0
"""Seconds after which a message comes again that another request is handling."""


class Receiver:
    """The checks of requests, and the memory of earlier ones. Threads may share it."""

    def __init__(
        self,
        secrets: str | Iterable[str] = (),
        *,
        format: Format = "json",
        tokens: Tokens | None = None,
        seen: SeenIds | None = None,
        tolerance_s: float = TOLERANCE_S,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """Create a receiver.

        `secrets` are `whsec_…` and `whpk_…`, several while they change. With `tokens` bearer tokens
        are checked, too. With `seen` handlers do not get a taken message again, not even one that
        is sent again on purpose (`:replay`), while it is remembered. Raises ValueError if nothing
        would be checked, or a secret is not valid.
        """
        if format not in FORMATS:
            raise ValueError(f"format is one of {', '.join(sorted(FORMATS))}; {format} is not")
        self._secrets = secrets_of(secrets)
        if not self._secrets and tokens is None:
            raise ValueError("give the subscription's signing secret (whsec_… or whpk_…)")
        self._format: Format = format
        self._tokens = tokens
        self._seen = seen
        self._tolerance_s = tolerance_s
        self._clock = clock
        self._blocks = tokens is not None or not isinstance(seen, RecentIds | None)
        """Whether it may wait for a network, and does not belong into an event loop."""

    def verify(self, body: bytes, headers: Given) -> Delivery | Challenge:
        """Verify a request; `body` is unparsed, as it came.

        Raises WebhookError; with `tokens` also OSError, if the keys cannot be fetched.
        """
        known = Headers(headers)
        known.one(ID)
        check_timestamp(known, self._clock(), self._tolerance_s)
        if self._secrets:
            check_signature(known, body, self._secrets)
        if self._tokens is not None:
            self._tokens.check(known)
        return parse(known, body, self._format)

    def answer(self, body: bytes, headers: Given, handler: Handler) -> Answer:
        """Answer a request with the help of a handler.

        Exceptions of the handler other than DeliverLater, Reject and Gone reach the caller, whose
        framework answers 500: the message comes again.
        """
        opened = self.open(body, headers)
        if isinstance(opened, Answer):
            return opened
        try:
            returned = handler(opened)
        except BaseException as error:
            return self.not_taken(opened, error)
        return self.taken(opened, returned)

    async def answer_async(self, body: bytes, headers: Given, handler: AsyncHandler) -> Answer:
        """Answer a request for asyncio; calls that may block run in a thread."""
        opened = await self._aside(self.open, body, headers)
        if isinstance(opened, Answer):
            return opened
        try:
            returned = await handler(opened)
        except BaseException as error:
            return await self._aside(self.not_taken, opened, error)
        return await self._aside(self.taken, opened, returned)

    def open(self, body: bytes, headers: Given) -> Answer | Delivery:
        """Return the delivery to handle, or the answer where there is none.

        A delivery ends in `taken` or `not_taken`.
        """
        try:
            found = self.verify(body, headers)
            if isinstance(found, Challenge):
                return answers.challenge(found.text)
            return TAKEN if found.is_test else self._unseen(found)
        except (WebhookError, Outcome) as error:
            return answers.refused(error)
        except OSError as error:
            return answers.refused(DeliverLater(str(error)))

    def taken(self, delivery: Delivery, returned: object) -> Answer:
        """Return the answer to a delivery that a handler took.

        Raises TypeError for an invalid result.
        """
        try:
            answer = answers.taken(returned)
        except TypeError:
            self._tell(delivery, was_taken=False)
            raise
        self._tell(delivery, was_taken=True)
        return answer

    def not_taken(self, delivery: Delivery, error: BaseException) -> Answer:
        """Return the answer to a delivery whose handler raised `error`; raise it again if
        it is no Outcome.
        """
        self._tell(delivery, was_taken=False)
        if not isinstance(error, Outcome):
            raise error
        return answers.refused(error)

    def _unseen(self, delivery: Delivery) -> Answer | Delivery:
        """Return the messages of a delivery that nobody has taken.

        Raises DeliverLater if another request is handling one of them.
        """
        if self._seen is None:
            return delivery
        begun: list[Message] = []
        for message in delivery.messages:
            state = self._seen.begin(message.message_id)
            if state == "new":
                begun.append(message)
            elif state == "working":
                self._seen.failed([one.message_id for one in begun])
                raise DeliverLater(f"message {message.message_id} is being handled", after_s=BUSY_S)
        return replace(delivery, messages=tuple(begun)) if begun else TAKEN

    def _tell(self, delivery: Delivery, *, was_taken: bool) -> None:
        if self._seen is not None:
            ids = [message.message_id for message in delivery.messages]
            (self._seen.done if was_taken else self._seen.failed)(ids)

    async def _aside(self, call: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
        if self._blocks:
            return await asyncio.to_thread(call, *args, **kwargs)
        return call(*args, **kwargs)


def verify(
    body: bytes,
    headers: Given,
    secrets: str | Iterable[str],
    *,
    format: Format = "json",
    tolerance_s: float = TOLERANCE_S,
) -> Delivery | Challenge:
    """Return the content of a signed request.

    Raises WebhookError. A Receiver does more: it remembers the messages that it took, checks bearer
    tokens, and opens its secrets once.
    """
    receiver = Receiver(secrets, format=format, tolerance_s=tolerance_s)
    return receiver.verify(body, headers)
