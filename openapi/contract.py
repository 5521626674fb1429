"""Defines the vocabulary in which the modules of this package describe the HTTP API.

A module describes one area. Its classes are the bodies of requests and answers: the annotation of a
field has its type and limits, its default stands in the class, and the line below it describes it.
A type that many fields have, such as `Labels`, describes them where it is defined (`Meta`).
The table OPERATIONS of a module says which request is answered with which of them. Servers decode
requests into these classes and take routes and permissions from the table. `make generate` writes
openapi.yaml, document.json and all else that is derived.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

import msgspec


class Described(msgspec.Struct):
    """An object of the API."""

    DESCRIBED_BY: ClassVar[type[msgspec.Struct] | None] = None
    """The class that describes the fields of the same names that have no sentence here."""


class Body(Described, forbid_unknown_fields=True):
    """An object that clients send. A field without a default is required; a field that is UNSET by
    default may be left out, and has no value then."""

    EXACTLY_ONE: ClassVar[tuple[str, ...]] = ()
    """Exactly one of these fields is given."""
    AT_LEAST_ONE: ClassVar[tuple[str, ...]] = ()
    """At least one of these fields is given."""
    FIXED: ClassVar[tuple[str, ...]] = ()
    """The names of fields that cannot be changed; a put may leave them out."""
    PATCHED: ClassVar[type[Body] | None] = None
    """The class that this one is made from (`openapi.patch`); it describes the fields."""

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        if cls.EXACTLY_ONE or cls.AT_LEAST_ONE:  # a check would make decoding of others slower
            cls.__post_init__ = cls._check_choice  # type: ignore[attr-defined]

    def _check_choice(self) -> None:
        """Raise ValueError unless the fields that exclude or need each other fit."""
        if self.EXACTLY_ONE and self._given(self.EXACTLY_ONE) != 1:
            raise ValueError(f"one of {_listed(self.EXACTLY_ONE)}, and only one")
        if self.AT_LEAST_ONE and not self._given(self.AT_LEAST_ONE):
            raise ValueError(f"at least one of {_listed(self.AT_LEAST_ONE)}")

    def _given(self, fields: tuple[str, ...]) -> int:
        """Return how many of the fields have a value."""
        count = 0
        for field in fields:
            value = getattr(self, field)
            if value is not msgspec.UNSET and value is not None:
                count += 1
        return count


def fields_of(kind: type[msgspec.Struct], source: object) -> dict[str, Any]:
    """Return the fields of a class by name, with the values that another object has for them."""
    return {name: getattr(source, name) for name in kind.__struct_fields__}


def _listed(names: tuple[str, ...]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


class OpenBody(Body, forbid_unknown_fields=False):
    """An object that clients send, in which servers ignore further fields."""


class Answer(Described):
    """An object that servers send, with no fields but these. A field that is UNSET by default may
    be missing, unless it is one of those that cannot be changed of a put."""


class OpenAnswer(Described):
    """An object that servers send, which may have further fields."""


class Header(msgspec.Struct, frozen=True):
    """A header of an answer. One without a component is described where it stands."""

    name: str
    description: str
    kind: Any = str
    component: bool = True


class Parameter(msgspec.Struct, frozen=True):
    """A parameter of requests. `key` is its name among the components of the document; one without
    a key is described where it stands."""

    key: str
    name: str
    where: Literal["path", "query", "header"]
    description: str
    kind: Any = str
    default: Any = msgspec.UNSET
    required: bool = False


class Success(msgspec.Struct, frozen=True):
    """An answer to a request that was carried out."""

    status: int
    description: str
    kind: Any = None
    """The class of its body; None is an answer without one."""
    headers: tuple[Header, ...] = ()
    media: tuple[str, ...] = ("application/json",)
    others: dict[str, Any] = {}
    """Kinds of further media types."""


class Refusal(msgspec.Struct, frozen=True):
    """An answer to a request that was not carried out; `key` names it among the components."""

    key: str
    status: int
    description: str
    kind: Any
    headers: tuple[Header, ...] = ()
    media: str = "application/problem+json"


class Operation(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the table of operations.

    `route` is the method and the path. `needs` is the permission and, after a space, the resource:

    - `read topic:name`: on the topic whose name is the path's parameter `{name}`;
    - `read topic:*`: on every topic;
    - `read topic:?`: on some topic; the handler looks which names the caller may see;
    - `operate *`: on everything;
    - `self`: every caller with a valid token; `public`: every caller.

    Each operation that needs a token has the refusals that its parameters and body bring about,
    without those in `never`, and those in `problems`.
    """

    id: str
    route: str
    needs: str
    summary: str
    description: str = ""
    parameters: tuple[Parameter, ...] = ()
    paged: bool = False
    """Whether the answer is a page, which `page_size` and `page_token` choose."""
    body: Any = None
    media: dict[str, Any] = {}
    """Kinds of a body by its media type, where JSON is not the only one."""
    body_required: bool = True
    answers: tuple[Success, ...]
    problems: tuple[Refusal, ...] = ()
    never: tuple[Refusal, ...] = ()
    head: bool = True
    """Whether a GET also answers HEAD. It does not where it leases messages or streams."""
    tag: str = ""

    @property
    def query(self) -> tuple[str, ...]:
        """The names of its query parameters."""
        named = tuple(each.name for each in self.parameters if each.where == "query")
        return (*named, "page_size", "page_token") if self.paged else named

    @property
    def method(self) -> str:
        return self.route.partition(" ")[0]

    @property
    def path(self) -> str:
        return self.route.partition(" ")[2]

    @property
    def permission(self) -> str:
        return self.needs.partition(" ")[0]

    @property
    def resource(self) -> str:
        return self.needs.partition(" ")[2]


Table = dict[str, Operation]
"""Operations by their id."""


def table(tag: str, *operations: Operation) -> Table:
    """Return the operations of one area by id."""
    found = {each.id: msgspec.structs.replace(each, tag=tag) for each in operations}
    assert len(found) == len(operations), f"two operations of {tag} have the same id"
    return found


def ok(kind: Any, description: str, *headers: Header, media: str = "application/json") -> Success:
    """Return the answer 200 with a body."""
    return Success(200, description, kind, headers, (media,))


def no_content(description: str) -> Success:
    """Return the answer 204."""
    return Success(204, description)


def lines(description: str) -> Success:
    """Return the answer 200 of a stream: lines of JSON, or Server-Sent Events."""
    return Success(200, description, str, media=("application/x-ndjson", "text/event-stream"))
