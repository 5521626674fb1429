"""`packetboat config …`: the profiles that are kept."""

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

app: typer.Typer = commands("config", "The profiles that are kept; `packetboat login` makes them.")
Profile_ = Annotated[str, typer.Argument(metavar="PROFILE", help="Its name.")]


@add(app, "list", example="packetboat config list")
def list_(context: typer.Context) -> None:
    """All profiles."""
    here = Invocation.of(context)
    kept = profiles.load(profiles.path())
    rows = [
        {"name": name, "current": name == kept.current} | shown(profile)
        for name, profile in sorted(kept.profiles.items())
    ]
    here.output.rows(rows, "name", "current", "url", "credential")


@add(app, "use", example="packetboat config use production")
def use(context: typer.Context, name: Profile_) -> None:
    """Make a profile the one that is used where nothing else is said."""
    kept = profiles.load(profiles.path())
    _existing(kept, name)
    profiles.save(profiles.path(), replace(kept, current=name))
    Invocation.of(context).output.note(f"The profile {name!r} is used from now on.")


@add(app, "show", example="packetboat config show")
def show(context: typer.Context) -> None:
    """What this command uses now, and where it found it; secrets are never shown."""
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
    value: Annotated[str, typer.Argument(metavar="VALUE", help="Empty to take it away.")],
) -> None:
    """Change a profile. Credentials are for `packetboat login`, which reads them from a prompt."""
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
    """Forget a profile, with its credential."""
    kept = profiles.load(profiles.path())
    _existing(kept, name)
    profiles.save(profiles.path(), kept.without(name))
    Invocation.of(context).output.note(f"The profile {name!r} is deleted.")


def shown(profile: Profile) -> dict[str, str | None]:
    """Without its secrets; of a client its id."""
    kind = f"client {profile.client_id}" if profile.client_id else None
    credential = kind or ("token" if profile.token else None)
    return {"url": profile.url, "credential": credential, "ca_file": profile.ca_file}


def _existing(kept: Profiles, name: str) -> None:
    if name not in kept.profiles:
        raise CommandFailed(
            f"there is no profile {name!r}", ExitCode.NOT_FOUND, "`packetboat config list`"
        )
