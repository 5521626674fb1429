"""The results of one `packetboat publish`: messages that are done, refused, unknown or unsent."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from packetboat.cli.exit_codes import ExitCode, exit_code_of
from packetboat.errors import (
    ClientClosed,
    ConnectionFailed,
    NotAuthorized,
    NotFound,
    PacketboatError,
    UnknownOutcome,
)
from packetboat.models import Receipt

MAX_FAILURES_TOLD = 10
HOPELESS = (ConnectionFailed, NotAuthorized, NotFound)
"""The next line would meet the same."""


@dataclass
class Summary:
    """`first_line`: the first that is not known to be done."""

    done: int = 0
    duplicates: int = 0
    refused: int = 0
    unknown: int = 0
    unsent: int = 0
    interrupted: bool = False
    input_failure: str | None = None
    """The reason why the input was not read to its end."""
    hopeless: PacketboatError | None = None
    first_line: int | None = None
    failures: list[str] = field(default_factory=list)
    codes: set[ExitCode] = field(default_factory=set)

    def stored(self, receipt: Receipt) -> None:
        self.done += 1
        self.duplicates += receipt.duplicate

    def bad(self, line: int, text: str) -> None:
        """Count a line that was never sent: it can't be a message."""
        self.refused += 1
        self.codes.add(ExitCode.FAILED)
        self._failed(line, text)

    def failed(self, line: int, error: PacketboatError) -> None:
        if isinstance(error, UnknownOutcome):
            self.unknown += 1
        elif isinstance(error, ClientClosed):
            self.unsent += 1
        else:
            self.refused += 1
            if isinstance(error, HOPELESS):
                self.hopeless = self.hopeless or error
        self.codes.add(exit_code_of(error))
        self._failed(line, str(error))

    def _failed(self, line: int, text: str) -> None:
        self.first_line = min(line, self.first_line or line)
        if len(self.failures) < MAX_FAILURES_TOLD:
            self.failures.append(f"line {line}: {text}")

    @property
    def exit_code(self) -> ExitCode:
        """The exit code.

        Unknown outcomes come before refusals; for several reasons it is the general code.
        """
        if self.interrupted:
            return ExitCode.INTERRUPTED
        if self.unknown:
            return ExitCode.UNKNOWN_OUTCOME
        if self.hopeless is not None:
            return exit_code_of(self.hopeless)
        if self.refused or self.unsent:
            return min(self.codes) if len(self.codes) == 1 else ExitCode.FAILED
        if self.input_failure is not None:
            return ExitCode.FAILED
        return ExitCode.OK

    def record(self, topic: str, seconds: float) -> dict[str, Any]:
        return {
            "topic": topic,
            "done": self.done,
            "duplicates": self.duplicates,
            "refused": self.refused,
            "unknown": self.unknown,
            "unsent": self.unsent,
            "first_line_not_done": self.first_line,
            "seconds": round(seconds, 3),
        }
