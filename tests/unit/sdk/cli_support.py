"""The command against a server that is a table of answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from packetboat.cli.app import app
from packetboat.cli.connection import Transports
from packetboat.transport import Request, Response, StreamResponse
from typer.testing import CliRunner

Answer = Any
"""JSON, a Response, an error to raise, or a function of the request to one of these."""


def problem(status: int, slug: str, detail: str = "", **members: Any) -> Response:
    body = {"type": f"https://packetboat.dev/problems/{slug}", "title": slug.capitalize()}
    return answer({**body, "status": status, "detail": detail, **members}, status)


def answer(body: object, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(status, headers or {}, json.dumps(body).encode())


@dataclass
class Server:
    """A transport: `answers` by method and path, without the query."""

    answers: dict[str, Answer] = field(default_factory=dict)
    requests: list[Request] = field(default_factory=list)

    def send(self, request: Request) -> Response:
        self.requests.append(request)
        found = self.answers.get(f"{request.method} {request.path.partition('?')[0]}")
        if callable(found):
            found = found(request)
        if isinstance(found, list):
            found = found.pop(0)
        if isinstance(found, BaseException):
            raise found
        if found is None:
            return problem(404, "route-not-found", f"{request.method} {request.path}")
        return found if isinstance(found, Response) else answer(found)

    def stream(self, request: Request) -> AbstractContextManager[StreamResponse]:
        raise NotImplementedError

    def close(self) -> None:
        pass

    def sent(self, at: int = -1) -> Any:
        """Return the body of a request."""
        return json.loads(self.requests[at].body)

    def paths(self) -> list[str]:
        return [f"{each.method} {each.path}" for each in self.requests]


@dataclass
class Ran:
    """The outcome of a command: its exit code and output."""

    code: int
    out: str
    err: str
    server: Server

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    def lines(self) -> Iterator[Any]:
        return (json.loads(line) for line in self.out.splitlines())


class Command:
    """Runs the command in a directory and with an environment of its own."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.environment: dict[str, str | None] = {
            "XDG_CONFIG_HOME": str(home / "config"),
            "PACKETBOAT_URL": "http://server",
            "PACKETBOAT_TOKEN": "t-environment",
            "PACKETBOAT_CLIENT_ID": None,
            "PACKETBOAT_CLIENT_SECRET": None,
            "PACKETBOAT_PROFILE": None,
            "NO_COLOR": "1",
            "COLUMNS": "100",
        }

    @property
    def profiles(self) -> Path:
        return self.home / "config" / "packetboat" / "config.toml"

    def __call__(
        self,
        *arguments: str,
        answers: dict[str, Answer] | None = None,
        stdin: str | bytes | None = None,
        transports: Callable[[Server], Transports] = Transports,
    ) -> Ran:
        server = Server({} if answers is None else answers)
        result = CliRunner().invoke(
            app, list(arguments), input=stdin, env=self.environment, obj=transports(server)
        )
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Ran(result.exit_code, result.stdout, result.stderr, server)
