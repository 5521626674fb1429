"""`packetboat whoami`, `docs`, and `api`, which sends any request with the credential of the other
commands."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated

import typer

from packetboat.calls import Call
from packetboat.cli.api import TIMEOUT_S
from packetboat.cli.arguments import pairs, wrong
from packetboat.cli.invocation import Invocation
from packetboat.cli.output import Format
from packetboat.cli.shared_options import add
from packetboat.transport import Request

whoami: typer.Typer = typer.Typer()
docs: typer.Typer = typer.Typer()
api: typer.Typer = typer.Typer()
SAFE = frozenset({"GET", "HEAD", "PUT", "OPTIONS"})


@add(whoami, "whoami", example="packetboat whoami -o json")
def show_identity(context: typer.Context) -> None:
    """Show your identity at the server, and your roles."""
    here = Invocation.of(context)
    answer = here.api.get("/whoami")
    here.output.record(answer)
    target = here.target
    here.output.note(
        f"(server: {target.urls[0]} of {target.url_from}; "
        f"credential of {target.credential_from or 'nowhere'})"
    )


@add(docs, "docs", example="packetboat docs")
def show_links(context: typer.Context) -> None:
    """Show where the documentation of the API and of its problems is."""
    here = Invocation.of(context)
    url = here.target.urls[0]
    links = {"api": f"{url}/docs", "openapi": f"{url}/openapi.yaml"}
    here.output.rows([{"what": what, "url": link} for what, link in links.items()], "what", "url")


@add(api, "api", example="packetboat api GET '/topics?page_size=5'")
def send(
    context: typer.Context,
    method: Annotated[str, typer.Argument(metavar="METHOD", help="GET, POST, …")],
    path: Annotated[str, typer.Argument(metavar="PATH", help="The path with its query.")],
    data: Annotated[
        str | None,
        typer.Option("--data", "-d", help="The body; @FILE for a file's bytes, - for stdin."),
    ] = None,
    header: Annotated[
        list[str] | None, typer.Option("--header", "-H", metavar="NAME=VALUE")
    ] = None,
) -> None:
    """Send any request, and print the answer unchanged; errors have the usual exit codes."""
    here = Invocation.of(context)
    if not path.startswith("/"):
        raise wrong(f"{path!r} does not begin with a slash")
    body = _body(data)
    headers = {"Content-Type": "application/json"} if body else {}
    headers |= pairs(header)
    request = Request(method.upper(), path, headers, body, TIMEOUT_S)
    call = Call(request, lambda raw: raw, safe=method.upper() in SAFE)
    answer = here.api.sender.send(call, timeout_s=here.timeout_s)
    try:
        value = json.loads(answer)
    except ValueError:
        sys.stdout.flush()
        sys.stdout.buffer.write(answer)
        sys.stdout.buffer.flush()
        return
    if here.output.format is Format.TABLE:
        here.output.text(json.dumps(value, indent=2, ensure_ascii=False) + "\n")
    else:
        here.output.record(value)


def _body(data: str | None) -> bytes:
    if data is None:
        return b""
    if data == "-":
        return sys.stdin.buffer.read()
    if not data.startswith("@"):
        return data.encode()
    try:
        return Path(data[1:]).read_bytes()
    except OSError as error:
        raise wrong(f"{data[1:]}: {error.strerror}") from None
