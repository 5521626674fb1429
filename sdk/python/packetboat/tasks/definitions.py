"""Map, reduce and fold tasks: a function, and how workers run it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, Literal, TypeVar

import msgspec

from packetboat.models.jobs import TaskRetry
from packetboat.tasks.signatures import Signature, is_async, signature_of
from packetboat.tasks.values import decoder
from packetboat.worker.outcomes import Reject

In_contra = TypeVar("In_contra", contravariant=True)
Out = TypeVar("Out")
Out_co = TypeVar("Out_co", covariant=True)
Out_contra = TypeVar("Out_contra", contravariant=True)
Result_co = TypeVar("Result_co", covariant=True)
Isolation = Literal["thread", "process"]
Raws = Iterator[msgspec.Raw]
AsyncRaws = AsyncIterator[msgspec.Raw]


@dataclass(frozen=True, eq=False, kw_only=True)
class Definition:
    """A function that workers know by its `kind`. Calling it calls the function."""

    kind: str
    function: Callable[..., Any]
    pool: str = "default"
    timeout_s: float | None = None
    isolation: Isolation = "thread"

    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)

    @property
    def is_async(self) -> bool:
        """Whether calling it gives something to be awaited."""
        return is_async(self.function)

    @cached_property
    def signature(self) -> Signature:
        """The types of argument and result, as the annotations of the function name them."""
        return signature_of(self.function)

    @cached_property
    def decode(self) -> Callable[[msgspec.Raw], Any]:
        """The decoder of the input, or of one output."""
        return decoder(self.signature.argument)

    @cached_property
    def decode_returned(self) -> Callable[[bytes | msgspec.Raw], Any]:
        """The decoder of the function's result."""
        return decoder(self.signature.returned)

    def invoke(self, argument: Any, context: Any) -> Any:
        """Call the function; return its result, or an awaitable where it is async."""
        if self.signature.takes_context:
            return self.function(argument, context)
        return self.function(argument)

    def read(self, raw: msgspec.Raw, what: str) -> Any:
        """Decode a value to the annotated type. Raises Reject: no other try would decode it."""
        try:
            return self.decode(raw)
        except (msgspec.MsgspecError, ValueError, TypeError) as error:
            raise Reject(f"{what} is not what {self.kind} takes: {error}") from error


@dataclass(frozen=True, eq=False, kw_only=True)
class MapTask(Definition, Generic[In_contra, Out_co]):
    """Gets an input and returns an output."""

    max_attempts: int = 5
    retry: TaskRetry | None = None

    def call(self, raw: msgspec.Raw, context: Any) -> Any:
        """Run the task; the worker that has claimed it calls this."""
        return self.invoke(self.read(raw, "the input"), context)

    async def acall(self, raw: msgspec.Raw, context: Any) -> Any:
        """Run the task of an async function; the worker that has claimed it calls this."""
        return await self.invoke(self.read(raw, "the input"), context)


@dataclass(frozen=True, eq=False, kw_only=True)
class ReduceTask(Definition, Generic[Out_contra, Result_co]):
    """Gets the outputs of all map tasks that succeeded, in the order of their inputs."""

    @cached_property
    def decode(self) -> Callable[[msgspec.Raw], Any]:
        """The decoder of one output."""
        return decoder(self.signature.element)

    def call(self, raws: Raws, context: Any) -> Any:
        """Run the task; the worker that has claimed it calls this."""
        return self.invoke((self.read(raw, "an output") for raw in raws), context)

    async def acall(self, raws: AsyncRaws, context: Any) -> Any:
        """Run the task of an async function; the worker that has claimed it calls this."""
        return await self.invoke((self.read(raw, "an output") async for raw in raws), context)


@dataclass(frozen=True, eq=False, kw_only=True)
class FoldTask(ReduceTask[Out, Out]):
    """Joins two outputs, or two that are joined already. It must be associative: what is next to
    each other is joined in any grouping, `fan_in` at a time, by many workers at once. Where there
    is no output at all the result is `initial`."""

    fan_in: int = 100
    initial: Any = None

    @cached_property
    def signature(self) -> Signature:
        """The types of a function of two outputs."""
        return signature_of(self.function, arguments=2)

    @cached_property
    def decode(self) -> Callable[[msgspec.Raw], Any]:
        """The decoder of one output."""
        return decoder(self.signature.argument)

    @property
    def part_kind(self) -> str:
        """The kind of the tasks that fold a part of the outputs each."""
        return f"{self.kind}.part"

    def call(self, raws: Raws, context: Any) -> Any:
        """Run the task; the worker that has claimed it calls this."""
        joined = self.fold(raws, context)
        return joined[0] if joined else self.initial

    async def acall(self, raws: AsyncRaws, context: Any) -> Any:
        """Run the task of an async function; the worker that has claimed it calls this."""
        joined = await self.afold(raws, context)
        return joined[0] if joined else self.initial

    def fold(self, raws: Raws, context: Any) -> list[Any]:
        """Fold the outputs to a list of one value; an empty list where there is no output."""
        joined: list[Any] = []
        for raw in raws:
            value = self.read(raw, "an output")
            joined = [self.join(joined[0], value, context)] if joined else [value]
        return joined

    async def afold(self, raws: AsyncRaws, context: Any) -> list[Any]:
        """Fold the outputs like `fold`, with an async function."""
        joined: list[Any] = []
        async for raw in raws:
            value = self.read(raw, "an output")
            joined = [await self.join(joined[0], value, context)] if joined else [value]
        return joined

    def join(self, left: Any, right: Any, context: Any) -> Any:
        """Join two neighbours; return an awaitable where the function is async."""
        if self.signature.takes_context:
            return self.function(left, right, context)
        return self.function(left, right)


@dataclass(frozen=True, eq=False, kw_only=True)
class FoldPart(Definition):
    """A map task of the job that folds in parts. Its output is a list of one value, or of none."""

    whole: FoldTask[Any]

    @classmethod
    def of(cls, fold: FoldTask[Any]) -> FoldPart:
        return cls(
            kind=fold.part_kind,
            function=fold.function,
            pool=fold.pool,
            timeout_s=fold.timeout_s,
            isolation=fold.isolation,
            whole=fold,
        )

    def call(self, raws: Raws, context: Any) -> Any:
        return self.whole.fold(raws, context)

    async def acall(self, raws: AsyncRaws, context: Any) -> Any:
        return await self.whole.afold(raws, context)
