"""The end of a command: each failure is reported once, and becomes an exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

import typer

from packetboat.cli.exit_codes import ExitCode
from packetboat.cli.failures import CommandFailed, report
from packetboat.cli.invocation import Invocation
from packetboat.errors import PacketboatError
from packetboat.profiles import BadProfiles


@contextmanager
def ending(context: typer.Context) -> Iterator[None]:
    """Run a command in this context; it closes the resources that the command opened."""
    invocation = Invocation.of(context)
    try:
        try:
            with _without_notes() if invocation.output.quiet else nullcontext():
                yield
            sys.stdout.flush()
        finally:
            invocation.close()
    except (PacketboatError, CommandFailed) as error:
        raise typer.Exit(report(error, invocation.output)) from None
    except BadProfiles as error:
        raise typer.Exit(report(CommandFailed(str(error)), invocation.output)) from None
    except BrokenPipeError:
        # The reader has closed the pipe; text that is still buffered must not fail at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(ExitCode.READER_GONE) from None
    except KeyboardInterrupt:
        sys.stderr.write("\n")
        raise typer.Exit(ExitCode.INTERRUPTED) from None


@contextmanager
def _without_notes() -> Iterator[None]:
    """Silence the SDK's warnings of retries, which are notes for people; its errors are
    still logged.
    """
    import logging

    logger = logging.getLogger("packetboat")
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)
