"""Publishes single messages whose heads came before: no task, no future, no scope.

The headers of a publish become a template of its message once. Each request copies it, and asks for
everything else anew: the topic, its routes, its schema, and what the tenant may hold and send. So
nothing here must be dropped when one of these changes.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from edge.asgi import Header
from edge.direct import Accept, Answer, Prepare, Reply
from edge.problem import Problem
from edge.quota import PUBLISH_QUOTAS, Quotas
from publish_forwarder.accepting import EARLY
from publish_forwarder.body import UNCOUNTED_BYTES
from publish_forwarder.cloud_events import BodyKind
from publish_forwarder.forwarder import PublishForwarder
from publish_forwarder.headers import Metadata, parse
from publish_forwarder.outcomes import Mixed, Outcome
from publish_forwarder.router import TopicRoutes


class DirectPublishes:
    """Makes plans of the heads of publishes, and accepts the messages that come with them."""

    def __init__(self, forwarder: PublishForwarder) -> None:
        self._forwarder = forwarder

    def plan(self, params: Mapping[str, str], headers: Iterable[Header]) -> Prepare | None:
        """Return what accepts messages with these headers; None where more than copying is needed.

        A delay counts from the arrival of its message, attributes are a dict that a copy would
        share, and a publish that is answered early has no outcome to wait for.
        """
        try:
            metadata = parse(headers)
        except Problem:
            return None
        message = metadata.message
        copied = message.attributes is None and message.idempotency_key is None
        early, large = metadata.durability in EARLY, (metadata.content_length or 0)
        if metadata.kind is not BodyKind.PLAIN or metadata.delay is not None or not copied:
            return None
        if early or large > UNCOUNTED_BYTES:
            return None
        return partial(self._prepare, metadata, params["topic"])

    def _prepare(self, metadata: Metadata, topic_name: str, tenant_id: bytes) -> Accept | None:
        try:
            routes = self._forwarder.routes_now(tenant_id, topic_name)
        except Problem:
            return None  # the dispatcher counts the request before it refuses it
        if routes is None or routes.topic.schema is not None:
            return None
        return partial(self._accept, metadata, routes)

    def _accept(self, metadata: Metadata, routes: TopicRoutes, body: bytes, reply: Reply) -> None:
        forwarder, tenant_id = self._forwarder, routes.topic.tenant_id
        message = copy.copy(metadata.message)
        message.data = body
        share = forwarder.budget.share(tenant_id)
        sink = _Replying(forwarder.quotas, tenant_id, reply)
        forwarder.publish_nowait(routes, share, message, metadata.durability, None, sink)


class _Replying:
    """Takes the outcome of one message and replies to its publisher."""

    __slots__ = ("_quotas", "_reply", "_tenant_id")

    def __init__(self, quotas: Quotas, tenant_id: bytes, reply: Reply) -> None:
        self._quotas = quotas
        self._tenant_id = tenant_id
        self._reply = reply

    def fill(self, places: Sequence[int], outcome: Outcome) -> None:
        """Reply with the outcome of the message, which has the only place."""
        self._reply(partial(answer_to, self._quotas, self._tenant_id, outcome, ""))


def answer_to(quotas: Quotas, tenant_id: bytes, outcome: Outcome | None, publish_id: str) -> Answer:
    """Return the answer to the publish of one message, a receipt or a publish id; raise the Problem
    of a message that is not stored.
    """
    if isinstance(outcome, Problem):
        raise outcome
    left = quotas.headers(tenant_id, PUBLISH_QUOTAS)
    if outcome is None or publish_id:
        return Answer(202, publish_id_json(publish_id).encode("ascii"), left)
    return Answer(201, texts_of(outcome, 1, "")[0].encode("utf-8"), left)


def texts_of(outcome: Outcome | None, count: int, publish_id: str) -> list[str]:
    """Return the JSON results of the `count` messages of an append request."""
    if isinstance(outcome, Problem):
        return [outcome.to_json().decode("utf-8")] * count
    if isinstance(outcome, Mixed):
        return [
            texts_of(single, 1, publish_id and f"{publish_id}-{position}")[0]
            for position, single in enumerate(outcome.outcomes)
        ]
    if publish_id or outcome is None:
        return [publish_id_json(f"{publish_id}-{number}") for number in range(count)]
    return outcome.receipts_json(count)


def publish_id_json(publish_id: str) -> str:
    return f'{{"publish_id":"{publish_id}"}}'
