"""`packetboat certificates …`: for TLS between processes, where nothing else issues certificates.

Exit status: 0 done · 1 refused. Heavy parts are imported when needed.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

REFUSED = 1
CA_FILE, CA_KEY_FILE = "ca.pem", "ca-key.pem"
FILE, KEY_FILE = "cert.pem", "key.pem"

app = typer.Typer(
    name="certificates",
    help="Create certificates for TLS between processes.",
    no_args_is_help=True,
    add_completion=False,
)
Authority = Annotated[Path, typer.Argument(help="The CA's directory.")]


@app.command()
def init(
    directory: Authority,
    name: Annotated[str, typer.Option(help="Name of the CA.")] = "Packetboat peers",
    days: Annotated[int, typer.Option(min=1, help="Days until it expires.")] = 3650,
) -> None:
    """Create a CA: its certificate, ca.pem, and its key, ca-key.pem, which no process needs."""
    from peering.authority import make_authority

    certificate, key = directory / CA_FILE, directory / CA_KEY_FILE
    if certificate.exists() or key.exists():
        raise _refused(f"{directory} has a CA")
    try:
        directory.mkdir(parents=True, exist_ok=True)
        make_authority(name, days=days).write(certificate, key)
    except OSError as error:
        raise _refused(error) from None
    typer.echo(f"{certificate}: goes to every process\n{key}: keep it to yourself")


@app.command()
def issue(
    directory: Authority,
    owner: Annotated[
        str, typer.Argument(help="Name of the process, such as store-1, shown to people.")
    ],
    to: Annotated[Path, typer.Option(help="The directory for cert.pem, key.pem and ca.pem.")],
    name: Annotated[
        str, typer.Option(help="PACKETBOAT_PEER_TLS_NAME of the installation.")
    ] = "packetboat-peer",
    days: Annotated[int, typer.Option(min=1, help="Days until it expires.")] = 365,
) -> None:
    """Create a certificate and its key. They replace existing files; running processes read them
    within seconds."""
    from peering import authority
    from peering.certificate import read

    try:
        ca = authority.Issued(
            (directory / CA_FILE).read_bytes(), (directory / CA_KEY_FILE).read_bytes()
        )
        issued = authority.issue(ca, name, owner=owner, days=days)
        to.mkdir(parents=True, exist_ok=True)
        if not (to / CA_FILE).exists():
            authority.replace_file(to / CA_FILE, ca.certificate, authority.PUBLIC)
        issued.write(to / FILE, to / KEY_FILE)
    except (OSError, ValueError) as error:
        raise _refused(error) from None
    typer.echo(f"{to / FILE}: {read(issued.certificate)[0]}")


@app.command()
def show(file: Annotated[Path, typer.Argument(help="A PEM file of certificates.")]) -> None:
    """Show the purpose and the expiry of the certificates of a file."""
    from peering.certificate import read

    try:
        found = read(file.read_bytes())
    except (OSError, ValueError) as error:
        raise _refused(error) from None
    for each in found:
        typer.echo(str(each))


def _refused(reason: object) -> typer.Exit:
    sys.stderr.write(f"packetboat certificates: {reason}\n")
    return typer.Exit(REFUSED)
