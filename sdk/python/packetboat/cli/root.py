"""The command's table of contents: names, a line each, and where they are. A command is imported
when it is used; the table alone is enough for help and completion.

The commands that run servers come with `packetboat-server`, as a plug-in: an entry point of the
group `packetboat.commands` whose object is a `typer.Typer`. Its commands stand beside ours, in a
panel that has the entry point's name.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from packetboat.cli.exit_codes import ExitCode
from packetboat.cli.shared_options import parameters
from packetboat.extras import SERVER as SERVER_INSTALL

MESSAGES, CONSUMING, WORK = "Messages", "Topics and subscriptions", "Time, locks, jobs, lake"
TENANCY, HERE = "Tenants and access", "This computer"
PLUGINS = "packetboat.commands"
SERVER_COMMANDS = (
    *("up", "serve", "store-node", "migrate", "store", "operator", "signing-keys", "adopt"),
    "export-runner",
)


class Entry(NamedTuple):
    """A command in the table."""

    panel: str
    summary: str
    module: str
    """The module, and behind a colon the name of the group in it, unless that is `app`."""

    def load(self) -> typer.Typer:
        module, _, group = self.module.partition(":")
        found = import_module(f"packetboat.cli.commands.{module}")
        app: typer.Typer = getattr(found, group or "app")
        return app


@cache
def table() -> dict[str, Entry]:
    return {
        "publish": Entry(MESSAGES, "Publish a file or stdin.", "publish"),
        "pull": Entry(MESSAGES, "Pull messages of a subscription.", "consume"),
        "ack": Entry(MESSAGES, "Acknowledge messages.", "consume"),
        "nack": Entry(MESSAGES, "Return messages as failed.", "consume"),
        "tail": Entry(MESSAGES, "Show messages as they arrive.", "tail"),
        "replay": Entry(MESSAGES, "Read a topic again, without a subscription.", "replay"),
        "topics": Entry(CONSUMING, "Create, show and change topics.", "topics"),
        "subscriptions": Entry(
            CONSUMING, "Create, show and change subscriptions.", "subscriptions"
        ),
        "seek": Entry(CONSUMING, "Move a subscription to another position.", "parts:seek"),
        "snapshots": Entry(CONSUMING, "Save the position of a subscription.", "parts:snapshots"),
        "dead-letters": Entry(
            CONSUMING, "List, redrive and discard failed messages.", "dead_letters"
        ),
        "skip-rules": Entry(CONSUMING, "Rules for messages to skip.", "parts:skip_rules"),
        "flow": Entry(CONSUMING, "Limit the delivery to consumers.", "parts:flow"),
        "signing-secrets": Entry(
            CONSUMING, "Secrets that sign push requests.", "parts:signing_secrets"
        ),
        "schemas": Entry(CONSUMING, "Schemas of message bodies.", "schemas"),
        "schedules": Entry(WORK, "Publish messages at times.", "schedules"),
        "export": Entry(WORK, "Write topics into tables of a lake.", "export"),
        "locks": Entry(WORK, "Show locks and their holders.", "work:locks"),
        "lock": Entry(WORK, "Run a program while holding a lock.", "lock"),
        "jobs": Entry(WORK, "Map-reduce jobs and their tasks.", "work:jobs"),
        "pools": Entry(WORK, "Limits of tasks that run at once.", "work:pools"),
        "tenants": Entry(TENANCY, "Tenants of this installation (operators).", "tenancy:tenants"),
        "clients": Entry(TENANCY, "Programs that get tokens with a secret.", "tenancy:clients"),
        "keys": Entry(TENANCY, "API keys.", "tenancy:keys"),
        "tokens": Entry(TENANCY, "Ask about access tokens, and revoke them.", "tokens"),
        "policies": Entry(TENANCY, "Roles of members on resources.", "tenancy:policies"),
        "issuers": Entry(TENANCY, "Other issuers whose tokens are accepted.", "tenancy:issuers"),
        "quotas": Entry(TENANCY, "Limits of a tenant.", "tenancy:quotas"),
        "usage": Entry(TENANCY, "Usage of a tenant, per hour.", "tenancy:usage"),
        "audit": Entry(TENANCY, "Show who changed which resource.", "tenancy:audit"),
        "login": Entry(HERE, "Check a server and a credential, and save them.", "login"),
        "config": Entry(HERE, "Show and change saved profiles.", "config"),
        "whoami": Entry(HERE, "Show your identity at the server.", "server:whoami"),
        "doctor": Entry(HERE, "Find problems and suggest solutions.", "doctor"),
        "api": Entry(HERE, "Send any request to the HTTP API.", "server:api"),
        "docs": Entry(HERE, "Show where the documentation is.", "server:docs"),
    }


@cache
def plugin_groups() -> tuple[Any, ...]:
    """Return each plug-in's commands, with its panel set."""
    from importlib.metadata import entry_points

    found = []
    for entry in sorted(entry_points(group=PLUGINS)):
        group: Any = typer.main.get_command(entry.load())
        for command in group.commands.values():
            command.rich_help_panel = entry.name.title()
        found.append(group)
    return tuple(found)


def plugin_group_of(name: str) -> Any | None:
    """Return the group of the plug-in that has the command."""
    return next((group for group in plugin_groups() if name in group.commands), None)


def plugin_commands() -> dict[str, Any]:
    """Return all commands of plug-ins; if the server is not installed, commands that say so."""
    found = {name: command for group in plugin_groups() for name, command in group.commands.items()}
    return found or {name: _absent(name) for name in SERVER_COMMANDS}


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
        self.commands.update(plugin_commands())
        return list(self.commands)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Let the group of a plug-in resolve its own commands: it may refuse them."""
        if args[0] not in table():
            self.commands.update(plugin_commands())  # a typing error is compared with these
            group = plugin_group_of(args[0])
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
