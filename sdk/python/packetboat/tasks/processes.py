"""Handlers in processes of their own: what they compute holds up nobody, and they can be ended.

A process serves one task at a time. It is asked with a `_Ask`; while it works on outputs it asks
back for pages of them; it answers with the outcome. Functions are named, not sent: the process
imports the module that defines them.
"""

from __future__ import annotations

import importlib
import multiprocessing
import signal
import sys
import threading
from collections.abc import Callable
from functools import reduce
from multiprocessing.connection import Connection
from typing import Any

import msgspec

from packetboat.models.jobs import Phase
from packetboat.tasks.context import TaskContext
from packetboat.tasks.definitions import Definition, FoldPart, FoldTask
from packetboat.tasks.executing import execute
from packetboat.tasks.outcomes import Done, Dropped, Failed, Nested, Outcome, Released
from packetboat.tasks.output_pages import each_output_of

NextPage = Callable[[], "list[msgspec.Raw] | None"]
EXIT_S = 5.0


class ProcessEnded(Exception):
    """Raised for a process that ended in the middle of a task: it was killed, or has crashed."""


class _Ask(msgspec.Struct, frozen=True):
    module: str
    name: str
    kind: str
    job_name: str
    index: int
    attempt: int
    phase: Phase
    labels: dict[str, str]
    inputs_total: int | None
    input: msgspec.Raw
    reads_outputs: bool


class _More(msgspec.Struct, frozen=True, tag=True):
    """The next page of outputs, please."""


_asks = msgspec.json.Decoder(_Ask)
_pages: msgspec.json.Decoder[list[msgspec.Raw] | None] = msgspec.json.Decoder(
    list[msgspec.Raw] | None
)
_answers: msgspec.json.Decoder[_More | Outcome] = msgspec.json.Decoder(
    _More | Done | Nested | Failed | Released | Dropped
)


class HandlerProcess:
    """One process, from first use until it ends. `run` blocks; `kill` may come from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: multiprocessing.process.BaseProcess | None = None
        self._pipe: Connection | None = None

    def start(self, definition: Definition) -> None:
        """Begins it if need be, and waits until it has imported what defines the task. Raises
        ProcessEnded."""
        if self._process is not None and self._process.is_alive():
            return
        pipe = self._spawn(definition.function.__module__)
        try:
            pipe.recv_bytes()
        except (EOFError, OSError) as error:
            raise ProcessEnded(self._epitaph()) from error

    def run(
        self,
        definition: Definition,
        source: msgspec.Raw | NextPage,
        context: TaskContext,
    ) -> Outcome:
        """Run a task in the process; call `start` first.

        Raises ProcessEnded; the next task then gets a new process.
        """
        pipe = self._pipe
        if pipe is None:
            raise ProcessEnded(self._epitaph())
        try:
            pipe.send_bytes(msgspec.json.encode(_ask(definition, source, context)))
            while isinstance(answer := _answers.decode(pipe.recv_bytes()), _More):
                assert callable(source)
                pipe.send_bytes(msgspec.json.encode(source()))
        except (EOFError, OSError) as error:
            raise ProcessEnded(self._epitaph()) from error
        except BaseException:
            self.kill()
            raise
        return answer

    def kill(self) -> None:
        """Ends it at once, in whatever it does."""
        with self._lock:
            if self._process is not None and self._process.is_alive():
                self._process.kill()

    def close(self) -> None:
        """Waits a little for one that is idle, which ends when its pipe does."""
        with self._lock:
            process, pipe = self._process, self._pipe
            self._process = self._pipe = None
        if pipe is not None:
            pipe.close()
        if process is not None:
            process.join(EXIT_S)
            if process.is_alive():
                process.kill()
                process.join()
            process.close()

    def _spawn(self, module: str) -> Connection:
        self.close()
        spawning = multiprocessing.get_context("spawn")
        ours, theirs = spawning.Pipe()
        process = spawning.Process(target=_serve, args=(theirs, module), daemon=True)
        process.start()
        theirs.close()
        with self._lock:
            self._process, self._pipe = process, ours
        return ours

    def _epitaph(self) -> str:
        process = self._process
        if process is None:
            return "the process was closed"
        process.join(EXIT_S)
        return f"the process of the handler ended with exit code {process.exitcode}"


def check_importable(definition: Definition) -> None:
    """Raises TypeError for a function that another process would not find by its name."""
    function = definition.function
    try:
        found = _lookup(function.__module__, function.__qualname__)
    except (ImportError, AttributeError) as error:
        raise TypeError(
            f"{definition.kind} runs in processes, and is no name there: {error}"
        ) from None
    if getattr(found, "function", None) is not function:
        name = f"{function.__module__}.{function.__qualname__}"
        raise TypeError(f"{definition.kind} runs in processes, where {name} is something else")


def _ask(definition: Definition, source: Any, context: TaskContext) -> _Ask:
    return _Ask(
        module=definition.function.__module__,
        name=definition.function.__qualname__,
        kind=definition.kind,
        job_name=context.job_name,
        index=context.index,
        attempt=context.attempt,
        phase=context.phase,
        labels=dict(context.labels),
        inputs_total=context.inputs_total,
        input=msgspec.Raw(b"null") if callable(source) else source,
        reads_outputs=callable(source),
    )


def _serve(pipe: Connection, module: str) -> None:
    """Run the tasks of a process until the worker ends it.

    A Ctrl-C in the terminal is for the worker.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    importlib.import_module(module)
    try:
        pipe.send_bytes(b"ready")
        while True:
            pipe.send_bytes(msgspec.json.encode(_answer(_asks.decode(pipe.recv_bytes()), pipe)))
    except (EOFError, OSError):
        sys.exit(0)  # The worker is gone.


def _answer(ask: _Ask, pipe: Connection) -> Outcome:
    def next_page() -> list[msgspec.Raw] | None:
        pipe.send_bytes(msgspec.json.encode(_More()))
        return _pages.decode(pipe.recv_bytes())

    context = TaskContext(
        job_name=ask.job_name,
        index=ask.index,
        kind=ask.kind,
        attempt=ask.attempt,
        phase=ask.phase,
        labels=ask.labels,
        inputs_total=ask.inputs_total,
    )
    source = each_output_of(next_page) if ask.reads_outputs else ask.input
    return execute(_definition(ask), source, context)


def _definition(ask: _Ask) -> Definition:
    found = _lookup(ask.module, ask.name)
    if isinstance(found, FoldTask) and found.part_kind == ask.kind:
        return FoldPart.of(found)
    assert isinstance(found, Definition), found
    return found


def _lookup(module: str, name: str) -> Any:
    return reduce(getattr, name.split("."), importlib.import_module(module))
