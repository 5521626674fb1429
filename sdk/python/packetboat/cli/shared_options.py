"""Options of every command, before its name and behind it; an option behind the name wins."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand

from packetboat.cli.output import Format

PANEL = "Options of every command"
KEY = "packetboat.given"
F = TypeVar("F", bound=Callable[..., Any])


def given(context: typer.Context) -> dict[str, Any]:
    """Return the shared options of this run that were given, by name."""
    found: dict[str, Any] = context.meta.setdefault(KEY, {})
    return found


def _keep(context: typer.Context, param: typer.CallbackParam, value: Any) -> Any:
    if value is not None and param.name is not None:
        given(context)[param.name] = value
    return value


def _shared(*names: str, help: str, **more: Any) -> Any:
    return typer.Option(
        *names, help=help, callback=_keep, expose_value=False, rich_help_panel=PANEL, **more
    )


def _all(
    output: Annotated[
        Format | None, _shared("--output", "-o", help="How results are printed. Default: table.")
    ] = None,
    quiet: Annotated[
        bool | None, _shared("--quiet", "-q", help="No notes; of listings the names alone.")
    ] = None,
    verbose: Annotated[
        bool | None, _shared("--verbose", "-v", help="Say on stderr what is sent and answered.")
    ] = None,
    profile: Annotated[
        str | None, _shared("--profile", help="A profile of `packetboat config list`.")
    ] = None,
    url: Annotated[
        str | None, _shared("--url", help="The server, or several with commas between.")
    ] = None,
    token: Annotated[
        str | None, _shared("--token", help="An access token or API key; others see arguments.")
    ] = None,
    timeout: Annotated[
        float | None, _shared("--timeout", help="Seconds for a call with all its tries.", min=0.001)
    ] = None,
) -> None: ...


@cache
def parameters() -> tuple[Any, ...]:
    """Return the shared parameters of a command; all commands use the same ones."""
    app = typer.Typer(add_completion=False)
    app.command()(_all)
    return tuple(typer.main.get_command(app).params)


class Command(TyperCommand):
    """A command with the shared options, that says what fails and ends with its exit code."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.params.extend(parameters())

    def invoke(self, ctx: Any) -> Any:
        from packetboat.cli.ending import ending

        with ending(ctx):
            return super().invoke(ctx)


def add(app: typer.Typer, name: str, *, example: str, hidden: bool = False) -> Callable[[F], F]:
    """Registers a command. `example` is one that works; help ends with it."""
    shown = example.replace("[", "\\[")
    return app.command(name, cls=Command, epilog=f"Example: {shown}", hidden=hidden)


def commands(name: str, help: str) -> typer.Typer:
    """Return a new group of commands."""
    return typer.Typer(name=name, help=help, no_args_is_help=True, add_completion=False)
