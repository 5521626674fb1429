"""Operators: clients above all tenants, made where the database is and not over HTTP alone.

A program that can write to Postgres is above all tenants anyway, so a command makes the first
operator. Its secret leaves the process in one of two ways: on a terminal, or in a file that only
its owner reads. It never goes to a log, nor to an output that nobody looks at.

The file is written before the row: where a run is cut in between, the next one finds the file and
registers what is in it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import msgspec

from auth.permissions import OF_OPERATORS
from gateway.up.data_dir import State
from metadata.database import Database
from metadata.errors import Conflict
from metadata.ids import new_uid
from metadata.postgres.embedded import EmbeddedPostgres
from metadata.settings import DatabaseSettings
from metadata.tenancy.audit import AuditEntry, AuditLog
from metadata.tenancy.clients import Client, ClientRepository, ClientSpec
from metadata.tenancy.credentials import (
    CLIENT_ID,
    CLIENT_SECRET,
    PREFIX_CHARS,
    Secret,
    hash_of,
    new_client_id,
    new_client_secret,
)
from metadata.tenancy.tenants import PLATFORM_ID, PLATFORM_NAME, TenantRepository
from openapi import access

MOST_LISTED = 1000
ACTOR = "command"
"""The actor that the audit names for a command."""
PERMISSIONS = frozenset(permission.value for permission in OF_OPERATORS)
"""Permissions to which an operator may be restricted."""
_ID, _SECRET = "PACKETBOAT_CLIENT_ID", "PACKETBOAT_CLIENT_SECRET"
T = TypeVar("T")


class NotMade(Exception):
    """No operator was made; the text says why and what to do, and holds no secret."""


@dataclass(frozen=True, slots=True)
class Credential:
    """The credential with which an operator gets its tokens."""

    client_id: str
    client_secret: str = field(repr=False)

    def assignments(self) -> str:
        """Return two lines, as systemd and container engines read them from a file; shells
        do, too.
        """
        return f"{_ID}={self.client_id}\n{_SECRET}={self.client_secret}\n"

    def exports(self) -> str:
        """Two lines a shell can eval."""
        return "".join(f"export {line}\n" for line in self.assignments().splitlines())

    @classmethod
    def from_exports(cls, text: str) -> Credential:
        """Return the credential in either kind of lines. Raises NotMade for anything else."""
        lines = [line.removeprefix("export ").partition("=") for line in text.split("\n") if line]
        found = {name: value for name, _, value in lines}
        credential = cls(found.get(_ID, ""), found.get(_SECRET, ""))
        if not credential.client_id.startswith(CLIENT_ID):
            raise NotMade("the credential file is there and holds no credential")
        if not credential.client_secret.startswith(CLIENT_SECRET):
            raise NotMade("the credential file is there and holds no credential")
        return credential


class Operators:
    """Clients of the platform's own tenant."""

    def __init__(self, database: Database) -> None:
        self._clients = ClientRepository(database)
        self._tenants = TenantRepository(database)
        self._audit = AuditLog(database)

    async def all(self) -> tuple[Client, ...]:
        """Return the operators by name, the first MOST_LISTED."""
        page = await self._clients.page(PLATFORM_ID, page_size=MOST_LISTED)
        return tuple(page.items)

    async def any(self) -> bool:
        """Return whether some operator is active and has all permissions of operators."""
        return any(
            client.state == "active" and client.permissions is None for client in await self.all()
        )

    async def create(
        self, name: str, credential: Credential, permissions: Sequence[str] | None = None
    ) -> Client:
        """Create an operator; a repetition with the same credential succeeds. Raises NotMade.

        `permissions` restricts it to those, above tenants only and in no tenant; None gives it all
        that an operator has.
        """
        if permissions is not None and not set(permissions) <= PERMISSIONS:
            raise NotMade(f"an operator's permissions are {', '.join(sorted(PERMISSIONS))}")
        await self._tenants.ensure(PLATFORM_ID, PLATFORM_NAME)
        text = credential.client_secret
        prefix = text.removeprefix(CLIENT_SECRET)[:PREFIX_CHARS]
        secret = Secret(hash_of(text), prefix, datetime.now(UTC))
        held = None if permissions is None else tuple(sorted(set(permissions)))
        spec = ClientSpec(name, display_name="operator", permissions=held)
        try:
            made = await self._clients.create(PLATFORM_ID, spec, credential.client_id, secret)
        except Conflict as error:
            there = error.existing
            if isinstance(there, Client) and there.client_id == credential.client_id:
                return there
            raise NotMade(f"there is an operator {name!r} already; choose another name") from None
        await self._note("packetboat operator create", name)
        return made

    async def set_state(self, name: str, state: access.State) -> Client:
        """Set the state: tokens are refused while it is not active, and hold again afterwards.

        Raises NotFound.
        """
        client = await self._clients.get(PLATFORM_ID, name)
        spec = ClientSpec(client.name, client.display_name, client.state, client.labels)
        changed = await self._clients.update(PLATFORM_ID, name, replace(spec, state=state))
        await self._note(f"packetboat operator {state}", name)
        return changed

    async def _note(self, action: str, name: str) -> None:
        entry = AuditEntry(PLATFORM_ID, new_uid(), ACTOR, action, f"clients/{name}", 200, ACTOR, {})
        await self._audit.append([entry])


def new_credential() -> Credential:
    return Credential(new_client_id(), new_client_secret(datetime.now(UTC)).text)


def credential_in(path: Path) -> Credential:
    """Return the credential at `path`, made (mode 0600) if there is none.

    Raises NotMade or OSError.
    """
    with contextlib.suppress(FileNotFoundError):
        return Credential.from_exports(path.read_text(encoding="ascii"))
    credential = new_credential()
    temporary = path.with_name(path.name + ".new")
    temporary.unlink(missing_ok=True)
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(credential.assignments())
        file.flush()
        os.fsync(descriptor)
    temporary.replace(path)
    return credential


def run(settings: DatabaseSettings, work: Callable[[Operators], Awaitable[T]]) -> T:
    """Run the work in an event loop of its own."""

    async def with_database() -> T:
        database = Database(settings)
        await database.connect()
        try:
            return await work(Operators(database))
        finally:
            await database.close()

    return asyncio.run(with_database())


def find(data_dir: Path | None) -> DatabaseSettings:
    """Return the database of a running `packetboat up`, or the environment's.

    Raises ValueError, KeyError or OSError.
    """
    if data_dir is None:
        return DatabaseSettings.from_environment()
    state = msgspec.json.decode((data_dir / "state.json").read_bytes(), type=State)
    if state.ports is None:
        raise ValueError(f"{data_dir} was never started")
    postgres = EmbeddedPostgres(data_dir / "postgres", port=state.ports.postgres)
    return DatabaseSettings(url=postgres.url)
