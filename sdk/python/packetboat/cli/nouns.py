"""Commands that every kind of thing has: list, get, delete."""

from __future__ import annotations

from typing import NamedTuple

import typer

from packetboat.cli.api import path
from packetboat.cli.arguments import Limit, Name
from packetboat.cli.invocation import Invocation
from packetboat.cli.shared_options import add


class Noun(NamedTuple):
    """`plural` is the command's name, the path, and the member of a page. `columns` are those of
    its table; the first names it."""

    plural: str
    one: str
    columns: tuple[str, ...]
    example: str


def add_list(app: typer.Typer, noun: Noun) -> None:
    @add(app, "list", example=f"packetboat {noun.plural} list")
    def list_(context: typer.Context, limit: Limit = None) -> None:
        """All there are."""
        here = Invocation.of(context)
        rows = here.api.pages(path(noun.plural), noun.plural, limit=limit)
        here.output.rows(rows, *noun.columns)


def add_get(app: typer.Typer, noun: Noun) -> None:
    @add(app, "get", example=f"packetboat {noun.plural} get {noun.example}")
    def get(context: typer.Context, name: Name) -> None:
        """Show one, with all that is known of it."""
        here = Invocation.of(context)
        here.output.record(here.api.get(path(noun.plural, name)))


def add_delete(app: typer.Typer, noun: Noun) -> None:
    @add(app, "delete", example=f"packetboat {noun.plural} delete {noun.example}")
    def delete(context: typer.Context, name: Name) -> None:
        """Delete one."""
        here = Invocation.of(context)
        here.api.delete(path(noun.plural, name))
        here.output.note(f"The {noun.one} {name!r} is deleted.")


def add_common(app: typer.Typer, noun: Noun) -> None:
    add_list(app, noun)
    add_get(app, noun)
    add_delete(app, noun)
