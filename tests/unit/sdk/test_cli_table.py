"""Every command is in the table, has help, an example that parses, and the shared options."""

from __future__ import annotations

import pkgutil
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Any

import pytest
import rich.markup
import typer
from packetboat.cli import commands, root
from packetboat.cli.app import app
from packetboat.cli.commands import (
    config,
    consume,
    dead_letters,
    doctor,
    export,
    lock,
    login,
    parts,
    publish,
    replay,
    schedules,
    schemas,
    server,
    subscriptions,
    tail,
    tenancy,
    tokens,
    topics,
    work,
)
from packetboat.cli.main import main
from packetboat.cli.root import table
from packetboat.cli.shared_options import Command as Leaf
from packetboat.cli.shared_options import parameters

from tests.unit.sdk.cli_support import Command

MODULES = (
    *(config, consume, dead_letters, doctor, export, lock, login, parts, publish, replay),
    *(schedules, schemas, server, subscriptions, tail, tenancy, tokens, topics, work),
)
ROOT: Any = typer.main.get_command(app)


def leaves() -> Iterator[tuple[str, Any]]:
    """Yield every command of the table with its path."""
    context = ROOT.make_context("packetboat", [], resilient_parsing=True)
    for name in table():
        found = ROOT.get_command(context, name)
        for inner, leaf in getattr(found, "commands", {"": found}).items():
            yield f"{name} {inner}".strip(), leaf


LEAVES = dict(leaves())


def test_the_table_has_every_module() -> None:
    there = {each.name for each in pkgutil.iter_modules(commands.__path__)}
    assert {module.__name__.rpartition(".")[2] for module in MODULES} == there
    assert {entry.module.partition(":")[0] for entry in table().values()} == there


@pytest.mark.parametrize("name", LEAVES)
def test_each_has_help_and_the_shared_options(name: str) -> None:
    leaf = LEAVES[name]
    assert isinstance(leaf, Leaf)
    assert leaf.help
    assert {each.name for each in parameters()} <= {each.name for each in leaf.params}
    for param in leaf.params:
        assert param.help or getattr(param, "metavar", None), param.name


@pytest.mark.parametrize("name", LEAVES)
def test_help_is_shown_in_full(name: str) -> None:
    """Rich takes a word in brackets, such as `[default: 4]`, for markup and leaves it out."""
    leaf = LEAVES[name]
    for text in (leaf.help, leaf.epilog, *(getattr(param, "help", None) for param in leaf.params)):
        assert rich.markup.render(text or "").plain == (text or "")


@pytest.mark.parametrize("name", LEAVES)
def test_each_has_an_example_that_can_be_parsed(name: str) -> None:
    leaf = LEAVES[name]
    shown = leaf.epilog.removeprefix("Example: ")
    words = shlex.split(shown.partition(" | ")[0])
    path = ["packetboat", *name.split()]
    assert words[: len(path)] == path
    leaf.make_context(words[len(path) - 1], words[len(path) :])


def test_help_is_of_panels(command: Command) -> None:
    ran = command("--help")
    assert ran.code == 0
    for word in ("Messages", "Topics and subscriptions", "This computer", "Server", "dead-letters"):
        assert word in ran.out


@pytest.mark.parametrize("name", ["topics", "tail", "lock", "dead-letters redrive"])
def test_help_of_commands(command: Command, name: str) -> None:
    assert command(*name.split(), "--help").code == 0


def test_a_typing_error_is_answered_with_what_was_meant(command: Command) -> None:
    ran = command("topisc", "list")
    assert ran.code == 2
    assert "topics" in ran.err


def test_versions(command: Command) -> None:
    ran = command("--version")
    assert [line.split()[0] for line in ran.out.splitlines()] == [
        "packetboat-client",
        "packetboat-server",
    ]


def test_help_imports_no_http_and_no_command() -> None:
    """A user waits while the help is printed."""
    program = (
        "import sys; from packetboat.cli.app import app\n"
        "try: app(['--help'])\n"
        "except SystemExit: pass\n"
        "print([m for m in sys.modules if m.startswith(('httpx', 'packetboat.cli.commands.'))])"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert ran.stdout.splitlines()[-1] == "[]"


def test_the_script_is_of_this_distribution() -> None:
    [script] = entry_points(group="console_scripts", name="packetboat")
    assert script.load() is main
    assert script.dist is not None
    assert script.dist.name == "packetboat-client"


def test_commands_of_the_server_are_plugged_in(command: Command) -> None:
    ran = command("store", "--help")
    assert ran.code == 0
    assert "add-node" in ran.out


def test_without_the_server_it_is_said_how_to_install_it(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(root, "plugin_groups", lambda: ())
    ran = command("up", "--data-dir", "x")
    assert ran.code == 1
    assert "`make up` in a checkout of Packetboat" in ran.err
    assert "store-node" not in command("--help").out


def test_without_the_extra_it_is_said_what_to_install() -> None:
    program = (
        "import sys; sys.modules['typer'] = None\nfrom packetboat.cli.main import main; main()\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith("packetboat: the command is an extra: pip install './sdk/python[")
