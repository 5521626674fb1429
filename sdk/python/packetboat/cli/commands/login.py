"""`packetboat login`: a server and a credential, tried, and kept in a profile."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer

from packetboat import profiles
from packetboat.cli.arguments import wrong
from packetboat.cli.invocation import Invocation
from packetboat.cli.secret_text import read_secret
from packetboat.cli.shared_options import add, given
from packetboat.cli.target import DEFAULT_URL
from packetboat.profiles import DEFAULT, Profile

app: typer.Typer = typer.Typer()


@add(app, "login", example="packetboat login --url https://mq.example.com --client-id pbc_…")
def login(
    context: typer.Context,
    client_id: Annotated[
        str | None,
        typer.Option(
            "--client-id",
            help="A client id; the command asks for the secret, or reads it from stdin.",
        ),
    ] = None,
    with_token: Annotated[
        bool, typer.Option("--with-token", help="Read an API key or access token from stdin.")
    ] = False,
    ca_file: Annotated[
        str | None,
        typer.Option(help="File with the CA of the server certificate, if the CA is not public."),
    ] = None,
) -> None:
    """Check a server and a credential, and save them in a profile (`--profile`)."""
    options = given(context)
    if "token" in options:
        raise wrong("arguments are seen by others: give the token by --with-token, on stdin")
    if client_id is not None and with_token:
        raise wrong("either --client-id or --with-token")
    kept = profiles.load(profiles.path())
    name = options.get("profile") or os.environ.get("PACKETBOAT_PROFILE") or DEFAULT
    known = kept.profiles.get(name, Profile())
    url = options.get("url") or known.url or os.environ.get("PACKETBOAT_URL")
    url = (url or _asked("Server", DEFAULT_URL)).rstrip("/")
    profile = _profile(url, client_id, with_token, ca_file or known.ca_file)
    who = _tried(context, profile)
    profiles.save(profiles.path(), _current(kept.with_profile(name, profile), name))
    here = Invocation.of(context)
    here.output.record({"profile": name, "url": url} | who)
    here.output.note(f"Kept in {profiles.path()}, for your eyes alone.")


def _profile(url: str, client_id: str | None, with_token: bool, ca_file: str | None) -> Profile:
    if with_token:
        return Profile(url=url, token=read_secret("Token"), ca_file=ca_file)
    if client_id is None and sys.stdin.isatty():
        client_id = _asked("Client id (nothing for an API key or token)", "")
    if client_id:
        secret = read_secret("Client secret")
        return Profile(url=url, client_id=client_id, client_secret=secret, ca_file=ca_file)
    return Profile(url=url, token=read_secret("API key or token"), ca_file=ca_file)


def _tried(context: typer.Context, profile: Profile) -> dict[str, Any]:
    """Return the identity that the server sees; raises an error if the credential is refused."""
    from packetboat.cli.api import Api
    from packetboat.cli.connection import options_of
    from packetboat.cli.target import Target

    options = options_of(Target(profile, "login", "login"))
    here = Invocation.of(context)
    who = Api(here.connect(options), here.timeout_s).get("/whoami")
    return {member: who[member] for member in ("tenant", "subject", "roles") if member in who}


def _current(kept: profiles.Profiles, name: str) -> profiles.Profiles:
    from dataclasses import replace

    return replace(kept, current=name)


def _asked(what: str, default: str) -> str:
    if not sys.stdin.isatty():
        return default
    return str(typer.prompt(what, default=default, err=True, show_default=bool(default))).strip()
