"""The door of the publish forwarder: the functions by which the gateway opens it.

Each makes its parts in order, from those below to the routes. Nothing is set on a part later.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AsyncExitStack
from functools import partial

from edge.asgi import Route
from edge.process_pool import ProcessPool
from edge.quota import Quotas, Usage
from edge.tracing import Tracer
from metadata.catalog import Catalog
from metadata.delivery.forwarded import ForwardedRepository
from metadata.topics.schema_catalog import SchemaCatalog
from publish_forwarder import settings
from publish_forwarder.forwarder import PublishForwarder
from publish_forwarder.outputs import OutputReader
from publish_forwarder.routes import routes
from publish_forwarder.tracing import TracedPublishForwarder
from store_nodes.client import StoreClient


def open_publish_forwarder(
    stack: AsyncExitStack,
    *,
    catalog: Catalog,
    store: StoreClient,
    forwarded: ForwardedRepository,
    schemas: SchemaCatalog,
    process_pool: ProcessPool,
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
        process_pool=process_pool,
        admits=admits,
        weight_of=weight_of,
        quotas=quotas,
        usage=usage,
    )
    stack.push_async_callback(forwarder.close)
    return routes(forwarder)


def open_output_reader(
    topics: Catalog, schemas: SchemaCatalog, process_pool: ProcessPool
) -> OutputReader:
    """Open the reader of messages that are published with an ack."""
    return OutputReader(topics, schemas, process_pool)
