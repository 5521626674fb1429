"""Messages that are published with an ack: they are read and checked like messages published
alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec

from edge.decode_errors import member_error
from edge.large_bodies import dear, read_in_worker
from edge.problem import FieldError, Problem, ProblemForm, invalid, not_found
from edge.process_pool import ProcessPool
from metadata.catalog import Catalog
from metadata.errors import NotFound
from metadata.topics.schema_catalog import SchemaCatalog
from metadata.types import Topic
from openapi.consume import OUTPUTS_LIMITS
from outbox.staging import Output
from publish_forwarder.batch_body import MAX_BATCH_DATA_BYTES, OutputItem, json_message
from schemas.message_check import SchemaCheck
from store_nodes.record_batch import Message

_items: msgspec.json.Decoder[list[OutputItem]] = msgspec.json.Decoder(
    Annotated[list[OutputItem], OUTPUTS_LIMITS]
)


class OutputReader:
    """Reads the outputs of acks; one per process."""

    def __init__(
        self,
        topics: Catalog,
        schemas: SchemaCatalog | None,
        process_pool: ProcessPool | None = None,
    ) -> None:
        self._topics = topics
        self._schemas = SchemaCheck(schemas, process_pool)
        self._process_pool = process_pool

    async def read(self, tenant_id: bytes, raw: bytes, *, refresh: bool = False) -> list[Output]:
        """Return the outputs in `raw`, the JSON array `publish`.

        `refresh` reads topics again, because one was found to be another than it was. Raises
        MetadataError, or a Problem that names the item and the field.
        """
        items = await _read(self._process_pool, tenant_id, raw)
        outputs: list[Output] = []
        topics: dict[str, Topic] = {}
        size_bytes = 0
        for index, item in enumerate(items):
            try:
                topic = topics.get(item.topic)
                if topic is None:
                    topic = await self._topics.topic(tenant_id, item.topic, refresh=refresh)
                    topics[item.topic] = topic
                message = item.message()
                if topic.schema is not None:
                    await self._schemas.refuse(topic, message)
            except NotFound as error:
                raise not_found("topic", item.topic) from error
            except Problem as problem:
                raise _of_item(problem, index) from problem
            size_bytes += len(message.data)
            outputs.append(Output(topic, message))
        if size_bytes > MAX_BATCH_DATA_BYTES:
            limit = f"at most {MAX_BATCH_DATA_BYTES} bytes of data in all"
            raise invalid("The outputs are too large.", [FieldError("publish", limit)])
        return outputs


class Given(msgspec.Struct, array_like=True):
    """An output as it was read: its message, or the reason why it is none."""

    topic: str
    found: Message | None
    refused: ProblemForm | None = None

    def message(self) -> Message:
        """Return the message, or raise its Problem."""
        if self.found is None:
            assert self.refused is not None
            raise self.refused.problem()
        return self.found


async def _read(process_pool: ProcessPool | None, tenant_id: bytes, raw: bytes) -> list[Given]:
    if dear(raw):
        return await read_in_worker(process_pool, tenant_id, list[Given], outputs_of, raw)
    return outputs_of(raw)


def outputs_of(raw: bytes) -> list[Given]:
    """Return the outputs in a JSON array. Raises a 422 Problem if the array is wrong as a whole."""
    return [_given(item) for item in _decode(raw)]


def _given(item: OutputItem) -> Given:
    try:
        message = json_message(item)
    except Problem as problem:
        return Given(item.topic, None, problem.form())
    return Given(item.topic, message)


def _decode(raw: bytes) -> Sequence[OutputItem]:
    try:
        return _items.decode(raw)
    except msgspec.ValidationError as error:
        raise invalid("The outputs do not fit.", [member_error("publish", str(error))]) from error
    except (msgspec.DecodeError, RecursionError) as error:
        raise invalid("The outputs do not fit.", [FieldError("publish", "not JSON")]) from error


def _of_item(problem: Problem, index: int) -> Problem:
    """Return the problem of an item with its fields named from the whole body."""
    named = [FieldError(f"publish[{index}].{each.field}", each.detail) for each in problem.errors]
    return Problem(
        problem.status,
        problem.slug,
        problem.title,
        f"Item {index} of publish: {problem.detail}",
        errors=named or [FieldError(f"publish[{index}]", problem.title)],
        retry_after_s=problem.retry_after_s,
        extra=problem.extra,
    )
