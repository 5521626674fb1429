"""Several server processes on one port: each has its own socket, the kernel shares them out."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from gateway import heap
from gateway.configuration.settings import ServerSettings, set_metrics_directory

METRICS = "prometheus_client"
"""The library of metrics; it asks for the directory of shared metrics at its import."""


def run(settings: ServerSettings) -> int:
    """Serve in one process, or fork more before anything heavy is imported."""
    if settings.workers == 1:
        with heap.loading():
            from gateway import server

        return server.run(settings)
    if METRICS in sys.modules:  # This process was forked from one that has imported everything.
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    with _metrics_directory():
        return _run_workers(settings)


def _run_workers(settings: ServerSettings) -> int:
    parent = os.getpid()
    children = {_fork(settings, parent) for _ in range(settings.workers)}
    stopping = False

    def stop(*_: object) -> None:
        nonlocal stopping
        stopping = True
        for pid in children:
            os.kill(pid, signal.SIGTERM)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    code = 0
    while children:
        pid, status = os.wait()
        children.discard(pid)
        ended = os.waitstatus_to_exitcode(status)
        if not stopping:
            # One worker short is half a server: all stop, and who started us starts us again.
            sys.stderr.write(f"packetboat: worker {pid} ended ({ended}); stopping the others\n")
            code = 1
            stop()
        code = code or abs(ended)
    return code


def _fork(settings: ServerSettings, parent: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        with heap.loading():
            from gateway import server
            from gateway.up.child import die_with

        die_with(parent)()
        code = server.run(settings, shared=True)
    finally:
        os._exit(code)


@contextmanager
def _metrics_directory() -> Iterator[None]:
    """Set the directory in which the workers' metrics meet, before METRICS is imported anywhere."""
    directory = tempfile.mkdtemp(prefix="packetboat-metrics-")
    set_metrics_directory(directory)
    try:
        yield
    finally:
        shutil.rmtree(directory, ignore_errors=True)
