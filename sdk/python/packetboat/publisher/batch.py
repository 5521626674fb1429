"""Messages of one topic that travel in one request, and all its tries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from urllib.parse import quote

from packetboat.calls import Call
from packetboat.publisher.pending import Kind, Pending
from packetboat.publisher.results import Result, reader
from packetboat.publisher.shard import Shard
from packetboat.transport.seam import Request

_MESSAGES = b"\x81\xa8messages\xdc"
"""The msgpack head of a request: a map with one member, its key, and an array whose
two-byte length follows.
"""
PRODUCER, SEQUENCE = "Packetboat-Producer", "Packetboat-Sequence"


class Batch:
    """Holds its keyed messages' shards until all of it is settled.

    Once a try may have stored some of it, every later try is the very same request under the same
    name, so that nothing is stored twice: `may_be_stored`. Before that it may be taken apart, and
    what is left of it goes into other batches under other names.
    """

    __slots__ = (
        "again_s",
        "call",
        "holds_slot",
        "kind",
        "may_be_stored",
        "messages",
        "name",
        "sent_s",
        "shards",
        "size_bytes",
        "topic",
    )

    def __init__(
        self,
        topic: str,
        kind: Kind,
        messages: list[Pending],
        shards: list[Shard],
        name: Mapping[str, str],
    ) -> None:
        """`name` is of the headers that make it known again."""
        self.topic: str = topic
        self.kind: Kind = kind
        self.messages: list[Pending] = messages
        self.shards: list[Shard] = shards
        self.name: Mapping[str, str] = {} if kind.own_keys else name
        self.call: Call[Sequence[Result]]
        self.size_bytes: int
        self.call, self.size_bytes = self._made()
        self.may_be_stored: bool = False
        self.holds_slot: bool = True
        self.sent_s: float | None = None
        """The time at which the batch was last sent; None while it is not out."""
        self.again_s: float | None = None
        """The time of the next try, while the batch waits for one."""

    @property
    def done(self) -> bool:
        """Nobody waits for any of its messages."""
        return all(message.settled for message in self.messages)

    def key_of(self, index: int) -> str:
        """Return the idempotency key by which that message is recognized if it is published
        again.
        """
        own = self.messages[index].idempotency_key
        return own or f"{self.name[PRODUCER]}:{self.name[SEQUENCE]}:{index}"

    def _made(self) -> tuple[Call[Sequence[Result]], int]:
        headers = {"Content-Type": "application/msgpack", **self.name}
        if self.kind.publisher_id is not None:
            headers["Packetboat-Publisher-Id"] = quote(self.kind.publisher_id, safe="")
        if self.kind.durability is not None:
            headers["Packetboat-Durability"] = self.kind.durability
        count = len(self.messages)
        parts = [_MESSAGES, count.to_bytes(2, "big")]
        parts += [message.encoded for message in self.messages]
        body = b"".join(parts)
        path = f"/topics/{quote(self.topic, safe='')}/messages:batch"
        return Call(Request("POST", path, headers, body), reader(count), safe=True), len(body)
