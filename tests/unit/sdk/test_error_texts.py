"""The text of an error says what to do: the field and the limit, the server, who named it, and how
often and how long it was tried. One warning tells of the first retry."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from random import Random

import msgspec
import pytest
from packetboat import (
    AsyncClient,
    Client,
    ConnectionFailed,
    InvalidRequest,
    NotDone,
    Options,
    PacketboatError,
    Problem,
    PublisherSettings,
)
from packetboat.errors import error_of
from packetboat.publisher.core import Core
from packetboat.publisher.pending import Pending, pending
from packetboat.settings import found

from tests.unit.sdk.sdk_support import Script, ok, problem

DOWN = "http://127.0.0.1:1"
"""Nobody listens there."""
QUICK = PublisherSettings(deadline_s=0.3)


def test_fields_and_limits_are_in_the_text() -> None:
    """The text was `422 invalid-request: The body does not fit.` for every mistake."""
    answer = problem(422, "invalid-request")
    with Client(transport=Script(answer)) as client, pytest.raises(InvalidRequest) as error:
        client.topics.create("t")
    assert str(error.value) == "422 invalid-request: A detail. (name: is wrong)"


def test_a_limit_that_the_detail_does_not_name_is_added() -> None:
    members = {"limit_bytes": 1024, "holder": "x"}
    said = Problem("https://x/too-large", status=413, detail="Too large.", members=members)
    assert str(error_of(said)) == "413 too-large: Too large. (limit_bytes: 1024)"


def test_of_many_fields_the_first_are_named() -> None:
    raw = {"status": 422, "detail": "No.", "errors": [{"field": str(n)} for n in range(9)]}
    text = str(error_of(msgspec.convert(raw | {"type": "x"}, Problem)))
    assert text.endswith("; and 4 more)")


NAMED = {
    "argument": (DOWN, {}, "the argument url"),
    "environment": (None, {"PACKETBOAT_URL": DOWN}, "PACKETBOAT_URL"),
}


@pytest.mark.parametrize("how", NAMED)
def test_the_server_and_who_named_it(how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    url, environment, source = NAMED[how]
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with (
        Client(url, "t", retry_for_s=0) as client,
        pytest.raises(ConnectionFailed) as error,
    ):
        client.topics.get("t")
    assert str(error.value).endswith(f"[{DOWN}, from {source}]")


def test_a_profile_and_the_default_are_named(tmp_path: Path) -> None:
    environment = {"XDG_CONFIG_HOME": str(tmp_path)}
    assert "neither the program, PACKETBOAT_URL nor a profile" in (
        found(environment=environment).server or ""
    )
    file = tmp_path / "packetboat" / "config.toml"
    file.parent.mkdir()
    file.write_text(f'current = "home"\n[profiles.home]\nurl = "{DOWN}"\n')
    server = found(environment=environment).server
    assert server == f"{DOWN}, from the profile 'home' of {file}"


def test_a_client_of_a_transport_of_its_own_names_no_server() -> None:
    with Client(transport=Script(problem(404, "topic-not-found"))) as client:
        assert client.options.server is None


def test_a_call_is_warned_of_once_and_its_error_says_how_often_it_was_tried(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with (
        caplog.at_level(logging.WARNING, "packetboat"),
        Client(DOWN, "t") as client,
        pytest.raises(ConnectionFailed, match=r"tried \d+ times in 0\.\d s\]$"),
    ):
        client.topics.get("t", timeout_s=0.4)
    (record,) = caplog.records
    assert DOWN in record.getMessage()
    assert record.getMessage().endswith("it is tried again for up to 0.4 s")


def test_the_next_outage_is_warned_of_again(caplog: pytest.LogCaptureFixture) -> None:
    down = problem(503, "unavailable")
    topics = ok({"topics": [], "next_page_token": None})
    script = Script(down, down, topics, down, topics)
    with caplog.at_level(logging.WARNING, "packetboat"), Client(transport=script) as client:
        client.topics.page()
        assert len(caplog.records) == 1
        client.topics.page()
    assert len(caplog.records) == 2


def test_a_publish_to_a_server_that_is_down_is_not_silent(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The publish was silent for 60 s: it logged nothing and named no host."""
    options = Options(urls=(DOWN,), publisher=QUICK)
    with caplog.at_level(logging.WARNING, "packetboat"), Client(options=options) as client:
        receipts = [client.publish("t", n) for n in range(3)]
        errors = [receipt.exception() for receipt in receipts]
    assert [type(error) for error in errors] == [ConnectionFailed] * 3
    for error in errors:
        assert f"[{DOWN}, from the program's options; tried " in str(error)
        assert isinstance(error, PacketboatError)
        assert error.tries >= 2
        assert 0.3 <= error.tried_s < 30
    (record,) = caplog.records
    assert DOWN in record.getMessage()
    assert record.getMessage().endswith("it is tried again for up to 0.3 s")


async def test_one_publish_may_have_a_timeout_of_its_own() -> None:
    async with AsyncClient(DOWN, "t") as client:
        with pytest.raises(ConnectionFailed) as error:
            async with asyncio.timeout(30):
                await client.publish("t", 1, timeout_s=0.2)
    assert error.value.tried_s < 30


@pytest.mark.parametrize("seconds", [0, -1])
def test_a_timeout_is_more_than_nothing(seconds: float) -> None:
    with Client(transport=Script()) as client, pytest.raises(ValueError, match="timeout_s"):
        client.publish("t", 1, timeout_s=seconds)


def core_of(*messages: Pending) -> Core:
    core = Core(PublisherSettings(), lambda: {"Packetboat-Producer": "0"}, Random(1))
    for message in messages:
        core.accept("t", message, 100.0)
    return core


def message(key: str | None = None, timeout_s: float | None = None) -> Pending:
    return pending(b"x", key, None, None, 0, None, None, None, None, None, None, timeout_s)


def test_a_message_that_waits_behind_others_ends_at_its_own_time() -> None:
    """Earlier messages are not affected; later ones of its key fail, too, to keep their order."""
    first, hasty, behind, other = message("k"), message("k", 1.0), message("k"), message("other")
    core = core_of(first, hasty, behind, other)
    core.expire(100.9)
    assert not core.ledger.take_settled()
    core.expire(101.1)
    settled = {id(each.message): each.outcome for each in core.ledger.take_settled()}
    assert settled.keys() == {id(hasty), id(behind)}
    assert type(settled[id(hasty)]) is NotDone
    assert str(settled[id(hasty)]) == "not sent within 1.1 s"
    assert "an earlier message of key 'k'" in str(settled[id(behind)])
