"""The command's table of contents: names, a line each, and where they are. A command is imported
when it is used; the table alone is enough for help and completion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from packetboat.cli import plugins
from packetboat.cli.shared_options import parameters
from packetboat.cli.table import Entry, table


class Root(TyperGroup):
    """Knows its commands by their table, and those of plug-ins by asking them."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.params[:0] = parameters()
        self._listing = False
        self._loaded: dict[str, Any] = {}
        self.commands.update(
            (name, TyperCommand(name, help=entry.summary, rich_help_panel=entry.panel))
            for name, entry in table().items()
        )

    def list_commands(self, ctx: Any) -> list[str]:
        self.commands.update(plugins.commands())
        return list(self.commands)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Let the group of a plug-in resolve its own commands: it may refuse them."""
        if args[0] not in table():
            self.commands.update(plugins.commands())  # a typing error is compared with these
            group = plugins.group_of(args[0])
            if group is not None:
                return group.resolve_command(ctx, args)
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if self._listing:
            return self.commands.get(cmd_name)
        if cmd_name not in self._loaded:
            entry = table().get(cmd_name)
            if entry is None:
                return self.commands.get(cmd_name)
            self._loaded[cmd_name] = _made(cmd_name, entry)
        return self._loaded[cmd_name]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        self._list(lambda: super(Root, self).format_help(ctx, formatter))

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        return self._list(lambda: super(Root, self).shell_complete(ctx, incomplete))

    def _list(self, work: Callable[[], Any]) -> Any:
        self._listing = True
        try:
            return work()
        finally:
            self._listing = False


def _made(name: str, entry: Entry) -> Any:
    """Return a module's only command, or its group, or the command of the group that has
    the name.
    """
    made: Any = typer.main.get_command(entry.load())
    if isinstance(made, TyperGroup) and made.name != name:
        return made.commands[name]
    return made
