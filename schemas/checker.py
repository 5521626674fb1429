"""Checks bodies and definitions for a server process.

Work that is known to be cheap is done on the event loop, all other work in a worker process, where
it can be ended. A worker calls the functions without `self`, which take and return values that
MessagePack has.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from edge.problem import FieldError
from edge.process_pool import LIMIT_S, ProcessPool, TookTooLong
from schemas.definition import Definition, compile_definition, incompatible
from schemas.limits import BadDefinition, CannotCompare, TooExpensive

MAX_COMPILED = 1_000
_MAX_COMPILED_IN_A_WORKER = 100
_TOO_LONG = f"takes more than {LIMIT_S:g} s of computing time"
_BAD, _FOUND, _INCOMPARABLE = "bad", "found", "incomparable"
_compiled = lru_cache(_MAX_COMPILED_IN_A_WORKER)(compile_definition)
_Answer = tuple[str, list[tuple[str, str]]]


def checked(kind: str, text: str, data: bytes, content_type: str | None) -> _Answer:
    """Return the faults of a body, or of its definition."""
    return _answer(lambda: _compiled(kind, text).check(data, content_type))


def compiled(kind: str, text: str) -> _Answer:
    """Return the faults of a definition."""

    def compile_it() -> Sequence[FieldError]:
        _compiled(kind, text)
        return ()

    return _answer(compile_it)


def compared(kind: str, compatibility: str, new: str, old: str) -> _Answer:
    """Return the breaks between two versions."""
    return _answer(lambda: incompatible(compatibility, _compiled(kind, new), _compiled(kind, old)))


def _answer(work: Callable[[], Sequence[FieldError]]) -> _Answer:
    try:
        return _FOUND, [(error.field, error.detail) for error in work()]
    except BadDefinition as error:
        return _BAD, [(each.field, each.detail) for each in error.errors]
    except CannotCompare as error:
        return _INCOMPARABLE, [("", str(error))]


class Checker:
    """Checks bodies and definitions; one per process and role.

    Raises a 429 Problem if a tenant has used up its share of the workers, and BadDefinition for a
    definition that this release does not understand.
    """

    def __init__(self, process_pool: ProcessPool | None = None) -> None:
        """Make a checker; without a process pool it does all work here, however long it takes."""
        self._process_pool = process_pool
        self._known: OrderedDict[tuple[str, str], Definition | BadDefinition | None] = OrderedDict()

    async def check(
        self, tenant_id: bytes, kind: str, text: str, data: bytes, content_type: str | None
    ) -> list[FieldError]:
        """Return the faults of a body; nothing is awaited if that is cheap and the definition is
        known.
        """
        fresh = (kind, text) not in self._known
        definition = self._definition(kind, text)
        if fresh:
            # The definition was compiled a moment ago, which is enough for one turn.
            await asyncio.sleep(0)
        if definition is not None:
            try:
                return definition.check(data, content_type, here=True)
            except TooExpensive:
                pass
        try:
            return await self._apart(tenant_id, checked, kind, text, bytes(data), content_type)
        except TookTooLong:
            return [FieldError("", f"{_TOO_LONG} to be checked with this schema")]

    async def compile(self, tenant_id: bytes, kind: str, text: str) -> None:
        """Check that a definition compiles; raises BadDefinition."""
        try:
            await self._apart(tenant_id, compiled, kind, text)
        except TookTooLong as error:
            raise BadDefinition([FieldError("", _TOO_LONG)]) from error

    async def compare(
        self, tenant_id: bytes, kind: str, compatibility: str, new: str, old: str
    ) -> list[FieldError]:
        """Return the breaks between two versions. Raises CannotCompare."""
        try:
            return await self._apart(tenant_id, compared, kind, compatibility, new, old)
        except TookTooLong as error:
            raise CannotCompare(f"that {_TOO_LONG}") from error

    def _definition(self, kind: str, text: str) -> Definition | None:
        """Return a compiled definition; None for one that only workers compile."""
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
        except TooExpensive:
            pass
        self._known[key] = definition
        while len(self._known) > MAX_COMPILED:
            self._known.popitem(last=False)
        return self._definition(kind, text)

    async def _apart(
        self, tenant_id: bytes, work: Callable[..., _Answer], *arguments: Any
    ) -> list[FieldError]:
        if self._process_pool is None:
            how, listed = work(*arguments)
        else:
            how, listed = await self._process_pool.run(tenant_id, work, *arguments)
        errors = [FieldError(field, detail) for field, detail in listed]
        if how == _BAD:
            raise BadDefinition(errors)
        if how == _INCOMPARABLE:
            raise CannotCompare(errors[0].detail)
        return errors
