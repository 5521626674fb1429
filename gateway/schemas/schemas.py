"""Control plane of schemas: create, versions, compatibility, checks and previews."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import UNSET

from edge.asgi import (
    Receive,
    Route,
    Scope,
    Send,
    caller_of,
    path_param,
    respond,
    tenant_of,
)
from edge.problem import FieldError, Problem, invalid, not_found
from edge.slices import Slices
from gateway.http.decoding import read_json
from gateway.names import name_errors
from gateway.resources import Call, Resource, Shown, taken
from gateway.topics.recent_messages import recent_messages
from metadata.catalog import Catalog
from metadata.errors import Conflict, NotFound
from metadata.topics.schemas import MAX_VERSIONS, Schema, SchemaRepository
from openapi import schemas as contract
from schemas.checker import Checker
from schemas.definition import is_json
from schemas.limits import BadDefinition, CannotCompare
from store_nodes.client import StoreClient

MAX_SAMPLES = 20
MAX_TRIES = 3


class SchemaRoutes:
    """Definitions are compiled and compared, and bodies checked, as far as that may take long, in
    worker processes."""

    def __init__(
        self,
        schemas: SchemaRepository,
        catalog: Catalog,
        store: StoreClient,
        checker: Checker,
    ) -> None:
        self._schemas = schemas
        self._catalog = catalog
        self._store = store
        self._checker = checker

    def routes(self) -> list[Route]:
        table = contract.OPERATIONS
        schemas = Resource("schema", table["getSchema"], _whole)
        return [
            schemas.creates(
                table["createSchema"], contract.SchemaCreate, self._create, taken("schema")
            ),
            schemas.lists(table["listSchemas"], self._schemas.page),
            schemas.gets(table["getSchema"], self._schemas.get),
            schemas.changes(table["changeSchema"], contract.SchemaPatch, self._patch),
            schemas.deletes(table["deleteSchema"], self._delete),
            Route(table["addSchemaVersion"], self.add_version),
            Route(table["listSchemaVersions"], self.versions),
            Route(table["getSchemaVersion"], self.version),
            Route(table["checkSchema"], self.check),
            Route(table["validateBody"], self.validate),
            Route(table["previewSchema"], self.preview),
        ]

    async def _create(self, call: Call, body: contract.SchemaCreate) -> Schema:
        errors = name_errors(body.name)
        if errors:
            raise invalid("The body does not fit.", errors)
        text = await self._compiled(call.tenant_id, body.type, _text(body.definition))
        return await self._schemas.create(
            call.tenant_id,
            body.name,
            type_=body.type,
            compatibility=body.compatibility,
            definition=text,
        )

    async def _patch(self, call: Call, body: contract.SchemaPatch) -> Schema:
        return await self._schemas.set_compatibility(
            call.tenant_id, call.name, body.compatibility, if_version=call.if_version
        )

    async def _delete(self, call: Call) -> None:
        """Raise a 409 Problem while a topic uses the schema."""
        try:
            await self._schemas.delete(call.tenant_id, call.name, if_version=call.if_version)
        except Conflict as error:
            if error.existing is None:
                raise
            detail = (
                f"The topic {error.existing!r} uses the schema {call.name!r}; take it off first."
            )
            raise Problem.of("schema-in-use", detail) from error

    async def add_version(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 201 with the number; 200 if the latest version has the same definition."""
        body = await read_json(scope, receive, contract.SchemaDefinition)
        for _ in range(MAX_TRIES):
            latest = await self._find(scope)
            text = await self._compiled(latest.tenant_id, latest.type, _text(body.definition))
            if _same(text, latest.definition):
                await _respond(send, 200, contract.SchemaNumber(latest.number))
                return
            errors = await self._breaks(latest, text)
            if errors:
                raise _incompatible(latest, errors)
            if latest.number >= MAX_VERSIONS:
                detail = f"A schema has at most {MAX_VERSIONS} versions."
                raise Problem.of("too-many-versions", detail)
            try:
                added = await self._schemas.add_version(
                    latest.tenant_id, latest.name, text, after=latest.number
                )
            except Conflict:
                continue  # another version came between: compare with that
            await _respond(send, 201, contract.SchemaNumber(added.number))
            return
        raise Problem.of("conflict", "Other versions were added at the same time; try again.")

    async def versions(self, scope: Scope, receive: Receive, send: Send) -> None:
        schema = await self._find(scope)
        found = await self._schemas.versions(schema.tenant_id, schema.name)
        listed = [contract.SchemaVersionListed(*each) for each in found]
        await _respond(send, 200, contract.SchemaVersions(listed))

    async def version(self, scope: Scope, receive: Receive, send: Send) -> None:
        schema = await self._find(scope)
        wanted = path_param(scope, "number")
        number = int(wanted) if wanted.isascii() and wanted.isdigit() and len(wanted) < 10 else 0
        found = await self._schemas.version(schema.tenant_id, schema.name, number)
        await _respond(
            send,
            200,
            contract.SchemaVersion(found.number, _raw(found.definition), found.created_at),
        )

    async def check(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer whether a definition could be the next version; nothing is kept."""
        body = await read_json(scope, receive, contract.SchemaDefinition)
        latest = await self._find(scope)
        text = await self._compiled(latest.tenant_id, latest.type, _text(body.definition))
        errors = await self._breaks(latest, text)
        answer = contract.SchemaChecked(
            not errors, latest.compatibility, latest.number, _shown(errors)
        )
        await _respond(send, 200, answer)

    async def validate(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer whether a body fits; nothing is published."""
        body = await read_json(scope, receive, contract.SchemaValidate)
        data, content_type = _body_of(body)
        schema = await self._find(scope)
        number, text = schema.number, schema.definition
        if body.number is not None and body.number != number:
            found = await self._schemas.version(schema.tenant_id, schema.name, body.number)
            number, text = found.number, found.definition
        errors = await self._checked(tenant_of(scope), schema.type, text, data, content_type)
        answer = contract.SchemaValidated(not errors, number, _shown(errors))
        await _respond(send, 200, answer)

    async def preview(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Count the newest messages of a topic that fit, with samples of those that do not."""
        body = await read_json(scope, receive, contract.SchemaPreview)
        _check_preview(body)
        tenant_id = tenant_of(scope)
        topic = await self._catalog.topic(tenant_id, path_param(scope, "topic"), refresh=True)
        if body.schema is not None:
            await caller_of(scope).require("read", "schema", body.schema)
            schema = await self._named(tenant_id, body.schema)
            kind, text = schema.type, schema.definition
        else:
            assert body.type is not None
            assert body.definition is not None
            kind, text = body.type, _text(body.definition)
        recent = await recent_messages(self._store, topic, body.messages)
        samples: list[contract.SchemaSample] = []
        valid = 0
        slices = Slices()
        for one in recent:
            message = one.message
            errors = await self._checked(tenant_id, kind, text, message.data, message.content_type)
            if slices.over:
                await slices.rest()
            valid += not errors
            if errors and len(samples) < MAX_SAMPLES:
                samples.append(
                    contract.SchemaSample(one.message_id, one.partition, one.offset, _shown(errors))
                )
        await _respond(send, 200, contract.SchemaPreviewed(len(recent), valid, samples))

    async def _find(self, scope: Scope) -> Schema:
        return await self._named(tenant_of(scope), path_param(scope, "name"))

    async def _named(self, tenant_id: bytes, name: str) -> Schema:
        if name_errors(name):
            raise not_found("schema", name)
        try:
            return await self._schemas.get(tenant_id, name)
        except NotFound as error:
            raise not_found("schema", name) from error

    async def _compiled(self, tenant_id: bytes, kind: str, text: str) -> str:
        """Return a definition as it is stored and compared: without blanks, members in the order
        given. Raise a 422 Problem for one that cannot be compiled."""
        try:
            await self._checker.compile(tenant_id, kind, text)
        except BadDefinition as error:
            raise _bad_definition(error) from error
        return msgspec.json.encode(msgspec.json.decode(text)).decode()

    async def _checked(
        self, tenant_id: bytes, kind: str, text: str, data: bytes, content_type: str | None
    ) -> list[FieldError]:
        try:
            return await self._checker.check(tenant_id, kind, text, data, content_type)
        except BadDefinition as error:
            raise _bad_definition(error) from error

    async def _breaks(self, latest: Schema, text: str) -> Sequence[FieldError]:
        """Return the reasons that it cannot be the next version."""
        if latest.compatibility == "none":
            return []
        try:
            return await self._checker.compare(
                latest.tenant_id, latest.type, latest.compatibility, text, latest.definition
            )
        except CannotCompare as error:
            return [FieldError("definition", f"cannot be compared: {error}")]


def _same(one: str, other: str) -> bool:
    """Compare as JSON, with members in any order."""
    return _sorted(msgspec.json.decode(one)) == _sorted(msgspec.json.decode(other))


_sorted = msgspec.json.Encoder(order="deterministic").encode


def _incompatible(latest: Schema, errors: Sequence[FieldError]) -> Problem:
    return Problem.of(
        "schema-incompatible",
        f"The definition is not {latest.compatibility} compatible with version {latest.number} of "
        f"{latest.name!r}; errors name values by JSON pointer.",
        errors=errors,
    )


def _shown(errors: Sequence[FieldError]) -> list[contract.SchemaError]:
    return [contract.SchemaError(error.field, error.detail) for error in errors]


def _body_of(body: contract.SchemaValidate) -> tuple[bytes, str]:
    """Return the bytes that a publisher would send, and their content type; raise a 422 Problem."""
    content_type = body.content_type or "application/json"
    if (body.data is UNSET) == (body.data_base64 is None):
        detail = "give either data or data_base64"
        raise invalid("The body does not fit.", [FieldError("data", detail)])
    if body.data_base64 is not None:
        return body.data_base64, content_type
    if is_json(content_type):
        return msgspec.json.encode(body.data), content_type
    if not isinstance(body.data, str):
        detail = "must be a string where content_type is not JSON"
        raise invalid("The body does not fit.", [FieldError("data", detail)])
    return body.data.encode("utf-8", "replace"), content_type


def _check_preview(body: contract.SchemaPreview) -> None:
    """Raise a 422 Problem unless the body names a schema or has a type and a definition."""
    if (body.schema is None) == (body.definition is None):
        detail = "give either schema or definition"
        raise invalid("The body does not fit.", [FieldError("schema", detail)])
    if (body.type is None) != (body.definition is None):
        detail = "goes with a definition"
        raise invalid("The body does not fit.", [FieldError("type", detail)])


def _text(definition: contract.Definition) -> str:
    """Return the text of a definition that is given as JSON; a string is the text."""
    return definition if isinstance(definition, str) else msgspec.json.encode(definition).decode()


def _whole(schema: Schema) -> Shown:
    return Shown(_view(schema), schema.name, schema.version)


def _view(schema: Schema) -> contract.Schema:
    """Return a schema as the API shows it, with its latest version."""
    return contract.Schema(
        name=schema.name,
        type=schema.type,
        compatibility=schema.compatibility,
        number=schema.number,
        definition=_raw(schema.definition),
        created_at=schema.created_at,
        updated_at=schema.updated_at,
    )


def _raw(definition: str) -> msgspec.Raw:
    return msgspec.Raw(definition.encode())


def _bad_definition(error: BadDefinition) -> Problem:
    return Problem.of(
        "invalid-definition",
        "The definition is wrong or beyond the limits; errors name the places by JSON pointer.",
        errors=[error._replace(field=f"definition{error.field}") for error in error.errors],
    )


async def _respond(send: Send, status: int, body: object) -> None:
    await respond(send, status, msgspec.json.encode(body))
