"""The door of the publish forwarder: the functions by which the gateway opens it.

Each makes its parts in order, from those below to the routes. Nothing is set on a part later.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial

from edge.asgi import Route
from edge.quota import Quotas, Usage
from edge.tracing import Tracer
from edge.workshop import Workshop
from publish_forwarder import settings
from publish_forwarder.forwarder import PublishForwarder
from publish_forwarder.outputs import OutputReader, Topics
from publish_forwarder.ports import ForwardedMessages, TopicSource
from publish_forwarder.routes import routes
from publish_forwarder.tracing import TracedPublishForwarder
from schemas.message_check import SchemaSource
from store_nodes.client import StoreClient


def open_publish_forwarder(
    stack: AsyncExitStack,
    *,
    catalog: TopicSource,
    store: StoreClient,
    forwarded: ForwardedMessages,
    schemas: SchemaSource,
    workshop: Workshop,
    admits: Callable[[int], bool],
    weight_of: Callable[[bytes], float],
    quotas: Quotas,
    usage: Usage,
    tracer: Tracer | None,
) -> list[Route]:
    """Open the publish forwarder of a process until `stack` is closed, and return its routes.

    `admits` and `weight_of` are those of a PublishForwarder. Call it on the loop that serves
    requests. Raises ValueError for a wrong setting.
    """
    kind: Callable[..., PublishForwarder] = PublishForwarder
    if tracer is not None:
        kind = partial(TracedPublishForwarder, tracer)
    forwarder = kind(
        catalog,
        store,
        settings.load(),
        forwarded=forwarded,
        schemas=schemas,
        workshop=workshop,
        admits=admits,
        weight_of=weight_of,
        quotas=quotas,
        usage=usage,
    )
    stack.push_async_callback(forwarder.close)
    return routes(forwarder)


def open_output_reader(topics: Topics, schemas: SchemaSource, workshop: Workshop) -> OutputReader:
    """Open the reader of messages that are published with an ack."""
    return OutputReader(topics, schemas, workshop)
