"""Clients of the SDK that ask for their own tokens, against a real installation."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator

import pytest
from packetboat import (
    AsyncClient,
    Client,
    ClientCredentials,
    NotAuthorized,
    Options,
    TokenFile,
)
from packetboat.models import OAuthClient

from tests.e2e.installation import Installation


@pytest.fixture
def owner(running: Installation) -> Iterator[Client]:
    with Client(running.url, running.token) as client:
        yield client


@pytest.fixture
def robot(owner: Client) -> Iterator[OAuthClient]:
    """A client that may do nothing but ask who it is."""
    made = owner.clients.create(f"robot-{uuid.uuid4().hex[:8]}")
    yield made
    owner.clients.delete(made.name)


def options(running: Installation, robot: OAuthClient, secret: str | None = None) -> Options:
    credentials = ClientCredentials(robot.client_id, secret or str(robot.client_secret))
    return Options(urls=("http://127.0.0.1:1", running.url), credentials=credentials)


def test_a_client_asks_for_its_token_and_for_another_when_that_is_revoked(
    running: Installation, owner: Client, robot: OAuthClient
) -> None:
    with Client(options=options(running, robot)) as client:
        first = client.whoami()
        assert first.subject == f"client:{robot.name}"
        owner.clients.revoke_tokens(robot.name)
        assert client.whoami().subject == first.subject


async def test_many_tasks_at_once_share_one_token(
    running: Installation, robot: OAuthClient
) -> None:
    async with AsyncClient.from_options(options(running, robot)) as client:
        answers = await asyncio.gather(*(client.whoami() for _ in range(50)))
    assert {answer.expires_at for answer in answers} == {answers[0].expires_at}


def test_a_wrong_secret_is_not_authorized(running: Installation, robot: OAuthClient) -> None:
    client = Client(options=options(running, robot, secret="pbs_wrong"))
    with client, pytest.raises(NotAuthorized, match="no access token"):
        client.whoami()


def test_a_token_file(running: Installation, tmp_path: object) -> None:
    file = f"{tmp_path}/token"
    with open(file, "w", encoding="utf-8") as out:
        out.write(running.token)
    with Client(running.url, credentials=TokenFile(file)) as client:
        assert client.whoami().subject == "dev"
