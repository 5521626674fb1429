"""Checks bodies and definitions for a server process: what is known to be cheap on its event loop,
all else in a worker process, where it can be ended.

The functions without `self` are what a worker calls. They take and return what MessagePack has.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from edge.problem import FieldError
from edge.workshop import LIMIT_S, TookTooLong, Workshop
from publish_forwarder.schemas.definition import Definition, compile_definition, incompatible
from publish_forwarder.schemas.limits import BadDefinition, CannotCompare, TooDear

MAX_COMPILED = 1_000
_MAX_COMPILED_IN_A_WORKER = 100
_TOO_LONG = f"takes more than {LIMIT_S:g} s of computing time"
_BAD, _FOUND, _INCOMPARABLE = "bad", "found", "incomparable"
_compiled = lru_cache(_MAX_COMPILED_IN_A_WORKER)(compile_definition)
_Answer = tuple[str, list[tuple[str, str]]]


def checked(kind: str, text: str, data: bytes, content_type: str | None) -> _Answer:
    """What is wrong with a body, or with its definition."""
    return _answer(lambda: _compiled(kind, text).check(data, content_type))


def compiled(kind: str, text: str) -> _Answer:
    """What is wrong with a definition."""

    def compile_it() -> Sequence[FieldError]:
        _compiled(kind, text)
        return ()

    return _answer(compile_it)


def compared(kind: str, compatibility: str, new: str, old: str) -> _Answer:
    """What breaks between two versions."""
    return _answer(lambda: incompatible(compatibility, _compiled(kind, new), _compiled(kind, old)))


def _answer(work: Callable[[], Sequence[FieldError]]) -> _Answer:
    try:
        return _FOUND, [(error.field, error.detail) for error in work()]
    except BadDefinition as error:
        return _BAD, [(each.field, each.detail) for each in error.errors]
    except CannotCompare as error:
        return _INCOMPARABLE, [("", str(error))]


class Checker:
    """One per process and role. Raises a 429 Problem where a tenant has used up its share of the
    workers; BadDefinition for a definition that is not understood."""

    def __init__(self, workshop: Workshop | None = None) -> None:
        """Without a workshop, all is done here, however long it takes."""
        self._workshop = workshop
        self._known: OrderedDict[tuple[str, str], Definition | BadDefinition | None] = OrderedDict()

    async def check(
        self, tenant_id: bytes, kind: str, text: str, data: bytes, content_type: str | None
    ) -> list[FieldError]:
        """What is wrong with a body. Nothing is awaited where that is cheap and the definition was
        met before."""
        fresh = (kind, text) not in self._known
        definition = self._definition(kind, text)
        if fresh:
            await asyncio.sleep(0)  # It was compiled a moment ago, which is enough for one turn.
        if definition is not None:
            try:
                return definition.check(data, content_type, here=True)
            except TooDear:
                pass
        try:
            return await self._apart(tenant_id, checked, kind, text, bytes(data), content_type)
        except TookTooLong:
            return [FieldError("", f"{_TOO_LONG} to be checked with this schema")]

    async def compile(self, tenant_id: bytes, kind: str, text: str) -> None:
        """Raises BadDefinition."""
        try:
            await self._apart(tenant_id, compiled, kind, text)
        except TookTooLong as error:
            raise BadDefinition([FieldError("", _TOO_LONG)]) from error

    async def compare(
        self, tenant_id: bytes, kind: str, compatibility: str, new: str, old: str
    ) -> list[FieldError]:
        """What breaks between two versions. Raises CannotCompare."""
        try:
            return await self._apart(tenant_id, compared, kind, compatibility, new, old)
        except TookTooLong as error:
            raise CannotCompare(f"that {_TOO_LONG}") from error

    def _definition(self, kind: str, text: str) -> Definition | None:
        """None for one that is only compiled in workers."""
        key = kind, text
        if key in self._known:
            known = self._known[key]
            self._known.move_to_end(key)
            if isinstance(known, BadDefinition):
                raise known
            return known
        definition: Definition | BadDefinition | None = None
        try:
            definition = compile_definition(kind, text, here=True)
        except BadDefinition as error:
            definition = error
        except TooDear:
            pass
        self._known[key] = definition
        while len(self._known) > MAX_COMPILED:
            self._known.popitem(last=False)
        return self._definition(kind, text)

    async def _apart(
        self, tenant_id: bytes, work: Callable[..., _Answer], *arguments: Any
    ) -> list[FieldError]:
        if self._workshop is None:
            how, listed = work(*arguments)
        else:
            how, listed = await self._workshop.run(tenant_id, work, *arguments)
        errors = [FieldError(field, detail) for field, detail in listed]
        if how == _BAD:
            raise BadDefinition(errors)
        if how == _INCOMPARABLE:
            raise CannotCompare(errors[0].detail)
        return errors
