"""Checks messages against the schema of their topic, before anything is accepted.

A body has to fit the latest version, or the one that the publisher names: with the header
`Packetboat-Schema-Version`, or the attribute `packetboat-schema-version` that it stands for, which
stays with the message and tells consumers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from edge.problem import FieldError, Problem, preceding_item_failed, unavailable
from edge.process_pool import ProcessPool
from edge.slices import Slices
from metadata.errors import MetadataError, NotFound
from metadata.topics.schema_catalog import SchemaCatalog
from metadata.topics.schemas import Schema
from metadata.types import Topic
from schemas.checker import Checker
from schemas.limits import BadDefinition
from store_nodes.record_batch import Message

VERSION_ATTRIBUTE = "packetboat-schema-version"
MAX_VERSION_DIGITS = 9


def _free(tenant_id: bytes, messages: int, size_bytes: int) -> None:
    return None


class SchemaCheck:
    """Checks messages; one per process.

    Nothing is awaited if the schema and its version are cached and the body is cheap to check.
    """

    def __init__(
        self,
        source: SchemaCatalog | None,
        process_pool: ProcessPool | None = None,
        charge: Callable[[bytes, int, int], None] = _free,
    ) -> None:
        """Prepare a checker.

        `charge` is told the tenant, messages and bytes of a refusal: refused messages count against
        its rates like accepted ones. It raises a 429 Problem.
        """
        self._source = source
        self._checker = Checker(process_pool)
        self._charge = charge

    async def refuse(self, topic: Topic, message: Message) -> None:
        """Raise a Problem if a message does not fit.

        It is 422 with the faults, 503 if the schema cannot be read now, and 429 if the tenant's
        checks cost too much.
        """
        kind, text = await self._definition(topic, message)
        try:
            errors = await self._checker.check(
                topic.tenant_id, kind, text, message.data, message.content_type
            )
        except BadDefinition as error:  # another release, with other rules, stored it
            detail = f"The topic's schema is not understood here: {error}."
            raise unavailable("schema", detail) from error
        if errors:
            self._charge(topic.tenant_id, 1, len(message.data))
            raise violation(topic.schema or "", errors)

    async def checked(
        self, topic: Topic, entries: Sequence[Message | Problem]
    ) -> list[Message | Problem]:
        """Return a batch with a Problem in place of each message that does not fit.

        Later messages of its key fail too, because publishing them would break their order.
        """
        broken: set[str] = set()
        result: list[Message | Problem] = []
        slices = Slices()
        for entry in entries:
            if slices.over:
                await slices.rest()
            if isinstance(entry, Problem):
                result.append(entry)
                continue
            if broken and entry.key in broken:
                result.append(preceding_item_failed())
                continue
            try:
                await self.refuse(topic, entry)
            except Problem as problem:
                if problem.status != 422:
                    raise
                if entry.key is not None:
                    broken.add(entry.key)
                result.append(problem)
            else:
                result.append(entry)
        return result

    async def _definition(self, topic: Topic, message: Message) -> tuple[str, str]:
        """Return the kind and the text of the definition that a message has to fit."""
        source = self._source
        assert topic.schema is not None
        assert source is not None, "no source of schemas was configured"
        schema = source.cached(topic.tenant_id, topic.schema)
        try:
            if schema is None:
                schema = await source.get(topic.tenant_id, topic.schema)
            text = schema.definition
            wanted = (message.attributes or {}).get(VERSION_ATTRIBUTE)
            if wanted is not None and wanted != str(schema.number):
                text = await _named(source, schema, wanted)
        except MetadataError as error:
            detail = f"The schema {topic.schema!r} cannot be read now. Nothing was stored."
            raise unavailable("metadata", detail) from error
        return schema.type, text


def violation(schema: str, errors: Sequence[FieldError]) -> Problem:
    return Problem.of(
        "schema-violation",
        f"The body does not fit the schema {schema!r} of its topic. The message is not stored.",
        errors=errors,
        extra={"outcome": "not_done"},
    )


async def _named(source: SchemaCatalog, schema: Schema, wanted: str) -> str:
    digits = wanted.isascii() and wanted.isdigit() and len(wanted) <= MAX_VERSION_DIGITS
    number = int(wanted) if digits else 0
    if number < 1:
        detail = "the number of a version, from 1 on"
        raise violation(schema.name, [FieldError(f"attributes.{VERSION_ATTRIBUTE}", detail)])
    try:
        # Later versions than those known here are tried, too: one may have been made a moment ago.
        found = await source.version(schema.tenant_id, schema.name, number)
    except NotFound:
        detail = f"the schema {schema.name!r} has no version {number}"
        error = FieldError(f"attributes.{VERSION_ATTRIBUTE}", detail)
        raise violation(schema.name, [error]) from None
    return found.definition
