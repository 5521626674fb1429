"""Previews of a filter over the newest messages of a topic or a subscription."""

from __future__ import annotations

from typing import Annotated

import typer

from packetboat.cli.arguments import body
from packetboat.cli.invocation import Invocation

Expression = Annotated[
    str, typer.Argument(metavar="EXPRESSION", help="CEL, such as `data.total > 100.0`.")
]
Messages = Annotated[
    int | None, typer.Option("--messages", help="Number of the newest messages to check.", min=1)
]


def preview_filter(
    context: typer.Context, where: str, expression: str, messages: int | None
) -> None:
    """`where` has the filter tried. Nothing is changed by it."""
    here = Invocation.of(context)
    wanted = body(filter=expression, messages=messages)
    here.output.record(here.api.post(where, wanted, safe=True))
