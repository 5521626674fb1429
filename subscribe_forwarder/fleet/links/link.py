"""One link: the requests of this process to a peer, and the peer's requests to it.

A link ends as a whole: every request and question that waits for an answer then fails with
PeerGone, every one that is served here loses its client. A process that heard notes over it forgets
what they told. So the two sides need no memory of each other beyond the link.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import structlog

from edge.asgi import SUBJECT, TENANT, ClientGone, Receive, Scope, Send
from edge.problem import unavailable
from peering.rpc.frames import Goodbye
from subscribe_forwarder.fleet.links import metrics
from subscribe_forwarder.fleet.links.incoming import IncomingRequest
from subscribe_forwarder.fleet.links.outgoing import OutgoingQuestion, OutgoingRequest
from subscribe_forwarder.fleet.links.problems import raised
from subscribe_forwarder.fleet.links.services import Services
from subscribe_forwarder.fleet.links.wire import (
    CHUNK_BYTES,
    MAX_REQUESTS,
    Ended,
    Head,
    LinkConnection,
    Note,
    Ping,
    Pong,
    Question,
    Reply,
    Request,
    ToAsker,
    ToServer,
)
from subscribe_forwarder.peers import PeerGone

MAX_QUEUED_NOTES_BYTES = 8 * 1024 * 1024
"""Beyond it notes are not sent."""
SILENCE_S = 2.5
"""Seconds without a frame after which a peer is given up."""
_log = structlog.get_logger("packetboat.links")


class Link:
    """A Peer, while its connection is open."""

    def __init__(
        self,
        connection: LinkConnection,
        incarnation: bytes,
        services: Services,
        ended: Callable[[Link, str], None],
        *,
        dialled: bool,
    ) -> None:
        self.connection = connection
        self.dialled = dialled
        """Whether this side dialled."""
        self.opened_s = time.monotonic()
        self.listed = False
        """Whether the peer was among the live ones."""
        self._incarnation = incarnation
        self._services = services
        self._ended = ended
        self._asked: dict[int, OutgoingRequest | OutgoingQuestion] = {}
        self._young: list[OutgoingRequest] = []
        self._served: dict[int, IncomingRequest] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._last_id = 0
        self._last_served = 0
        self._counted = [0, 0, 0, 0]
        self._served_count = 0
        self._pinged_s = 0.0
        self._pings = 0

    # The functions of a Peer.

    @property
    def incarnation(self) -> bytes:
        return self._incarnation

    async def request(
        self,
        operation: str,
        scope: Scope,
        receive: Receive,
        send: Send,
        *,
        race: Callable[[], Awaitable[bool]] | None = None,
    ) -> None:
        """See ports.Peer. A lost race returns and has sent nothing. PeerGone after a part of the
        answer went to `send` leaves it broken off. The body is read from `receive`."""
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        body, more = message.get("body", b""), message.get("more_body", False)
        request_id = self._next_id()
        request = OutgoingRequest(self.connection, request_id, receive, send, race)
        self._asked[request_id] = request
        try:
            whole = not more and len(body) <= CHUNK_BYTES
            first = body if whole else memoryview(body)[:CHUNK_BYTES]
            head = _request(request_id, operation, scope, more=not whole, race=race is not None)
            self.connection.send_or_cut(head, [first])
            if whole:
                self._young.append(request)
            else:
                request.send_rest(len(first), memoryview(body)[CHUNK_BYTES:], more=more)
            await request.run()
        finally:
            self._asked.pop(request_id, None)
            request.end()

    async def ask(self, subject: str, body: bytes, timeout_s: float) -> bytes:
        """See ports.Peer. Raises ValueError for a body over wire.MAX_BODY_BYTES."""
        request_id = self._next_id()
        question = OutgoingQuestion()
        self._asked[request_id] = question
        try:
            self.connection.send_or_cut(Question(request_id, subject), [body])
            async with asyncio.timeout(timeout_s):
                return await question.answer
        finally:
            self._asked.pop(request_id, None)

    def note(self, subject: str, body: bytes) -> bool:
        """See ports.Peer. Raises ValueError for a body over wire.MAX_BODY_BYTES.

        Where too much is queued a note that may be lost is; any other ends the link, so that the
        peer does not go on with what it was told before.
        """
        connection = self.connection
        if not connection.open:
            return False
        if connection.queued_bytes + len(body) > MAX_QUEUED_NOTES_BYTES:
            if subject in self._services.lossy:
                metrics.notes_dropped.inc()
            else:
                connection.abort("backed up")
            return False
        connection.send_or_cut(Note(subject), [body])
        return True

    def _next_id(self) -> int:
        if not self.connection.open:
            raise PeerGone("the link is closed")
        if len(self._asked) >= MAX_REQUESTS:
            raise unavailable("subscription", "Too many requests wait for one forwarder.")
        self._last_id += 1
        return self._last_id

    # Calls of the connection.

    def frame(self, head: Head, body: bytes) -> None:
        if isinstance(head, ToAsker):
            asked = self._asked.get(head.id)
            if asked is not None:
                asked.frame(head, body)
        elif isinstance(head, ToServer):
            served = self._served.get(head.id)
            if served is not None:
                served.frame(head, body)
        elif isinstance(head, Request):
            self._on_request(head, body)
        elif isinstance(head, Question):
            self._on_question(head, body)
        elif isinstance(head, Note):
            self._on_note(head, body)
        elif isinstance(head, Ping):
            self.connection.send_or_cut(Pong(head.number))
        elif isinstance(head, Pong):
            self._on_pong(head)
        elif isinstance(head, Goodbye):
            self.connection.abort(f"goodbye: {head.text}")
        else:
            self.connection.close(f"unexpected {type(head).__name__}")

    def closed(self, reason: str) -> None:
        """`ended` first: who is woken by the end of a request then finds what is known now."""
        self._ended(self, reason)
        for asked in list(self._asked.values()):
            asked.fail(PeerGone(reason))
        for served in self._served.values():
            served.disconnect()
        self._young.clear()

    def congestion(self, congested: bool) -> None:
        pass  # parts of bodies wait for room

    # Upkeep of the link.

    def tick(self, now_s: float, own_pause_s: float) -> None:
        """Do the upkeep, every PING_EVERY_S; for `own_pause_s` nobody here could hear anything."""
        young, self._young = self._young, []
        for request in young:
            request.watch()
        self._count()
        if now_s - own_pause_s - self.connection.last_frame_s > SILENCE_S:
            self.connection.abort("silent")
            return
        self._pings += 1
        self._pinged_s = now_s
        self.connection.send_or_cut(Ping(self._pings))

    def close(self, reason: str) -> None:
        self.connection.close(reason)

    @property
    def serving(self) -> set[asyncio.Task[None]]:
        """Return the tasks that run for the peer."""
        return self._tasks

    @property
    def waiting(self) -> tuple[int, int]:
        """Requests and questions unanswered: of ours, and of the peer's."""
        return len(self._asked), len(self._tasks)

    def _count(self) -> None:
        connection = self.connection
        counts = (
            (metrics.requests.labels("asked"), self._last_id),
            (metrics.requests.labels("served"), self._served_count),
            (metrics.transferred.labels("sent"), connection.sent_bytes),
            (metrics.transferred.labels("received"), connection.received_bytes),
        )
        for at, (counter, count) in enumerate(counts):
            counter.inc(count - self._counted[at])
            self._counted[at] = count

    def _on_pong(self, head: Pong) -> None:
        if head.number == self._pings:
            metrics.round_trip_seconds.observe(time.monotonic() - self._pinged_s)

    # Requests of the peer.

    def _on_request(self, head: Request, body: bytes) -> None:
        if not self._admit(head.id):
            return
        handler = self._services.handlers.get(head.operation)
        if handler is None:
            self._refuse(head.id, f"{head.operation} is not served there.")
            return
        request = IncomingRequest(self.connection, head, body)
        self._served[head.id] = request
        self._own(self._serve(head, request))

    async def _serve(self, head: Request, request: IncomingRequest) -> None:
        handler = self._services.handlers[head.operation]
        try:
            await handler(request.scope(head), request.receive, request.send)
            end: Head | None = None if request.whole else Ended(head.id, request.begun)
        except ClientGone:
            end = None if request.gone or request.whole else Ended(head.id, request.begun)
        except Exception as error:
            problem = self._services.problem(error, head.operation)
            end = Ended(head.id, True) if request.begun else raised(head.id, problem)
        except asyncio.CancelledError:
            self.connection.send_or_cut(Ended(head.id, request.begun))
            raise
        finally:
            self._served.pop(head.id, None)
        if end is not None:
            self.connection.send_or_cut(end)

    def _on_question(self, head: Question, body: bytes) -> None:
        if not self._admit(head.id):
            return
        if head.subject in self._services.answers:
            self._own(self._reply(head, body))
        else:
            self._refuse(head.id, f"Nobody answers {head.subject} there.")

    async def _reply(self, head: Question, body: bytes) -> None:
        answer = self._services.answers[head.subject]
        try:
            reply = await answer(self._incarnation, body)
            self.connection.send_or_cut(Reply(head.id), [reply])
        except Exception as error:
            problem = self._services.problem(error, head.subject)
            self.connection.send_or_cut(raised(head.id, problem))

    def _on_note(self, head: Note, body: bytes) -> None:
        hear = self._services.hearers.get(head.subject)
        if hear is None:
            return
        try:
            hear(self._incarnation, body)
        except Exception:
            # The peer's next note may build on this one; over a new link it begins again.
            _log.exception("a note failed", subject=head.subject)
            self.connection.close("a note could not be taken in")

    def _admit(self, request_id: int) -> bool:
        if request_id <= self._last_served:
            self.connection.close("a number was used twice")
            return False
        self._last_served = request_id
        self._served_count += 1
        if len(self._tasks) >= MAX_REQUESTS:
            self._refuse(request_id, "Too many requests wait for one forwarder.")
            return False
        return True

    def _refuse(self, request_id: int, detail: str) -> None:
        self.connection.send_or_cut(raised(request_id, unavailable("subscription", detail)))

    def _own(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _request(request_id: int, operation: str, scope: Scope, *, more: bool, race: bool) -> Request:
    client = scope.get("client")
    return Request(
        request_id,
        operation,
        scope.get("method", ""),
        scope.get("path", ""),
        scope.get("raw_path"),
        scope.get("query_string", b""),
        [(name, value) for name, value in scope.get("headers", ())],
        scope.get("path_params", {}),
        scope.get(TENANT),
        scope.get(SUBJECT),
        None if client is None else (client[0], client[1]),
        scope.get("http_version", "1.1"),
        scope.get("scheme", "http"),
        more,
        race,
    )
