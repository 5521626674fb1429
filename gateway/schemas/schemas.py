"""Control plane of schemas: create, versions, compatibility, checks and previews."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from edge.asgi import (
    Receive,
    Route,
    Scope,
    Send,
    caller_of,
    header,
    path_param,
    respond,
    tenant_of,
)
from edge.problem import FieldError, Problem, not_found
from edge.slices import Slices
from gateway.http.decoding import etag, if_match, read_json
from gateway.names import name_errors
from gateway.schemas.bodies import (
    DefinitionBody,
    PreviewBody,
    SchemaCreate,
    SchemaPatch,
    ValidateBody,
    bad_definition,
    text_of,
    version_view,
    view,
)
from gateway.topics.recent_messages import RecentStore, recent_messages
from gateway.topics.topics import precondition_failed, respond_no_content
from gateway.visible import visible_page
from metadata.catalog import Catalog
from metadata.errors import Conflict, NotFound
from metadata.topics.schemas import MAX_VERSIONS, Schema, SchemaRepository
from openapi.schemas import OPERATIONS
from publish_forwarder.schemas.checker import Checker
from publish_forwarder.schemas.limits import BadDefinition, CannotCompare

MAX_SAMPLES = 20
MAX_TRIES = 3


class SchemaRoutes:
    """Definitions are compiled and compared, and bodies checked, as far as that may take long, in
    worker processes."""

    def __init__(
        self,
        schemas: SchemaRepository,
        catalog: Catalog,
        store: RecentStore,
        checker: Checker,
    ) -> None:
        self._schemas = schemas
        self._catalog = catalog
        self._store = store
        self._checker = checker

    def routes(self) -> list[Route]:
        return [
            Route(OPERATIONS["createSchema"], self.create),
            Route(OPERATIONS["listSchemas"], self.page),
            Route(OPERATIONS["getSchema"], self.get),
            Route(OPERATIONS["changeSchema"], self.patch),
            Route(OPERATIONS["deleteSchema"], self.delete),
            Route(OPERATIONS["addSchemaVersion"], self.add_version),
            Route(OPERATIONS["listSchemaVersions"], self.versions),
            Route(OPERATIONS["getSchemaVersion"], self.version),
            Route(OPERATIONS["checkSchema"], self.check),
            Route(OPERATIONS["validateBody"], self.validate),
            Route(OPERATIONS["previewSchema"], self.preview),
        ]

    async def create(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_json(scope, receive, SchemaCreate)
        caller_of(scope).require("manage", "schema", body.name)
        body.check()
        text = await self._compiled(tenant_of(scope), body.type, text_of(body.definition))
        try:
            schema = await self._schemas.create(
                tenant_of(scope),
                body.name,
                type_=body.type,
                compatibility=body.compatibility,
                definition=text,
            )
        except Conflict as error:
            detail = f"There is a schema {body.name!r} already."
            raise Problem(409, "schema-exists", "Schema exists", detail) from error
        location = (b"location", b"/schemas/" + schema.name.encode("ascii"))
        await _respond(send, 201, view(schema), [location, etag(schema.version)])

    async def get(self, scope: Scope, receive: Receive, send: Send) -> None:
        schema = await self._find(scope)
        await _respond(send, 200, view(schema), [etag(schema.version)])

    async def page(self, scope: Scope, receive: Receive, send: Send) -> None:
        tenant_id = tenant_of(scope)
        page = await visible_page(
            scope,
            "schema",
            lambda size, token: self._schemas.page(tenant_id, page_size=size, page_token=token),
        )
        listing = {"schemas": [view(one) for one in page.items], "next_page_token": page.next_token}
        await _respond(send, 200, listing)

    async def patch(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = await read_json(scope, receive, SchemaPatch)
        await self._find(scope)
        try:
            schema = await self._schemas.set_compatibility(
                tenant_of(scope),
                path_param(scope, "name"),
                body.compatibility,
                if_version=if_match(header(scope, b"if-match")),
            )
        except Conflict as error:
            raise precondition_failed("schema") from error
        await _respond(send, 200, view(schema), [etag(schema.version)])

    async def delete(self, scope: Scope, receive: Receive, send: Send) -> None:
        """409 while a topic uses it."""
        await self._find(scope)
        version = if_match(header(scope, b"if-match"))
        name = path_param(scope, "name")
        try:
            await self._schemas.delete(tenant_of(scope), name, if_version=version)
        except Conflict as error:
            if error.existing is None:
                raise precondition_failed("schema") from error
            detail = f"The topic {error.existing!r} uses the schema {name!r}; take it off first."
            raise Problem(409, "schema-in-use", "Schema in use", detail) from error
        await respond_no_content(send)

    async def add_version(self, scope: Scope, receive: Receive, send: Send) -> None:
        """201 with its number; 200 with the latest one's where that has the same definition."""
        body = await read_json(scope, receive, DefinitionBody)
        for _ in range(MAX_TRIES):
            latest = await self._find(scope)
            text = await self._compiled(latest.tenant_id, latest.type, text_of(body.definition))
            if _same(text, latest.definition):
                await _respond(send, 200, {"number": latest.number})
                return
            errors = await self._breaks(latest, text)
            if errors:
                raise _incompatible(latest, errors)
            if latest.number >= MAX_VERSIONS:
                detail = f"A schema has at most {MAX_VERSIONS} versions."
                raise Problem(409, "too-many-versions", "Too many versions", detail)
            try:
                added = await self._schemas.add_version(
                    latest.tenant_id, latest.name, text, after=latest.number
                )
            except Conflict:
                continue  # another version came between: compare with that
            await _respond(send, 201, {"number": added.number})
            return
        raise Problem(
            409, "conflict", "Conflict", "Other versions were added at the same time; try again."
        )

    async def versions(self, scope: Scope, receive: Receive, send: Send) -> None:
        schema = await self._find(scope)
        found = await self._schemas.versions(schema.tenant_id, schema.name)
        listed = [{"number": number, "created_at": created_at} for number, created_at in found]
        await _respond(send, 200, {"versions": listed})

    async def version(self, scope: Scope, receive: Receive, send: Send) -> None:
        schema = await self._find(scope)
        wanted = path_param(scope, "number")
        number = int(wanted) if wanted.isascii() and wanted.isdigit() and len(wanted) < 10 else 0
        found = await self._schemas.version(schema.tenant_id, schema.name, number)
        await _respond(send, 200, version_view(found))

    async def check(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Whether a definition could be the next version; nothing is kept."""
        body = await read_json(scope, receive, DefinitionBody)
        latest = await self._find(scope)
        text = await self._compiled(latest.tenant_id, latest.type, text_of(body.definition))
        errors = await self._breaks(latest, text)
        answer = {
            "compatible": not errors,
            "compatibility": latest.compatibility,
            "number": latest.number,
            "errors": _shown(errors),
        }
        await _respond(send, 200, answer)

    async def validate(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Whether a body fits; nothing is published."""
        body = await read_json(scope, receive, ValidateBody)
        data, content_type = body.body()
        schema = await self._find(scope)
        number, text = schema.number, schema.definition
        if body.number is not None and body.number != number:
            found = await self._schemas.version(schema.tenant_id, schema.name, body.number)
            number, text = found.number, found.definition
        errors = await self._checked(tenant_of(scope), schema.type, text, data, content_type)
        answer = {"valid": not errors, "number": number, "errors": _shown(errors)}
        await _respond(send, 200, answer)

    async def preview(self, scope: Scope, receive: Receive, send: Send) -> None:
        """How many of the topic's newest messages fit; samples of those that do not."""
        body = await read_json(scope, receive, PreviewBody)
        body.check()
        tenant_id = tenant_of(scope)
        topic = await self._catalog.topic(tenant_id, path_param(scope, "topic"), refresh=True)
        if body.schema is not None:
            caller_of(scope).require("read", "schema", body.schema)
            schema = await self._named(tenant_id, body.schema)
            kind, text = schema.type, schema.definition
        else:
            assert body.type is not None
            assert body.definition is not None
            kind, text = body.type, text_of(body.definition)
        recent = await recent_messages(self._store, topic, body.messages)
        samples: list[dict[str, Any]] = []
        valid = 0
        slices = Slices()
        for one in recent:
            message = one.message
            errors = await self._checked(tenant_id, kind, text, message.data, message.content_type)
            if slices.over:
                await slices.rest()
            valid += not errors
            if errors and len(samples) < MAX_SAMPLES:
                name = {"message_id": one.message_id, "partition": one.partition}
                samples.append(name | {"offset": one.offset, "errors": _shown(errors)})
        await _respond(send, 200, {"messages": len(recent), "valid": valid, "samples": samples})

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
        """A definition that can be compiled, as it is stored and compared: without blanks, members
        in the order given. Raises a 422 Problem."""
        try:
            await self._checker.compile(tenant_id, kind, text)
        except BadDefinition as error:
            raise bad_definition(error) from error
        return msgspec.json.encode(msgspec.json.decode(text)).decode()

    async def _checked(
        self, tenant_id: bytes, kind: str, text: str, data: bytes, content_type: str | None
    ) -> list[FieldError]:
        try:
            return await self._checker.check(tenant_id, kind, text, data, content_type)
        except BadDefinition as error:
            raise bad_definition(error) from error

    async def _breaks(self, latest: Schema, text: str) -> Sequence[FieldError]:
        """Why it cannot be the next version."""
        if latest.compatibility == "none":
            return []
        try:
            return await self._checker.compare(
                latest.tenant_id, latest.type, latest.compatibility, text, latest.definition
            )
        except CannotCompare as error:
            return [FieldError("definition", f"cannot be compared: {error}")]


def _same(one: str, other: str) -> bool:
    """As JSON: members in any order."""
    return _sorted(msgspec.json.decode(one)) == _sorted(msgspec.json.decode(other))


_sorted = msgspec.json.Encoder(order="deterministic").encode


def _incompatible(latest: Schema, errors: Sequence[FieldError]) -> Problem:
    return Problem(
        422,
        "schema-incompatible",
        "The definition is not compatible",
        f"The definition is not {latest.compatibility} compatible with version {latest.number} of "
        f"{latest.name!r}; errors name values by JSON pointer.",
        errors=errors,
    )


def _shown(errors: Sequence[FieldError]) -> list[dict[str, str]]:
    return [error._asdict() for error in errors]


async def _respond(
    send: Send, status: int, body: object, headers: Sequence[tuple[bytes, bytes]] = ()
) -> None:
    await respond(send, status, msgspec.json.encode(body), headers=headers)
