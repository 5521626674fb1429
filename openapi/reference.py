"""Writes docs/reference: for each module of the contract a page of its operations and objects."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from msgspec import UNSET

from openapi import common
from openapi.areas import AREAS
from openapi.assembly import PATH_PARAMETER, Document
from openapi.contract import Answer, Body, OpenAnswer, Operation, Parameter, Refusal, Success
from openapi.in_words import default, in_words, listed
from openapi.json_schema import Schema, one_line
from openapi.overview import DESCRIPTION
from openapi.refusals import RULES, refusals_of

PAGES = Path(__file__).parents[1] / "docs/reference"
HEADER = "<!-- Generated from openapi/: `make generate`. Do not edit. -->"
INDEX = "README.md"
ABOUT = """\
Each page has the operations of an area with their permissions, parameters and answers, and the
objects that they take and give. The [guides](../guides/README.md) show how to use them, and
[problems](../problems.md) says what each error means.

In a request, a field that is neither required nor has a default may be left out, and a field that
an object does not have is refused. In an answer, each field is there unless the table says that it
may be missing. A *time* is RFC 3339 in UTC; *base64* is a string; *any JSON* is a value of any
type.

A permission holds for the named resource, for *every* one, or for *some*: then the answer has those
that the caller may see, or the body names the resource.
[Access control](../guides/access-control.md) says how to grant permissions."""
REFUSED = """\
An operation that needs a token may be refused by each of these rules that it falls under, unless
its page says another meaning of the same status; a public one only as its page says. The body is a
[Problem](common.md#problem)."""
_WIDTH = 100


class Reference:
    """The pages, and the place of each object among them."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._schemas = document.schemas
        self._page = {
            name: page_of(kind.__module__) for name, kind in self._schemas.classes.items()
        }

    def pages(self) -> dict[Path, str]:
        """Return the text of each page."""
        modules = (*AREAS, common)
        found = {page_of(each.__name__): self._module_page(each) for each in modules}
        found[INDEX] = self._index()
        return {PAGES / name: f"{HEADER}\n\n{text}\n" for name, text in found.items()}

    def _index(self) -> str:
        areas = (
            (
                f"[{title_of(each.__name__)}]({page_of(each.__name__)})",
                str(len(each.OPERATIONS)),
                one_line(each.__doc__ or ""),
            )
            for each in AREAS
        )
        rules = (
            (str(refusal.status), rule.words, self._refused(refusal, INDEX))
            for rule in RULES
            for refusal in rule.refusals
        )
        headers = ((f"`{name}`", told["description"]) for name, told in self._headers())
        shared = self._module_link(common.__name__)
        return "\n\n".join(
            [
                "# The HTTP API",
                wrapped(DESCRIPTION),
                ABOUT,
                "## Areas",
                table(("area", "operations", "subject"), areas),
                f"Objects of several areas are in {shared}.",
                "## Pages",
                "An operation whose answer is one page of a list has these parameters:",
                self._parameters(common.PAGING, INDEX),
                "## Refusals",
                wrapped(REFUSED),
                table(("status", "operations", "meaning"), rules),
                "## Headers",
                "Answers have these headers where the page of an operation names them:",
                table(("header", "meaning"), headers),
            ]
        )

    def _headers(self) -> Iterable[tuple[str, Any]]:
        return sorted(self._document.headers.items())

    def _module_link(self, module: str) -> str:
        return f"[{title_of(module)}]({page_of(module)})"

    def _module_page(self, module: Any) -> str:
        page = page_of(module.__name__)
        operations = list(getattr(module, "OPERATIONS", {}).values())
        parts = [f"# API: {title_of(module.__name__).lower()}", one_line(module.__doc__ or "")]
        if operations:
            rows = (
                (f"[`{each.route}`](#{anchor(each.route)})", each.summary) for each in operations
            )
            parts.append(table(("operation", "purpose"), rows))
        for each in operations:
            parts += self._operation(each, page)
        names = [name for name, home in self._page.items() if home == page]
        if names:
            parts.append("## Objects")
        for name in names:
            parts += self._object(name, page)
        return "\n\n".join(parts)

    def _operation(self, operation: Operation, page: str) -> Iterator[str]:
        yield f"## {operation.route}"
        yield wrapped(f"{operation.summary}. {operation.description}".strip())
        needs = f"- Operation `{operation.id}`, permission: {permission(operation)}"
        body = self._body(operation, page)
        yield f"{needs}\n- Body: {body}" if body else needs
        named = [common.IN_PATH[each] for each in PATH_PARAMETER.findall(operation.path)]
        if parameters := (*named, *operation.parameters):
            yield self._parameters(parameters, page)
        if operation.paged:
            yield f"`page_size` and `page_token` choose [the page]({INDEX}#pages)."
        answers = [(str(each.status), self._success(each, page)) for each in operation.answers]
        special = [
            (str(each.status), self._refused(each, page))
            for each in refusals_of(operation)
            if each in operation.problems
        ]
        yield table(("answer", "meaning"), [*answers, *special])
        others = [
            str(each.status) for each in refusals_of(operation) if each not in operation.problems
        ]
        if others:
            yield f"By [the rules of all operations]({INDEX}#refusals): {', '.join(others)}."

    def _body(self, operation: Operation, page: str) -> str:
        kinds = operation.media or {"application/json": operation.body}
        if kinds == {"application/json": None}:
            return ""
        optional = "" if operation.body_required else "; may be left out"
        return self._contents(kinds, page) + optional

    def _contents(self, kinds: dict[str, Any], page: str) -> str:
        """Return the kind of each media type; JSON goes without saying."""
        return "; ".join(
            self._type(kind, page)
            if media == "application/json"
            else f"`{media}`"
            if kind is str
            else f"`{media}`: {self._type(kind, page)}"
            for media, kind in kinds.items()
        )

    def _success(self, answer: Success, page: str) -> str:
        said = answer.description
        if answer.kind is not None:
            kinds = dict.fromkeys(answer.media, answer.kind) | answer.others
            said += f" Body: {self._contents(kinds, page)}."
        if answer.headers:
            said += f" Headers: {listed([f'`{each.name}`' for each in answer.headers], 'and')}."
        return said

    def _refused(self, refusal: Refusal, page: str) -> str:
        if refusal.kind is common.Problem:
            return refusal.description
        return f"{refusal.description} Body: {self._type(refusal.kind, page)}."

    def _parameters(self, parameters: Iterable[Parameter], page: str) -> str:
        rows = (
            (
                f"`{each.name}`",
                each.where,
                self._type(each.kind, page),
                presence(each.required, _default_of(each)),
                each.description,
            )
            for each in parameters
        )
        return table(("parameter", "in", "type", "default", "meaning"), rows)

    def _type(self, kind: Any, page: str) -> str:
        return self._words(self._schemas.of(kind), page)

    def _words(self, schema: Schema, page: str) -> str:
        return in_words(schema, lambda name: self._link(name, page))

    def _link(self, name: str, page: str) -> str:
        home = self._page[name]
        return f"[{name}]({'' if home == page else home}#{anchor(name)})"

    def _object(self, name: str, page: str) -> Iterator[str]:
        kind, schema = self._schemas.classes[name], self._schemas.named[name]
        yield f"### {name}"
        if about := schema.get("description"):
            yield wrapped(about)
        if issubclass(kind, Body) and kind.PATCHED is not None:
            yield f"Its fields are those of {self._link(kind.PATCHED.__name__, page)}."
            return
        yield from map(wrapped, self._rules(kind, schema, page))
        missing = "may be missing" if issubclass(kind, Answer | OpenAnswer) else ""
        rows = (
            (
                f"`{field}`",
                self._words(told, page),
                ("" if required else missing) if missing else presence(required, told),
                told.get("description", ""),
            )
            for field, told, required in fields_of(schema)
        )
        yield table(("field", "type", "" if missing else "default", "meaning"), rows)

    def _rules(self, kind: type, schema: Schema, page: str) -> Iterator[str]:
        """Yield the sentences of an object that are about more than one field."""
        if issubclass(kind, Body):
            if kind.EXACTLY_ONE:
                yield f"Exactly one of {_names(kind.EXACTLY_ONE)} is given."
            if kind.AT_LEAST_ONE:
                yield f"At least one of {_names(kind.AT_LEAST_ONE)} is given."
        further = schema.get("additionalProperties", "oneOf" not in schema)
        if isinstance(further, dict):
            yield f"Each further field is {self._words(further, page)}."
        elif further:
            answer = issubclass(kind, OpenAnswer)
            yield "It may have further fields." if answer else "Further fields are ignored."


def fields_of(schema: Schema) -> Iterator[tuple[str, Schema, bool]]:
    """Yield the name and the schema of each field of an object, and whether it is required."""
    alternatives = schema.get("oneOf", [schema])
    fields = {name: told for each in alternatives for name, told in each["properties"].items()}
    for name, told in fields.items():
        yield name, told, all(name in each.get("required", ()) for each in alternatives)


def presence(required: bool, schema: Schema) -> str:
    """Return whether a request has to have a value, or the default of the value."""
    if required:
        return "required"
    return f"default {default(schema['default'])}" if "default" in schema else ""


def permission(operation: Operation) -> str:
    """Return the words for the permission and the resource that an operation needs."""
    if operation.permission == "public":
        return "none"
    if operation.permission == "self":
        return "any valid token"
    if operation.resource == "*":
        return f"`{operation.permission}` on everything"
    kind, _, name = operation.resource.partition(":")
    which = {"*": f"every {kind}", "?": f"some {kind}"}.get(name, f"the {kind} `{{{name}}}`")
    return f"`{operation.permission}` on {which}"


def table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(cells)} |".replace("  ", " ") for cells in lines)


def wrapped(text: str) -> str:
    """Return paragraphs in lines."""
    return "\n\n".join(
        textwrap.fill(each, _WIDTH, break_long_words=False, break_on_hyphens=False)
        for each in text.split("\n\n")
    )


def page_of(module: str) -> str:
    """Return the file of the page of a module."""
    return module.rpartition(".")[2].replace("_", "-") + ".md"


def title_of(module: str) -> str:
    """Return the title of the page of a module."""
    return module.rpartition(".")[2].replace("_", " ").capitalize()


def anchor(heading: str) -> str:
    """Return the anchor that Markdown gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def _default_of(parameter: Parameter) -> Schema:
    return {} if parameter.default is UNSET else {"default": parameter.default}


def _names(fields: tuple[str, ...]) -> str:
    return listed([f"`{each}`" for each in fields], "and")
