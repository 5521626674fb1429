"""Puts the tables and classes of the contract together into one OpenAPI document."""

from __future__ import annotations

import re
from typing import Any

import msgspec

from openapi import common
from openapi.areas import OPERATIONS
from openapi.contract import Header, Operation, Parameter, Refusal, Success
from openapi.json_schema import Schemas
from openapi.overview import HEAD
from openapi.refusals import refusals_of

PATH_PARAMETER = re.compile(r"\{(\w+)\}")


def assembled() -> dict[str, Any]:
    """Return the document."""
    return Document().whole()


class Document:
    """The OpenAPI document; the components that `whole` met stay in the attributes."""

    def __init__(self) -> None:
        self.schemas = Schemas()
        self._parameters: dict[str, Any] = {}
        self._responses: dict[str, Any] = {}
        self.headers: dict[str, Any] = {}

    def whole(self) -> dict[str, Any]:
        paths: dict[str, Any] = {}
        for operation in OPERATIONS.values():
            path = operation.path
            if path not in paths:
                named = [
                    self._parameter(common.IN_PATH[each]) for each in PATH_PARAMETER.findall(path)
                ]
                paths[path] = {"parameters": named} if named else {}
            paths[path][operation.method.lower()] = self._operation(operation)
        return HEAD | {
            "paths": paths,
            "components": {
                "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
                "headers": self.headers,
                "parameters": self._parameters,
                "responses": self._responses,
                "schemas": self.schemas.named,
            },
        }

    def _operation(self, operation: Operation) -> dict[str, Any]:
        written: dict[str, Any] = {
            "operationId": operation.id,
            "tags": [operation.tag],
            "summary": operation.summary,
        }
        if operation.permission == "public":
            written["security"] = []
        if operation.description:
            written["description"] = operation.description
        parameters = (*operation.parameters, *(common.PAGING if operation.paged else ()))
        if parameters:
            written["parameters"] = [self._parameter(each) for each in parameters]
        if operation.body is not None or operation.media:
            written["requestBody"] = self._body(operation)
        answers = {str(each.status): self._success(each) for each in operation.answers}
        refusals = {str(each.status): self._refusal(each) for each in refusals_of(operation)}
        return written | {"responses": answers | refusals}

    def _body(self, operation: Operation) -> dict[str, Any]:
        kinds = operation.media or {"application/json": operation.body}
        content = {media: {"schema": self.schemas.of(kind)} for media, kind in kinds.items()}
        return {"required": operation.body_required, "content": content}

    def _success(self, answer: Success) -> dict[str, Any]:
        written: dict[str, Any] = {"description": answer.description}
        if answer.headers:
            written["headers"] = {each.name: self._header(each) for each in answer.headers}
        if answer.kind is not None:
            kinds = dict.fromkeys(answer.media, answer.kind) | answer.others
            written["content"] = {
                media: {"schema": self.schemas.of(kind)} for media, kind in kinds.items()
            }
        return written

    def _refusal(self, refusal: Refusal) -> dict[str, Any]:
        if refusal.key not in self._responses:
            written: dict[str, Any] = {"description": refusal.description}
            if refusal.headers:
                written["headers"] = {each.name: self._header(each) for each in refusal.headers}
            schema = self.schemas.of(refusal.kind)
            written["content"] = {refusal.media: {"schema": schema}}
            self._responses[refusal.key] = written
        return {"$ref": f"#/components/responses/{refusal.key}"}

    def _header(self, header: Header) -> dict[str, Any]:
        written = {"description": header.description, "schema": self.schemas.of(header.kind)}
        if not header.component:
            return written
        self.headers[header.name] = written
        return {"$ref": f"#/components/headers/{header.name}"}

    def _parameter(self, parameter: Parameter) -> dict[str, Any]:
        written: dict[str, Any] = {
            "name": parameter.name,
            "in": parameter.where,
            "required": parameter.required,
            "description": parameter.description,
            "schema": self.schemas.of(parameter.kind),
        }
        if parameter.default is not msgspec.UNSET:
            written["schema"]["default"] = parameter.default
        if not parameter.key:
            return written
        self._parameters[parameter.key] = written
        return {"$ref": f"#/components/parameters/{parameter.key}"}
