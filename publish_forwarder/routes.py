"""Handles the publish operations in plain ASGI.

The single publish is the most frequent request of the product. Where its head came before, it is
served directly (`direct.py`). Otherwise it makes one future and no task, and awaits nothing but the
body and the log. Problems are raised; the code that dispatches to the handler answers them.
"""

from __future__ import annotations

import msgspec

from edge.asgi import JSON, Receive, Route, Scope, Send, path_param, respond, tenant_of
from edge.large_bodies import dear, read_in_worker
from edge.process_pool import ProcessPool
from edge.quota import PUBLISH_QUOTAS
from openapi import publish, topics
from publish_forwarder import batch_body
from publish_forwarder.accepting import EARLY
from publish_forwarder.batch_body import MAX_BODY_BYTES, MAX_MESSAGE_BYTES, check_event
from publish_forwarder.body import read_body
from publish_forwarder.budget import Share
from publish_forwarder.cloud_events import BodyKind, is_json_body, read_structured
from publish_forwarder.delays import Delay
from publish_forwarder.direct import DirectPublishes, answer_to, texts_of
from publish_forwarder.forwarder import PublishForwarder
from publish_forwarder.headers import parse, parse_batch
from publish_forwarder.idempotency import Producer
from publish_forwarder.router import TopicRoutes
from store_nodes.record_batch import Message
from store_nodes.wire import Durability


def routes(forwarder: PublishForwarder) -> list[Route]:
    """Return the routes that the gateway mounts."""
    handlers, waiting = _Handlers(forwarder), forwarder.scheduled
    return [
        Route(
            publish.OPERATIONS["publish"],
            handlers.publish,
            DirectPublishes(forwarder).plan,
        ),
        Route(publish.OPERATIONS["publishBatch"], handlers.publish_batch),
        Route(topics.OPERATIONS["cancelMessage"], waiting.cancel),
        Route(topics.OPERATIONS["rescheduleMessage"], waiting.reschedule),
    ]


class _Handlers:
    def __init__(self, forwarder: PublishForwarder) -> None:
        self._forwarder = forwarder

    async def publish(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Publish the message in the body: answer 201 with its receipt, or 202 with a publish id. A
        body of many events is published as a batch.
        """
        forwarder = self._forwarder
        tenant_id = tenant_of(scope)
        share = forwarder.budget.share(tenant_id)
        metadata = parse(scope["headers"])
        message, kind = metadata.message, metadata.kind
        if kind is BodyKind.EVENTS:
            await self.publish_batch(scope, receive, send)
            return
        most_bytes = MAX_BODY_BYTES if kind is BodyKind.EVENT else MAX_MESSAGE_BYTES
        message.data = await read_body(receive, share, most_bytes, metadata.content_length)
        if kind is not BodyKind.PLAIN:
            message = await _looked_into(forwarder.process_pool, tenant_id, message, kind)
        routes = await forwarder.routes_of(tenant_id, path_param(scope, "topic"))
        if routes.topic.schema is not None:
            await forwarder.schemas.refuse(routes.topic, message)
            routes = await forwarder.routes_of(tenant_id, routes.topic.name)
        request = forwarder.publish_nowait(
            routes, share, message, metadata.durability, metadata.delay
        )
        outcome = await request.future if request.future is not None else None
        answer = answer_to(forwarder.quotas, tenant_id, outcome, request.publish_id)
        await respond(send, answer.status, answer.body, JSON, answer.headers)

    async def publish_batch(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 200 (202 for leader and none) with one result per item, in order."""
        forwarder = self._forwarder
        tenant_id = tenant_of(scope)
        share = forwarder.budget.share(tenant_id)
        metadata = parse_batch(scope["headers"])
        body = await read_body(receive, share, MAX_BODY_BYTES, metadata.content_length)
        routes = await forwarder.routes_of(tenant_id, path_param(scope, "topic"))
        entries, delays = await batch_body.read(forwarder.process_pool, tenant_id, body, metadata)
        if routes.topic.schema is not None:
            entries = await forwarder.schemas.checked(routes.topic, entries)
            routes = await forwarder.routes_of(tenant_id, routes.topic.name)
        messages = [entry for entry in entries if isinstance(entry, Message)]
        if len(messages) < len(entries) and delays:
            at = [index for index, entry in enumerate(entries) if isinstance(entry, Message)]
            delays = {to: delays[index] for to, index in enumerate(at) if index in delays}
        results = await self._results(
            routes, share, messages, metadata.durability, delays, metadata.producer
        )
        if len(messages) < len(entries):
            stored = iter(results)
            results = [
                next(stored) if isinstance(entry, Message) else entry.to_json().decode("utf-8")
                for entry in entries
            ]
        text = '{"results":[' + ",".join(results) + "]}"
        status = 202 if metadata.durability in EARLY else 200
        left = forwarder.quotas.headers(tenant_id, PUBLISH_QUOTAS)
        await respond(send, status, text.encode("utf-8"), JSON, left)

    async def _results(
        self,
        routes: TopicRoutes,
        share: Share,
        messages: list[Message],
        durability: Durability,
        delays: dict[int, Delay],
        producer: Producer | None,
    ) -> list[str]:
        """Return the JSON result of each message."""
        if not messages:
            return []
        requests = self._forwarder.publish_many_nowait(
            routes, share, messages, durability, delays, producer
        )
        results: list[str] = [""] * len(messages)
        for request, indices in requests:
            outcome = await request.future if request.future is not None else None
            texts = texts_of(outcome, len(indices), request.publish_id)
            if len(indices) == len(messages):
                return texts
            for index, text in zip(indices, texts, strict=True):
                results[index] = text
        return results


async def _looked_into(
    process_pool: ProcessPool | None, tenant_id: bytes, message: Message, kind: BodyKind
) -> Message:
    """Return the message after a look into its body.

    Raises a 400, 413, 422 or 429 Problem.

    An event in JSON becomes its attributes and data. JSON with the content type of a form, which
    curl's `-d` sends by default, becomes JSON.
    """
    data = message.data
    if not dear(data):
        _look_into(message, kind)
        return message
    message.data = b""
    given = msgspec.msgpack.encode(message), kind.value
    return await read_in_worker(process_pool, tenant_id, Message, looked_into, data, *given)


def looked_into(data: bytes, message: bytes, kind: str) -> Message:
    """Read the body in a worker process; `message` is the message without it, in MessagePack."""
    made = msgspec.msgpack.decode(message, type=Message)
    made.data = data
    _look_into(made, BodyKind(kind))
    return made


def _look_into(message: Message, kind: BodyKind) -> None:
    if kind is BodyKind.EVENT:
        read_structured(message, message.data)
        check_event(message)
    elif is_json_body(message.data):
        message.content_type = "application/json"
