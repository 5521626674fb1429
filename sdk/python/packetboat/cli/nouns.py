"""The commands that kinds of things share: list, get, set and delete, verbs on one of them, and
previews of filters."""

from __future__ import annotations

from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Annotated, Any, NamedTuple

import typer

from packetboat.cli.api import path
from packetboat.cli.arguments import File, Force, Labels, Limit, Name, Set, body
from packetboat.cli.invocation import Invocation
from packetboat.cli.secret_text import note_secret
from packetboat.cli.shared_options import add, commands

Expression = Annotated[
    str, typer.Argument(metavar="EXPRESSION", help="CEL, such as `data.total > 100.0`.")
]
Messages = Annotated[
    int | None, typer.Option("--messages", help="Number of the newest messages to check.", min=1)
]


class Noun(NamedTuple):
    """`plural` is the command's name, the path, and the member of a page. `columns` are those of
    its table; the first names it."""

    plural: str
    one: str
    columns: tuple[str, ...]
    example: str


def group(noun: Noun, help: str) -> typer.Typer:
    """Return a group of commands with those that list the nouns and show one."""
    app = commands(noun.plural, help)
    add_list(app, noun)
    add_get(app, noun)
    return app


def add_list(app: typer.Typer, noun: Noun) -> None:
    @add(app, "list", example=f"packetboat {noun.plural} list")
    def list_(context: typer.Context, limit: Limit = None) -> None:
        """All there are."""
        here = Invocation.of(context)
        rows = here.api.pages(path(noun.plural), noun.plural, limit=limit)
        here.output.rows(rows, *noun.columns)


def add_get(
    app: typer.Typer, noun: Noun, help: str = "Show one, with all that is known of it."
) -> None:
    def work(here: Invocation, name: str) -> None:
        here.output.record(here.api.get(path(noun.plural, name)))

    add_one(app, noun, "get", help, work)


def add_set(
    app: typer.Typer,
    noun: Noun,
    help: str,
    example: str,
    *,
    force: bool = False,
    secret: str = "",
    **fields: Any,
) -> None:
    """Add the command that creates or replaces one. `fields` are the types of its options, by the
    field of the body; `secret` is the member of the answer with a secret."""

    def work(here: Invocation, name: str, force: bool = False, **given: Any) -> None:
        made = here.api.put(path(noun.plural, name), body(**given), force=force or None)
        here.output.record(made)
        note_secret(here.output, made.get(secret))

    options = fields | ({"force": Force} if force else {})
    options |= {"labels": Labels, "file": File, "sets": Set}
    add_one(app, noun, "set", help, work, example, **options)


def add_verb(
    app: typer.Typer, noun: Noun, verb: str, help: str, *, safe: bool = True, name: str = ""
) -> None:
    """Add a command that posts a verb without a body, and shows the answer."""

    def work(here: Invocation, name: str) -> None:
        here.output.record(here.api.post(path(noun.plural, name, verb=verb), safe=safe))

    add_one(app, noun, name or verb, help, work)


def add_delete(
    app: typer.Typer,
    noun: Noun,
    help: str = "Delete one.",
    *,
    force: bool = False,
    end: str = "is deleted",
    example: str = "",
) -> None:
    """Add the command that deletes one; `end` is that of its note."""

    def work(here: Invocation, name: str, force: bool = False) -> None:
        here.api.delete(path(noun.plural, name), force=force or None)
        here.output.note(f"The {noun.one} {name!r} {end}.")

    add_one(app, noun, "delete", help, work, example, **({"force": Force} if force else {}))


def add_common(app: typer.Typer, noun: Noun) -> None:
    add_list(app, noun)
    add_get(app, noun)
    add_delete(app, noun)


def add_one(
    app: typer.Typer,
    noun: Noun,
    name: str,
    help: str,
    work: Callable[..., None],
    example: str = "",
    **options: Any,
) -> None:
    """Add a command for the one that its argument names. `options` are the types of its options, by
    their names, as which `work` gets them."""

    def run(context: typer.Context, name: str, **given: Any) -> None:
        work(Invocation.of(context), name, **given)

    run.__doc__ = help
    keyword = Parameter.KEYWORD_ONLY
    run.__signature__ = Signature(  # type: ignore[attr-defined]
        [
            Parameter("context", keyword, annotation=typer.Context),
            Parameter("name", keyword, annotation=Name),
            *(
                Parameter(each, keyword, default=False if kind is Force else None, annotation=kind)
                for each, kind in options.items()
            ),
        ]
    )
    shown = f"packetboat {noun.plural} {example or f'{name} {noun.example}'}"
    add(app, name, example=shown)(run)


def preview_filter(
    context: typer.Context, where: str, expression: str, messages: int | None
) -> None:
    """`where` has the filter tried. Nothing is changed by it."""
    here = Invocation.of(context)
    wanted = body(filter=expression, messages=messages)
    here.output.record(here.api.post(where, wanted, safe=True))
