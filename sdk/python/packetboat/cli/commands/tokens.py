"""`packetboat tokens …`: these commands use the id and the secret of a client."""

from __future__ import annotations

import typer

from packetboat.calls import tokens as calls
from packetboat.cli.exit_codes import ExitCode
from packetboat.cli.failures import CommandFailed
from packetboat.cli.invocation import Invocation
from packetboat.cli.secret_text import read_secret
from packetboat.cli.shared_options import add, commands

app: typer.Typer = commands("tokens", "Inspect and revoke access tokens, as a client.")


@add(app, "introspect", example="packetboat tokens introspect -o json")
def introspect(context: typer.Context) -> None:
    """Show the claims of a token, from a prompt or stdin; exit code 1 if it is not valid."""
    here = Invocation.of(context)
    request = calls.introspect_token(*_client(here), read_secret("Token")).request
    answer = here.api.repeat(request)
    here.output.record(answer)
    if not answer["active"]:
        raise typer.Exit(ExitCode.FAILED)


@add(app, "revoke", example="packetboat tokens revoke")
def revoke(context: typer.Context) -> None:
    """Revoke a token, from a prompt or stdin; every process refuses it within 5 s."""
    here = Invocation.of(context)
    here.api.repeat(calls.revoke_token(*_client(here), read_secret("Token")).request)
    here.output.note("The token holds no more.")


def _client(here: Invocation) -> tuple[str, str]:
    profile = here.target.profile
    if not (profile.client_id and profile.client_secret):
        raise CommandFailed(
            "tokens are asked about by a client with its secret, and there is none",
            ExitCode.NOT_AUTHORIZED,
            "PACKETBOAT_CLIENT_ID and PACKETBOAT_CLIENT_SECRET, or `packetboat login --client-id`",
        )
    return profile.client_id, profile.client_secret
