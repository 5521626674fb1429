"""Commands of other distributions: those that run servers come with `packetboat-server`.

A plug-in is an entry point of the group `packetboat.commands` whose object is a `typer.Typer`; its
commands stand beside ours, in a panel that has the entry point's name.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import Any

import typer
from typer.core import TyperCommand

from packetboat.cli.exit_codes import ExitCode
from packetboat.extras import SERVER as SERVER_INSTALL

GROUP = "packetboat.commands"
SERVER = (
    *("up", "serve", "store-node", "migrate", "store", "operator", "signing-keys", "adopt"),
    "export-runner",
)


@cache
def groups() -> tuple[Any, ...]:
    """Return each plug-in's commands, with its panel set."""
    from importlib.metadata import entry_points

    found = []
    for entry in sorted(entry_points(group=GROUP)):
        group: Any = typer.main.get_command(entry.load())
        for command in group.commands.values():
            command.rich_help_panel = entry.name.title()
        found.append(group)
    return tuple(found)


def group_of(name: str) -> Any | None:
    """Return the group of the plug-in that has the command."""
    return next((group for group in groups() if name in group.commands), None)


def commands() -> dict[str, Any]:
    """Return all commands of plug-ins; if the server is not installed, commands that say so."""
    found = {name: command for group in groups() for name, command in group.commands.items()}
    return found or {name: _absent(name) for name in SERVER}


def _absent(name: str) -> TyperCommand:
    def say(**_: object) -> None:
        sys.stderr.write(f"packetboat: `{name}` comes with the server: {SERVER_INSTALL}\n")
        raise typer.Exit(ExitCode.FAILED)

    return TyperCommand(
        name,
        callback=say,
        hidden=True,
        add_help_option=False,
        context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
    )
