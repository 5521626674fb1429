"""Reads the parameters of pulls and streams, and the bodies of acks, nacks, releases and the like.

Acks and pulls are the requests of which there are most: each is read in a few microseconds.
"""

from __future__ import annotations

import math
import re
from typing import Annotated

import msgspec
from msgspec import UNSET

from edge.asgi import Scope, header
from edge.bodies import APART, decode
from edge.decode_errors import member_error
from edge.large_bodies import dear, read_in_worker
from edge.parameters import Query, number_of, text_of
from edge.problem import FieldError, invalid
from edge.process_pool import ProcessPool
from openapi import consume as contract
from openapi.common import HEARTBEAT_SECONDS, MAX_BYTES, MAX_SECONDS, WAIT_SECONDS
from subscribe_forwarder.api.items import Ids
from subscribe_forwarder.api.places import chosen, places_of
from subscribe_forwarder.delivery.places import PartitionChoice
from subscribe_forwarder.delivery.state.rate import NAMELESS

MAX_BODY_BYTES = 2 * 1024 * 1024
"""Bytes of a thousand ids of the longest kind."""
MAX_ACK_BODY_BYTES = 16 * 1024 * 1024
"""Bytes of as many ids, and of the messages that an ack may publish, in base64."""
CONSUMER_HEADER = b"packetboat-consumer"
_CONSUMER_RULE = "1 to 128 printable ASCII characters"
_CONSUMER = re.compile(contract.CONSUMER.kind.__metadata__[0].pattern)
_MOST_BYTES: int = MAX_BYTES.default


class Ack(contract.MessageChoice):
    """The body of an ack, as far as it is read here. The messages stay as they came."""

    publish: msgspec.Raw = msgspec.Raw()


class AckRequest(msgspec.Struct, array_like=True):
    """An ack, as far as it is read here."""

    ids: Ids
    publish: bytes = b""
    """A JSON array of messages, which somebody else reads; it is empty where there is none."""
    topics: list[str] = []
    """The topics that they go to, each once."""


class _Output(msgspec.Struct, gc=False):
    """The part of an output that names its topic."""

    topic: str


class PullRequest(msgspec.Struct, frozen=True):
    """A pull whose limits hold."""

    max_messages: int = contract.MAX_MESSAGES.default
    max_bytes: int = _MOST_BYTES
    wait_s: float = 0.0
    min_messages: int = 1
    consumer: str = NAMELESS
    places: PartitionChoice | None = None
    """The partitions to take from; None is all."""

    @property
    def gathers(self) -> bool:
        """Whether messages are held until there are enough of them."""
        return self.min_messages > 1 and self.wait_s > 0


class StreamRequest(msgspec.Struct, frozen=True):
    """A stream whose limits hold."""

    max_messages: int
    """The most outstanding messages."""
    max_bytes: int
    """The most bytes of their data."""
    heartbeat_s: float
    ends_after_s: float
    """Seconds until the stream ends; infinite for one that does not."""
    consumer: str
    places: PartitionChoice | None = None


ACK = msgspec.json.Decoder(Ack)
NACK = msgspec.json.Decoder(contract.NackRequest)
REJECT = msgspec.json.Decoder(contract.RejectRequest)
RELEASE = msgspec.json.Decoder(contract.ReleaseRequest)
MODIFY = msgspec.json.Decoder(contract.ModifyRequest)
_PULL = msgspec.json.Decoder(contract.PullRequest)
_OUTPUTS: msgspec.json.Decoder[list[_Output]] = msgspec.json.Decoder(
    Annotated[list[_Output], contract.OUTPUTS_LIMITS]
)


def ids_of(choice: contract.MessageChoice) -> Ids:
    """Return the ids of a body, which names messages in one of four ways."""
    if choice.ack_id is not UNSET:
        return Ids("ack_id", [choice.ack_id])
    if choice.ack_ids is not UNSET:
        return Ids("ack_id", choice.ack_ids)
    if choice.message_id is not UNSET:
        return Ids("message_id", [choice.message_id])
    assert choice.message_ids is not UNSET
    return Ids("message_id", choice.message_ids)


async def ack_of(process_pool: ProcessPool | None, tenant_id: bytes, body: bytes) -> AckRequest:
    """Return the ack in a body; a body that takes long is decoded in a worker process.

    Raises a 400, 413, 422 or 429 Problem.
    """
    if dear(body):
        return await read_in_worker(process_pool, tenant_id, AckRequest, decoded_ack, body)
    return decoded_ack(body)


def decoded_ack(body: bytes) -> AckRequest:
    """Return the ack in a body; raise a 400 or 422 Problem."""
    given = decode(body, ACK, APART)
    publish = bytes(given.publish)
    return AckRequest(ids_of(given), publish, _topics_of(publish) if publish else [])


def _topics_of(publish: bytes) -> list[str]:
    """Return the topics of outputs, each once: the caller's permission is checked for each.

    Raise a 422 Problem for too many outputs, and for outputs that do not name their topic.
    """
    try:
        return list(dict.fromkeys(output.topic for output in _OUTPUTS.decode(publish)))
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise invalid("The outputs do not fit.", [member_error("publish", str(error))]) from error


def pull_of_query(scope: Scope) -> PullRequest:
    """Return the pull that a query asks for; raise a 400 Problem that names a bad parameter."""
    query = Query(scope)
    consumer = consumer_of(
        scope, text_of(contract.CONSUMER, query.text("consumer"), _CONSUMER_RULE)
    )
    request = PullRequest(
        query.integer(contract.MAX_MESSAGES),
        query.integer(MAX_BYTES),
        query.number(WAIT_SECONDS),
        query.integer(contract.MIN_MESSAGES),
        consumer,
        places_of(query, consumer),
    )
    _check_least(request, status=400)
    return request


def pull_of_body(scope: Scope, body: bytes) -> PullRequest:
    """Return the pull of a body; an empty one has the defaults. Raise a 422 Problem that names the
    field."""
    given = decode(body, _PULL) if body else contract.PullRequest()
    consumer = consumer_of(scope, None if given.consumer is UNSET else given.consumer)
    partitions = None if given.partitions is UNSET else frozenset(given.partitions)
    request = PullRequest(
        given.max_messages,
        _MOST_BYTES if given.max_bytes is UNSET else given.max_bytes,
        given.wait_seconds,
        given.min_messages,
        consumer,
        chosen(partitions, given.affinity, consumer, status=422),
    )
    _check_least(request, status=422)
    return request


def stream_of_query(scope: Scope) -> StreamRequest:
    """Return the stream of a query. Raise a 400 Problem that names the parameter."""
    query = Query(scope)
    consumer = consumer_of(
        scope, text_of(contract.CONSUMER, query.text("consumer"), _CONSUMER_RULE)
    )
    ends_after_s = number_of(MAX_SECONDS, query.text("max_seconds"))
    return StreamRequest(
        query.integer(contract.MAX_OUTSTANDING_MESSAGES),
        query.integer(contract.MAX_OUTSTANDING_BYTES),
        query.number(HEARTBEAT_SECONDS),
        math.inf if ends_after_s is None else ends_after_s,
        consumer,
        places_of(query, consumer),
    )


def consumer_of(scope: Scope, given: str | None) -> str:
    """Return the consumer's name: the given one, else that of the header, else none.

    Raises a 400 Problem for a header that does not fit.
    """
    raw = header(scope, CONSUMER_HEADER)
    if raw is None:
        return given or NAMELESS
    named = raw.decode("latin-1")
    if not _CONSUMER.match(named):
        errors = [FieldError("Packetboat-Consumer", _CONSUMER_RULE)]
        raise invalid("The name of the consumer does not fit.", errors, status=400)
    return given or named


def _check_least(request: PullRequest, *, status: int) -> None:
    """Raise a Problem if a pull waits for more messages than it takes."""
    if request.min_messages > request.max_messages:
        errors = [FieldError("min_messages", "at most max_messages")]
        raise invalid("A limit of the pull does not fit.", errors, status=status)
