"""The tasks of a program, by the names that workers know them by."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, overload

from packetboat.models.jobs import TaskRetry
from packetboat.tasks import signatures
from packetboat.tasks.context import TaskContext
from packetboat.tasks.definitions import (
    Definition,
    FoldPart,
    FoldTask,
    Isolation,
    MapTask,
    ReduceTask,
)
from packetboat.tasks.nested import NestedJob

In = TypeVar("In")
Out = TypeVar("Out")
Result = TypeVar("Result")
MapFunction = Callable[[In], Out] | Callable[[In, TaskContext], Out]
JoinFunction = Callable[[Out, Out], Out] | Callable[[Out, Out, TaskContext], Out]
AsyncJoinFunction = (
    Callable[[Out, Out], Awaitable[Out]] | Callable[[Out, Out, TaskContext], Awaitable[Out]]
)


class Tasks:
    """`tasks = Tasks("wordcount")`, then `@tasks.map`, `@tasks.reduce` and `@tasks.fold`. The kind
    of a task is `wordcount.` and the name of its function: who starts jobs and who works on them
    must agree on it, so a function that is renamed keeps its kind by `name=`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._definitions: dict[str, Definition] = {}

    @property
    def definitions(self) -> Mapping[str, Definition]:
        """The definitions by kind."""
        return self._definitions

    @property
    def map(self) -> MapDecorator:
        """`@tasks.map`, or with options `@tasks.map(pool="cpu", max_attempts=5)`."""
        return MapDecorator(self)

    @property
    def reduce(self) -> ReduceDecorator:
        """`@tasks.reduce`, or with options; the function gets an iterator."""
        return ReduceDecorator(self)

    @property
    def fold(self) -> FoldDecorator:
        """`@tasks.fold(fan_in=100)`: a function of two outputs, for `reduce=` of a job."""
        return FoldDecorator(self)

    def add(self, *definitions: Definition) -> None:
        """Add tasks of another registry, by the kinds that they have there."""
        parts = [FoldPart.of(each) for each in definitions if isinstance(each, FoldTask)]
        for each in (*definitions, *parts):
            if each.kind in self._definitions:
                raise ValueError(f"two tasks are called {each.kind}")
            self._definitions[each.kind] = each

    def kind(self, function: Callable[..., Any], name: str | None) -> str:
        """Return the kind by which workers know a function.

        Raises TypeError for a function that can't be a task's.
        """
        signatures.check(function)
        return f"{self.name}.{name or function.__name__}"


@dataclass(frozen=True, slots=True)
class MapDecorator:
    """The decorator of functions that get an input, or an input and a TaskContext.

    They are sync or async. With `isolation="process"` each runs in a process of its own, which a
    timeout or a cancelled job ends.
    """

    _tasks: Tasks
    _name: str | None = None
    _pool: str = "default"
    _max_attempts: int = 5
    _retry: TaskRetry | None = None
    _timeout_s: float | None = None
    _isolation: Isolation = "thread"

    @overload
    def __call__(
        self, function: MapFunction[In, Awaitable[NestedJob[Out]]]
    ) -> MapTask[In, Out]: ...
    @overload
    def __call__(self, function: MapFunction[In, NestedJob[Out]]) -> MapTask[In, Out]: ...
    @overload
    def __call__(self, function: MapFunction[In, Awaitable[Out]]) -> MapTask[In, Out]: ...
    @overload
    def __call__(self, function: MapFunction[In, Out]) -> MapTask[In, Out]: ...
    @overload
    def __call__(
        self,
        *,
        name: str | None = None,
        pool: str = "default",
        max_attempts: int = 5,
        retry: TaskRetry | None = None,
        timeout_s: float | None = None,
        isolation: Isolation = "thread",
    ) -> MapDecorator: ...
    def __call__(self, function: Any = None, **options: Any) -> Any:
        if function is None:
            return MapDecorator(self._tasks, **{f"_{key}": each for key, each in options.items()})
        task: MapTask[Any, Any] = MapTask(
            kind=self._tasks.kind(function, self._name),
            function=function,
            pool=self._pool,
            timeout_s=self._timeout_s,
            isolation=_checked(function, self._isolation),
            max_attempts=self._max_attempts,
            retry=self._retry,
        )
        self._tasks.add(task)
        return task


@dataclass(frozen=True, slots=True)
class ReduceDecorator:
    """The decorator of functions that get an iterator of outputs, an async one where they
    are async. The outputs come in the order of the inputs, page by page, without those of
    failed tasks.
    """

    _tasks: Tasks
    _name: str | None = None
    _pool: str = "default"
    _timeout_s: float | None = None
    _isolation: Isolation = "thread"

    @overload
    def __call__(
        self, function: MapFunction[AsyncIterator[Out], Awaitable[Result]]
    ) -> ReduceTask[Out, Result]: ...
    @overload
    def __call__(self, function: MapFunction[Iterator[Out], Result]) -> ReduceTask[Out, Result]: ...
    @overload
    def __call__(
        self,
        *,
        name: str | None = None,
        pool: str = "default",
        timeout_s: float | None = None,
        isolation: Isolation = "thread",
    ) -> ReduceDecorator: ...
    def __call__(self, function: Any = None, **options: Any) -> Any:
        if function is None:
            return ReduceDecorator(
                self._tasks, **{f"_{key}": each for key, each in options.items()}
            )
        task: ReduceTask[Any, Any] = ReduceTask(
            kind=self._tasks.kind(function, self._name),
            function=function,
            pool=self._pool,
            timeout_s=self._timeout_s,
            isolation=_checked(function, self._isolation),
        )
        self._tasks.add(task)
        return task


@dataclass(frozen=True, slots=True)
class FoldDecorator:
    """The decorator of associative functions of two outputs.

    One task folds up to `fan_in` outputs; a nested job with a task for each part folds more, and so
    on: a tree.
    """

    _tasks: Tasks
    _name: str | None = None
    _pool: str = "default"
    _timeout_s: float | None = None
    _isolation: Isolation = "thread"
    _fan_in: int = 100
    _initial: Any = None

    @overload
    def __call__(self, function: AsyncJoinFunction[Out]) -> FoldTask[Out]: ...
    @overload
    def __call__(self, function: JoinFunction[Out]) -> FoldTask[Out]: ...
    @overload
    def __call__(
        self,
        *,
        name: str | None = None,
        pool: str = "default",
        timeout_s: float | None = None,
        isolation: Isolation = "thread",
        fan_in: int = 100,
        initial: Any = None,
    ) -> FoldDecorator: ...
    def __call__(self, function: Any = None, **options: Any) -> Any:
        if function is None:
            return FoldDecorator(self._tasks, **{f"_{key}": each for key, each in options.items()})
        if self._fan_in < 2:
            raise ValueError("a fan-in under 2 joins nothing")
        task: FoldTask[Any] = FoldTask(
            kind=self._tasks.kind(function, self._name),
            function=function,
            pool=self._pool,
            timeout_s=self._timeout_s,
            isolation=_checked(function, self._isolation),
            fan_in=self._fan_in,
            initial=self._initial,
        )
        self._tasks.add(task)
        return task


def _checked(function: Callable[..., Any], isolation: Isolation) -> Isolation:
    if isolation == "process" and signatures.is_async(function):
        raise TypeError(f"{function.__qualname__} is async, and a process is for what computes")
    return isolation
