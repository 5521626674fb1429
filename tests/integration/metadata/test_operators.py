"""Operators in a real Postgres: made once, cut in between and made again, disabled."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace

import pytest

from gateway.commands import operator as operator_command
from gateway.operators import NotMade, Operators, credential_in, new_credential
from metadata.database import Connection, Database
from metadata.errors import NotFound
from metadata.settings import DatabaseSettings
from metadata.tenancy.audit import AuditFilter, AuditLog
from metadata.tenancy.clients import ClientRepository
from metadata.tenancy.credentials import matches
from metadata.tenancy.tenants import PLATFORM_ID


async def test_one_is_made_with_a_secret_that_only_its_owner_has(database: Database) -> None:
    operators, credential = Operators(database), new_credential()
    assert not await operators.any()
    made = await operators.create("ops", credential)
    assert await operators.any()
    assert made.tenant_id == PLATFORM_ID
    assert matches(made.secrets, credential.client_secret, made.created_at)
    found = await ClientRepository(database).by_client_id(credential.client_id)
    assert found == made

    async def rows(connection: Connection) -> str:
        return str(await connection.fetchval("SELECT clients::text FROM clients"))

    kept = await database.statement(rows, writes=False)
    assert credential.client_secret not in kept
    assert credential.client_secret.removeprefix("pbs_")[:8] in kept


async def test_one_that_runs_exports_and_no_more(database: Database) -> None:
    operators = Operators(database)
    made = await operators.create("runner", new_credential(), ["run_exports"])
    assert made.permissions == ("run_exports",)
    # A call that asks for a first operator makes one all the same.
    assert not await operators.any()
    await operators.set_state("runner", "disabled")
    again = await operators.set_state("runner", "active")
    assert again.permissions == ("run_exports",)
    with pytest.raises(NotMade, match="permissions"):
        await operators.create("other", new_credential(), ["administer"])
    assert len(await operators.all()) == 1


async def test_a_run_that_was_cut_after_its_file_goes_on_with_it(
    database: Database, tmp_path: Path
) -> None:
    path = tmp_path / "operator.env"
    credential_in(path)  # and then the process died
    credential = credential_in(path)
    made = await Operators(database).create("first", credential)
    # Cut before it could note that it was done: the next run does it again.
    assert await Operators(database).create("first", credential_in(path)) == made
    assert len(await Operators(database).all()) == 1


async def test_a_name_is_one_operators(database: Database) -> None:
    operators = Operators(database)
    await operators.create("ops", new_credential())
    with pytest.raises(NotMade, match="already"):
        await operators.create("ops", new_credential())


async def test_of_several_at_once_one_has_the_name(database: Database) -> None:
    tries = [Operators(database).create("first", new_credential()) for _ in range(4)]
    ended = await asyncio.gather(*tries, return_exceptions=True)
    assert len([one for one in ended if not isinstance(one, Exception)]) == 1
    assert all(isinstance(one, NotMade) for one in ended if isinstance(one, Exception))
    assert len(await Operators(database).all()) == 1


async def test_disabled_and_enabled(database: Database) -> None:
    operators = Operators(database)
    await operators.create("ops", new_credential())
    assert (await operators.set_state("ops", "disabled")).state == "disabled"
    assert not await operators.any()
    await operators.set_state("ops", "active")
    assert await operators.any()
    with pytest.raises(NotFound):
        await operators.set_state("nobody", "disabled")


async def test_what_a_command_did_is_in_the_audit(database: Database) -> None:
    operators = Operators(database)
    await operators.create("ops", new_credential())
    await operators.set_state("ops", "disabled")
    page = await AuditLog(database).page(PLATFORM_ID, AuditFilter(oldest_first=True))
    told = [(entry.actor, entry.action, entry.resource) for entry in page.items]
    assert told == [
        ("command", "packetboat operator create", "clients/ops"),
        ("command", "packetboat operator disabled", "clients/ops"),
    ]


@pytest.mark.parametrize("terminal", [True, False])
def test_a_migration_shows_the_first_operator_on_a_terminal_only(
    database_url: str,
    terminal: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(
        operator_command, "sys", SimpleNamespace(stdout=SimpleNamespace(isatty=lambda: terminal))
    )
    settings = DatabaseSettings(database_url)
    operator_command.first_of(settings)
    shown = capsys.readouterr()
    assert ("pbs_" in shown.out) is terminal
    assert ("operator create" in shown.err) is not terminal
    assert "pbs_" not in shown.err
    # And never again.
    operator_command.first_of(settings)
    assert "pbs_" not in capsys.readouterr().out
