"""Names for the shell's completion: asked of the server, quickly, and silent when that fails."""

from __future__ import annotations

from collections.abc import Iterator

import typer

TIMEOUT_S = 1.5
MAX_NAMES = 200


def topic_names(context: typer.Context, incomplete: str) -> list[str]:
    return list(_names(context, "topics", incomplete))


def subscription_names(context: typer.Context, incomplete: str) -> list[str]:
    return list(_names(context, "subscriptions", incomplete))


def export_names(context: typer.Context, incomplete: str) -> list[str]:
    return list(_names(context, "exports", incomplete))


def _names(context: typer.Context, noun: str, incomplete: str) -> Iterator[str]:
    """A shell that completes must never see an error, whatever it is."""
    import logging

    from packetboat.cli.api import Api, path
    from packetboat.cli.invocation import Invocation

    logging.getLogger("packetboat").setLevel(logging.CRITICAL)
    try:
        invocation = Invocation.of(context)
        api = Api(invocation.api.sender, TIMEOUT_S)
        for item in api.pages(path(noun), noun, limit=MAX_NAMES):
            if item["name"].startswith(incomplete):
                yield item["name"]
        invocation.close()
    except Exception:
        return
