"""`packetboat config …`: saved profiles."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer

from packetboat import profiles
from packetboat.cli.arguments import wrong
from packetboat.cli.exit_codes import ExitCode
from packetboat.cli.failures import CommandFailed
from packetboat.cli.invocation import Invocation
from packetboat.cli.shared_options import add, commands
from packetboat.profiles import MEMBERS, SECRETS, Profile, Profiles

app: typer.Typer = commands(
    "config", "Show and change saved profiles; `packetboat login` creates them."
)
Profile_ = Annotated[str, typer.Argument(metavar="PROFILE", help="The name of the profile.")]


@add(app, "list", example="packetboat config list")
def list_(context: typer.Context) -> None:
    """List all profiles."""
    here = Invocation.of(context)
    kept = profiles.load(profiles.path())
    rows = [
        {"name": name, "current": name == kept.current} | shown(profile)
        for name, profile in sorted(kept.profiles.items())
    ]
    here.output.rows(rows, "name", "current", "url", "credential")


@add(app, "use", example="packetboat config use production")
def use(context: typer.Context, name: Profile_) -> None:
    """Use a profile by default."""
    kept = profiles.load(profiles.path())
    _existing(kept, name)
    profiles.save(profiles.path(), replace(kept, current=name))
    Invocation.of(context).output.note(f"The profile {name!r} is used from now on.")


@add(app, "show", example="packetboat config show")
def show(context: typer.Context) -> None:
    """Show the settings in use and their sources, without secrets."""
    here = Invocation.of(context)
    target = here.target
    here.output.record(
        {
            "file": str(profiles.path()),
            "url": ",".join(target.urls),
            "url_from": target.url_from,
            "credential": shown(target.profile)["credential"],
            "credential_from": target.credential_from,
            "ca_file": target.profile.ca_file,
        }
    )


@add(app, "set", example="packetboat config set production url https://mq.example.com")
def set_(
    context: typer.Context,
    name: Profile_,
    member: Annotated[str, typer.Argument(metavar="MEMBER", help="`url` or `ca_file`.")],
    value: Annotated[
        str, typer.Argument(metavar="VALUE", help="The new value; empty to remove it.")
    ],
) -> None:
    """Change a profile. To change a credential, use `packetboat login`, which has a prompt."""
    if member not in MEMBERS:
        raise wrong(f"{member!r} is none of {', '.join(sorted(set(MEMBERS) - SECRETS))}")
    if member in SECRETS:
        raise wrong(f"{member!r} is secret, and arguments are seen by others: packetboat login")
    kept = profiles.load(profiles.path())
    changed = replace(kept.profiles.get(name, Profile()), **{member: value or None})
    profiles.save(profiles.path(), kept.with_profile(name, changed))
    Invocation.of(context).output.note(f"The profile {name!r} is changed.")


@add(app, "delete", example="packetboat config delete staging")
def delete(context: typer.Context, name: Profile_) -> None:
    """Delete a profile with its credential."""
    kept = profiles.load(profiles.path())
    _existing(kept, name)
    profiles.save(profiles.path(), kept.without(name))
    Invocation.of(context).output.note(f"The profile {name!r} is deleted.")


def shown(profile: Profile) -> dict[str, str | None]:
    """Return a profile without its secrets; a client is shown by its id."""
    kind = f"client {profile.client_id}" if profile.client_id else None
    credential = kind or ("token" if profile.token else None)
    return {"url": profile.url, "credential": credential, "ca_file": profile.ca_file}


def _existing(kept: Profiles, name: str) -> None:
    if name not in kept.profiles:
        raise CommandFailed(
            f"there is no profile {name!r}", ExitCode.NOT_FOUND, "`packetboat config list`"
        )
