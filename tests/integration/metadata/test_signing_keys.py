"""Signing keys in a real Postgres: many processes at once, restarts, seal keys that change."""

from __future__ import annotations

import asyncio
import sys
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from auth.access_tokens import AccessTokens
from auth.permissions import GRANTABLE
from auth.signing_keys import KeyPolicy, NoSigningKey, SigningKeys, make_key
from edge.sealing import Sealer
from metadata.database import Connection, Database
from metadata.errors import MetadataError
from metadata.feed import ChangeFeed
from metadata.tenancy.signing_keys import KeyRotation, SigningKeyRepository

ROOT = Path(__file__).parents[3]
OLD, NEW = "a:" + "11" * 32, "b:" + "22" * 32
PROCESSES = 6
TOLD_WITHIN_S = 5.0


def keys_of(
    database: Database, seal_keys: str = OLD, policy: KeyPolicy | None = None
) -> SigningKeys:
    repository = SigningKeyRepository(database)
    return SigningKeys(repository, policy or KeyPolicy(), Sealer.from_text(seal_keys))


class Rotating:
    """One process."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @classmethod
    async def start(cls, url: str, stack: AsyncExitStack) -> Rotating:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.integration.metadata.rotating", url, OLD),
            cwd=ROOT,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        self = cls(process)
        stack.push_async_callback(self.stop)
        return self

    async def answer(self) -> str:
        """Return the next answer of the process; skip the lines of its log."""
        assert self._process.stdout is not None
        async with asyncio.timeout(60):
            while line := (await self._process.stdout.readline()).decode():
                if line.startswith("> "):
                    return line[2:].strip()
        raise AssertionError("the process has ended")

    def tell(self, word: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(word.encode() + b"\n")

    async def stop(self) -> None:
        self._process.kill()
        await self._process.wait()


async def test_many_processes_that_rotate_at_once_make_one_key(
    database: Database, database_url: str
) -> None:
    async with AsyncExitStack() as stack:
        processes = [await Rotating.start(database_url, stack) for _ in range(PROCESSES)]
        assert [await process.answer() for process in processes] == ["ready"] * PROCESSES
        for process in processes:
            process.tell("rotate")
        kids = {await process.answer() for process in processes}
        assert len(kids) == 1
        ring = await SigningKeyRepository(database).ring()
        assert [key.kid for key in ring.keys] == list(kids)

        # And when each of them wants another at once: one after the other, one at a time.
        for process in processes:
            process.tell("replace")
        for process in processes:
            await process.answer()
        ring = await SigningKeyRepository(database).ring()
        assert len(ring.keys) == 1 + PROCESSES
        assert len([k for k in ring.keys if k.signs_from <= ring.now < k.signs_until]) == 1


async def test_postgres_itself_refuses_a_second_key_for_a_moment(database: Database) -> None:
    """Postgres refuses it, whatever a later version of Packetboat plans."""
    keys = keys_of(database)
    await keys.rotate()
    repository = SigningKeyRepository(database)
    ring = await repository.ring()
    second = make_key(KeyPolicy(), Sealer.from_text(OLD), ring.now)
    second = replace(
        second,
        signs_until=ring.now + timedelta(seconds=1),
        verifies_until=ring.now + timedelta(hours=1),
    )
    with pytest.raises(MetadataError):
        await repository.turn(lambda _: KeyRotation(added=second))
    assert (await repository.ring()).keys == ring.keys


async def test_a_restart_finds_the_key_and_the_tokens_it_signed(database: Database) -> None:
    before = keys_of(database)
    await before.rotate()
    token, said = tokens_of(before).issue(
        tenant_id=b"t" * 16,
        subject="client:a",
        client_id="pbc_a",
        scope=GRANTABLE,
    )
    after = keys_of(database)
    assert await tokens_of(after).read(token.encode()) == said
    await after.rotate()
    assert after.signer().kid == before.signer().kid


async def test_a_rotated_seal_key(database: Database) -> None:
    await keys_of(database, OLD).rotate()
    with pytest.raises(NoSigningKey):
        await signer_of(database, NEW)
    first = await signer_of(database, f"{NEW},{OLD}")
    # Everything that the old key sealed has been sealed anew, so the old key may go.
    assert await signer_of(database, NEW) == first
    with pytest.raises(NoSigningKey):
        await signer_of(database, OLD)
    assert len((await SigningKeyRepository(database).ring()).keys) == 1


async def test_no_private_part_is_in_the_clear(database: Database) -> None:
    keys = keys_of(database)
    await keys.rotate()
    secret = keys.signer().key.as_dict(private=True)["d"]
    assert isinstance(secret, str)

    async def read(connection: Connection) -> str:
        row = await connection.fetchval("SELECT signing_keys::text FROM signing_keys")
        sealed = await connection.fetchval("SELECT private_sealed FROM signing_keys")
        return str(row) + sealed.decode("latin-1")

    kept = await database.statement(read, writes=False)
    assert keys.signer().kid in kept
    assert secret not in kept


async def test_a_key_that_leaked_is_forgotten_by_all_who_follow_the_feed(
    database: Database,
) -> None:
    one, other = keys_of(database), keys_of(database)
    await one.rotate()
    feed = ChangeFeed(database)
    feed.add_listener(other.on_changes)
    await feed.start()
    try:
        await other.rotate()
        leaked = one.signer().kid
        assert await other.public(leaked) is not None
        await one.replace(forget=frozenset({leaked}))
        async with asyncio.timeout(TOLD_WITHIN_S):
            while await other.public(leaked) is not None:
                await feed.catch_up()
        assert other.signer().kid == one.signer().kid != leaked
    finally:
        await feed.close()


async def test_the_next_key_is_there_before_it_signs(database: Database) -> None:
    """A short rotation by the clock of Postgres publishes the next key before it signs."""
    policy = KeyPolicy(signs_for_s=2.0, published_before_s=1.5, tokens_last_s=60.0)
    keys = keys_of(database, OLD, policy)
    await keys.rotate()
    first = keys.signer().kid
    seen: list[list[str]] = []
    async with asyncio.timeout(30):
        while keys.signer().kid == first:
            await keys.rotate()
            seen.append([key["kid"] for key in keys.jwks()])
            await asyncio.sleep(0.05)
    assert keys.signer().kid in seen[-1]
    assert first in seen[-1]
    assert [first, keys.signer().kid] in [published[:2] for published in seen]


async def signer_of(database: Database, seal_keys: str) -> str:
    keys = keys_of(database, seal_keys)
    await keys.rotate()
    return keys.signer().kid


def tokens_of(keys: SigningKeys) -> AccessTokens:
    return AccessTokens(keys, issuer="https://p.example", audience="packetboat", lasts_s=600)
