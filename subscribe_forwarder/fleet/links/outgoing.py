"""The asking side of a request or question, from its frame to the end of its answer.

A request is run by the task that made it: what the link hears of it is put into its inbox, bounded
by the window of the answer. A second task reads the client's side, for a body that is not whole
yet, and for the client going away once an answer is not there at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from edge.asgi import ClientGone, Receive, Send
from subscribe_forwarder.fleet.links.problems import problem_in
from subscribe_forwarder.fleet.links.window import Window
from subscribe_forwarder.fleet.links.wire import (
    CHUNK_BYTES,
    WINDOW_BYTES,
    Answer,
    Body,
    Chunk,
    Ended,
    Gone,
    LinkConnection,
    Offer,
    Raised,
    Reply,
    Taken,
    ToAsker,
    Verdict,
    Written,
)
from subscribe_forwarder.peers import PeerGone


class OutgoingQuestion:
    """One small message, one answer."""

    __slots__ = ("answer",)

    def __init__(self) -> None:
        self.answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()

    def frame(self, head: ToAsker, body: bytes) -> None:
        if self.answer.done():
            return
        if type(head) is Reply:
            self.answer.set_result(body)
        elif type(head) is Raised:
            self.answer.set_exception(problem_in(head))

    def fail(self, error: Exception) -> None:
        if not self.answer.done():
            self.answer.set_exception(error)


class OutgoingRequest:
    """Made for each, so it holds only what must be known."""

    __slots__ = (
        "_begun",
        "_connection",
        "_ended",
        "_error",
        "_id",
        "_inbox",
        "_interrupted",
        "_lost",
        "_race",
        "_reader",
        "_receive",
        "_send",
        "_sender",
        "_settled",
        "_waker",
        "_window",
    )

    def __init__(
        self,
        connection: LinkConnection,
        request_id: int,
        receive: Receive,
        send: Send,
        race: Callable[[], Awaitable[bool]] | None,
    ) -> None:
        self._connection = connection
        self._id = request_id
        self._receive = receive
        self._send = send
        self._race = race
        self._inbox: deque[tuple[ToAsker, bytes]] = deque()
        self._waker: asyncio.Future[None] | None = None
        self._error: BaseException | None = None
        self._begun = self._lost = self._interrupted = False
        self._settled = self._ended = False
        self._window: Window | None = None
        self._reader: asyncio.Task[None] | None = None
        self._sender: asyncio.Task[object] | None = None

    # Calls of the link.

    def frame(self, head: ToAsker, body: bytes) -> None:
        if type(head) is Taken:
            if self._window is not None:
                self._window.confirmed(head.bytes)
        elif type(head) is Ended and self._sender is not None:
            # Nothing more comes; a client that does not read what came before is not waited for.
            self._settled = True
            self.fail(PeerGone("the answer broke off"))
        else:
            self._inbox.append((head, body))
            self._wake()

    def fail(self, error: BaseException) -> None:
        """Fail; frames that have come whole are still answered, unless they are on their
        way to the client.
        """
        if self._error is None:
            self._error = error
        if self._window is not None:
            self._window.close()
        self._wake()
        if self._sender is not None and self._sender is not asyncio.current_task():
            self._interrupted = True
            self._sender.cancel()

    def watch(self) -> None:
        """The answer was not there at once: from now on the client is watched."""
        if self._reader is None and not self._ended:
            self._read_on(self._read())

    def send_rest(self, sent_bytes: int, rest: memoryview, *, more: bool) -> None:
        """Send the rest of the body: the unsent end of its first part, and `more` that is
        not read yet.
        """
        self._window = Window()
        self._window.unconfirmed_bytes = sent_bytes
        self._read_on(self._read_body(rest, more=more))

    # The run of the request.

    async def run(self) -> None:
        """Pass on the answer. Raises PeerGone, ClientGone, a Problem, what `receive` raises."""
        while True:
            while self._inbox:
                if await self._take(*self._inbox.popleft()):
                    return
            if self._error is not None:
                raise self._error
            self._waker = asyncio.get_running_loop().create_future()
            await self._waker

    def end(self) -> None:
        """Last call; a peer that still works for it is told to stop."""
        self._ended = True
        if self._reader is not None:
            self._reader.cancel()
        if not self._settled:
            self._connection.send_or_cut(Gone(self._id))

    async def _take(self, head: ToAsker, body: bytes) -> bool:
        """Take a frame of the answer; True: that was all."""
        if isinstance(head, Answer | Chunk):
            return await self._pass_on(head, body)
        if isinstance(head, Offer) and self._race is not None:
            won = await self._race()
            self._lost = not won
            self._connection.send_or_cut(Verdict(self._id, won))
            return False
        self._settled = True
        if isinstance(head, Raised) and not self._begun:
            raise problem_in(head)
        if isinstance(head, Ended) and self._lost and not self._begun:
            return True
        raise PeerGone("the answer is not whole")

    async def _pass_on(self, head: Answer | Chunk, body: bytes) -> bool:
        if isinstance(head, Answer) is self._begun:
            raise PeerGone("the answer is out of order")
        self._begun = True
        self._sender = task = asyncio.current_task()
        assert task is not None
        cancelling = task.cancelling()
        try:
            if isinstance(head, Answer):
                await self._send(
                    {
                        "type": "http.response.start",
                        "status": head.status,
                        "headers": head.headers,
                    }
                )
            await self._send({"type": "http.response.body", "body": body, "more_body": head.more})
        except asyncio.CancelledError:
            if self._error is None or not self._interrupted or task.uncancel() > cancelling:
                raise  # not by `fail`, or not by it alone
            raise self._error from None
        finally:
            self._sender = None
        self._connection.send_or_cut(Written(self._id, len(body), not head.more))
        self._settled = not head.more
        return not head.more

    # The client's side.

    def _read_on(self, reading: Coroutine[Any, Any, None]) -> None:
        self._reader = asyncio.get_running_loop().create_task(reading)
        self._reader.add_done_callback(self._read_ended)

    async def _read(self) -> None:
        message = await self._receive()
        if message["type"] != "http.disconnect":
            raise RuntimeError(f"{message['type']} after the body")
        raise ClientGone

    async def _read_body(self, part: memoryview, *, more: bool) -> None:
        """Read the rest of the body, then until the client goes away."""
        if part:
            await self._send_body(part, more=more)
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            more = message.get("more_body", False)
            await self._send_body(memoryview(message.get("body", b"")), more=more)
        await self._read()

    async def _send_body(self, part: memoryview, *, more: bool) -> None:
        """Send a part of the body in chunks, with never more than the window unconfirmed."""
        assert self._window is not None
        at = 0
        while True:
            chunk = part[at : at + CHUNK_BYTES]
            at += len(chunk)
            await self._window.below(WINDOW_BYTES - len(chunk))
            await self._connection.room(len(chunk))
            self._window.unconfirmed_bytes += len(chunk)
            self._connection.send_or_cut(Body(self._id, more or at < len(part)), [chunk])
            if at >= len(part):
                return

    def _read_ended(self, reader: asyncio.Task[None]) -> None:
        """Fail with the reader's error.

        That may be a cancellation that means the request: a body that stalls is ended by one.
        """
        error = asyncio.CancelledError() if reader.cancelled() else reader.exception()
        if self._ended or error is None:
            return
        if isinstance(error, ClientGone):
            self._inbox.clear()
        self.fail(error)

    def _wake(self) -> None:
        if self._waker is not None and not self._waker.done():
            self._waker.set_result(None)
