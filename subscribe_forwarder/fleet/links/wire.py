"""The messages of links: the heads of their frames, and the bounds that both sides keep.

Frames and the handshake are those of `peering/rpc`, with the secret that forwarders share; a side
claims its incarnation. Version 1, of release 0.2.0, is in legacy.py.

After the handshake both sides are equal: each numbers its own requests and questions, and what is
about one carries that number. Frames arrive in the order in which they were sent, notes among them.
A later version may append fields that have defaults.

    asker                                   server
    Request, Body …                 →
                                    ←       Taken … (of a body in several frames)
                                    ←       Offer (only where the request is a race)
    Verdict                         →
                                    ←       Answer, Chunk …   or Raised, or Ended
    Written … (each, once it left)  →
    Gone (the client went away)     →
"""

from __future__ import annotations

import msgspec

from peering.rpc.connection import FrameConnection
from peering.rpc.frames import Goodbye, Wire

PROTOCOL_VERSION = 2
MAX_HEAD_BYTES = 256 * 1024
MAX_BODY_BYTES = 8 * 1024 * 1024
"""The limit of one frame.

Bodies of requests and of answers are cut into chunks and may be larger.
"""
MAX_QUEUED_BYTES = 64 * 1024 * 1024
"""A peer that reads nothing is cut when so much is unsent."""
HIGH_WATER_BYTES = 1024 * 1024
"""Chunks wait while so much is queued."""
CHUNK_BYTES = 128 * 1024
WINDOW_BYTES = 512 * 1024
"""The limit of a body's bytes that may be on their way unconfirmed, in either direction."""
MAX_REQUESTS = 50_000
"""That one side asks of the other at once, questions included; beyond it: 503."""

Headers = list[tuple[bytes, bytes]]


class _Head(msgspec.Struct, array_like=True, gc=False):
    pass


# These four are of version 1 and go with release 0.4.0.


class Hello(_Head, tag=1):
    version: int
    oldest: int
    incarnation: bytes
    nonce: bytes


class Challenge(_Head, tag=2):
    version: int
    incarnation: bytes
    nonce: bytes
    proof: bytes


class Proof(_Head, tag=3):
    proof: bytes


class Welcome(_Head, tag=4):
    pass


# The frames of both versions.


class Ping(_Head, tag=6):
    number: int


class Pong(_Head, tag=7):
    number: int


class Note(_Head, tag=8):
    subject: str


class Question(_Head, tag=9):
    id: int
    subject: str


class Reply(_Head, tag=10):
    id: int


class Request(_Head, tag=11):
    """The parts of an ASGI scope. `more`: Body frames follow; `race`: it must ask before it
    answers with messages."""

    id: int
    operation: str
    method: str
    path: str
    raw_path: bytes | None
    query_string: bytes
    headers: Headers
    path_params: dict[str, str]
    tenant: bytes | None
    subject: str | None
    client: tuple[str, int] | None
    http_version: str
    scheme: str
    more: bool
    race: bool


class Body(_Head, tag=12):
    id: int
    more: bool


class Taken(_Head, tag=13):
    """The number of bytes of the request's body that the handler has read."""

    id: int
    bytes: int


class Offer(_Head, tag=14):
    id: int


class Verdict(_Head, tag=15):
    id: int
    won: bool


class Answer(_Head, tag=16):
    """The start of the response, and its first chunk as the body of the frame."""

    id: int
    status: int
    headers: Headers
    more: bool


class Chunk(_Head, tag=17):
    id: int
    more: bool


class Written(_Head, tag=18):
    """The number of further bytes of the answer that the client's connection took; `whole`: all."""

    id: int
    bytes: int
    whole: bool = False


class Gone(_Head, tag=19):
    id: int


class Ended(_Head, tag=20):
    """The handler returned and its answer is not whole. `begun`: a part of it was sent."""

    id: int
    begun: bool


class Raised(_Head, tag=21):
    """A Problem instead of an answer or a reply. `extra` is JSON, as it will be answered."""

    id: int
    status: int
    slug: str
    title: str
    detail: str
    errors: list[tuple[str, str]]
    retry_after_s: float | None
    headers: dict[str, str]
    extra: bytes


Head = (
    Hello
    | Challenge
    | Proof
    | Welcome
    | Goodbye
    | Ping
    | Pong
    | Note
    | Question
    | Reply
    | Request
    | Body
    | Taken
    | Offer
    | Verdict
    | Answer
    | Chunk
    | Written
    | Gone
    | Ended
    | Raised
)
ToAsker = Reply | Taken | Offer | Answer | Chunk | Ended | Raised
ToServer = Body | Verdict | Written | Gone
WIRE: Wire[Head] = Wire(
    msgspec.msgpack.Decoder(Head).decode,
    MAX_HEAD_BYTES + MAX_BODY_BYTES,
    HIGH_WATER_BYTES,
    MAX_QUEUED_BYTES,
)
LinkConnection = FrameConnection[Head]
