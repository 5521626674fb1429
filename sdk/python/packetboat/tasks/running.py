"""Runs one leased task to its outcome: on the loop, in a thread, or in a process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec

from packetboat.aio.resources.jobs import AsyncJobs
from packetboat.models.jobs import Phase
from packetboat.tasks import folding
from packetboat.tasks.context import TaskContext
from packetboat.tasks.definitions import Definition, FoldPart, FoldTask, MapTask
from packetboat.tasks.executing import execute, execute_async
from packetboat.tasks.held import HeldTask
from packetboat.tasks.outcomes import Dropped, Failed, Outcome, text_of
from packetboat.tasks.output_pages import OutputPages, each_output, each_output_of
from packetboat.tasks.processes import HandlerProcess, ProcessEnded
from packetboat.worker.threads import Threads


class Processes:
    """The processes of one pool: as few as it needs, and one for each concurrent task at most."""

    def __init__(self) -> None:
        self._idle: list[HandlerProcess] = []
        self._all: list[HandlerProcess] = []

    def take(self) -> HandlerProcess:
        if self._idle:
            return self._idle.pop()
        self._all.append(HandlerProcess())
        return self._all[-1]

    def give_back(self, process: HandlerProcess) -> None:
        self._idle.append(process)

    def close(self) -> None:
        """End the processes; this blocks for a moment."""
        for each in self._all:
            each.kill()
            each.close()


class Running:
    """One task that runs.

    `outcome` is known when the handler ends, when its time is over, or when its result is not
    wanted any more. `left` is set when the handler has really ended: a thread cannot be stopped.
    """

    def __init__(
        self,
        jobs: AsyncJobs,
        pool: str,
        definition: Definition,
        held: HeldTask,
        threads: Threads,
        processes: Processes,
    ) -> None:
        self._jobs = jobs
        self._pool = pool
        self._definition = definition
        self._held = held
        self._threads = threads
        self._processes = processes
        self._handler: asyncio.Future[Outcome] | None = None
        self._process: HandlerProcess | None = None

    async def outcome(self) -> Outcome:
        definition, held = self._definition, self._held
        if isinstance(definition, FoldTask) and folding.in_parts(definition, held.task):
            return folding.parts_of(definition, held.task, self._pool)
        if not _fits(definition, held.task.phase):
            return Failed(f"{definition.kind} is no {held.task.phase} task", retry=False)
        over = asyncio.ensure_future(held.over.wait())
        began: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        first = asyncio.FIRST_COMPLETED
        try:
            handler = self._handler = self._begin(began)
            await asyncio.wait((handler, over, began), return_when=first)
            await asyncio.wait((handler, over), timeout=definition.timeout_s, return_when=first)
            if handler.done():
                return _result(handler)
            if over.done():
                return Dropped()
            return Failed(f"{definition.kind} took longer than its {definition.timeout_s} s")
        except Exception as error:
            return Failed(text_of(error), retry=False)
        finally:
            over.cancel()
            began.cancel()
            self._end_handler()

    async def left(self) -> None:
        """Raises nothing of the handler's."""
        if self._handler is not None:
            await asyncio.wait((self._handler,))

    def _begin(self, began: asyncio.Future[None]) -> asyncio.Future[Outcome]:
        """`began`: its time counts from then on. Raises what makes it impossible."""
        context = TaskContext.of(self._held.task, self._held.ended)
        definition, source = self._definition, self._source()
        if definition.isolation == "process":
            return self._threads.submit(self._in_process(source, context, began))
        began.set_result(None)
        if definition.is_async:
            given = source if isinstance(source, msgspec.Raw) else each_output(source)
            return asyncio.ensure_future(execute_async(definition, given, context))
        here = source if isinstance(source, msgspec.Raw) else each_output_of(_blocking(source))
        return self._threads.submit(execute, definition, here, context)

    def _source(self) -> msgspec.Raw | OutputPages:
        task = self._held.task
        if isinstance(self._definition, MapTask):
            return task.input
        if isinstance(self._definition, FoldPart):
            return folding.outputs_of_part(self._jobs, task)
        return folding.outputs_of(self._jobs, task)

    def _in_process(
        self,
        source: msgspec.Raw | OutputPages,
        context: TaskContext,
        began: asyncio.Future[None],
    ) -> Callable[[], Outcome]:
        loop = asyncio.get_running_loop()
        process = self._process = self._processes.take()
        given = source if isinstance(source, msgspec.Raw) else _blocking(source)

        def run() -> Outcome:
            try:
                process.start(self._definition)
                if self._held.ended.is_set():
                    return Dropped()  # It may have been ended before there was a process.
                loop.call_soon_threadsafe(_begin_once, began)
                return process.run(self._definition, given, context)
            except ProcessEnded as error:
                return Failed(str(error))

        return run

    def _end_handler(self) -> None:
        """End the handler, if it has not ended by itself."""
        handler, process = self._handler, self._process
        self._held.ended.set()
        if handler is None:
            return
        if process is not None:
            if not handler.done():
                process.kill()
            handler.add_done_callback(lambda _: self._processes.give_back(process))
        elif self._definition.is_async:
            handler.cancel()


def _fits(definition: Definition, phase: Phase) -> bool:
    return isinstance(definition, MapTask | FoldPart) == (phase == "map")


def _result(handler: asyncio.Future[Outcome]) -> Outcome:
    """A handler that is cancelled by its own doing has failed, and the worker goes on."""
    if handler.cancelled():
        return Failed("the handler was cancelled, and not by its worker")
    error = handler.exception()
    return handler.result() if error is None else Failed(text_of(error))


def _begin_once(began: asyncio.Future[None]) -> None:
    if not began.done():
        began.set_result(None)


def _blocking(pages: OutputPages) -> Callable[[], Any]:
    """Return a function that another thread may call for the next page; it blocks."""
    loop = asyncio.get_running_loop()
    return lambda: asyncio.run_coroutine_threadsafe(pages.next(), loop).result()
