from __future__ import annotations

import packetboat
import pytest
from packetboat import (
    ApiError,
    AsyncClient,
    Client,
    Conflict,
    ConnectionFailed,
    InvalidRequest,
    NotAuthorized,
    NotDone,
    NotFound,
    Outgoing,
    Overloaded,
    PacketboatError,
    QuotaExceeded,
    Receipt,
    ServerError,
    Unavailable,
    UnknownOutcome,
)
from packetboat.calls import failure
from packetboat.transport import AsyncHttpxTransport, HttpxTransport, Request, Response
from packetboat.tries import Retries

from tests.unit.sdk.sdk_support import RECEIPT, AsyncScript, Script, ok, problem


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, InvalidRequest),
        (401, NotAuthorized),
        (403, NotAuthorized),
        (404, NotFound),
        (409, Conflict),
        (412, Conflict),
        (413, InvalidRequest),
        (422, InvalidRequest),
        (429, Overloaded),
        (431, InvalidRequest),
        (503, Unavailable),
        (507, Unavailable),
    ],
)
def test_each_status_has_its_error(status: int, kind: type[ApiError]) -> None:
    client = Client(transport=Script(problem(status, "some-slug")), retry_for_s=0)
    with pytest.raises(kind, match="A detail") as caught:
        client.topics.get("t")
    assert type(caught.value) is kind
    assert isinstance(caught.value, NotDone)
    assert caught.value.slug == "some-slug"
    assert caught.value.errors == (("name", "is wrong"),)


def test_unknown_is_neither_done_nor_not_done() -> None:
    client = Client(transport=Script(problem(504, "outcome-unknown")), retry_for_s=0)
    with pytest.raises(UnknownOutcome) as caught:
        client.publish_batch("t", [b""])
    assert not isinstance(caught.value, NotDone)
    assert caught.value.problem is not None


@pytest.mark.parametrize(
    "response",
    [
        Response(500, {}, b"<html>oops</html>"),
        Response(500, {}, b""),
        Response(200, {}, b"not json"),
        Response(200, {}, b"{}"),
    ],
)
def test_what_is_no_answer_of_ours_is_a_server_error(response: Response) -> None:
    with pytest.raises(ServerError):
        Client(transport=Script(response), retry_for_s=0).topics.get("t")


def test_what_did_not_take_effect_is_sent_again() -> None:
    script = Script(
        problem(503, "x"),
        ConnectionFailed("refused"),
        problem(429, "x"),
        ok({"results": [RECEIPT]}),
    )
    (receipt,) = Client(transport=script).publish_batch("orders", [b"x"])
    assert isinstance(receipt, Receipt)
    assert len(script.requests) == 4


async def test_also_under_asyncio() -> None:
    transport = AsyncScript(problem(503, "x"), ok({"results": [RECEIPT]}))
    async with AsyncClient(transport=transport) as client:
        (receipt,) = await client.publish_batch("orders", [b"x"])
        assert isinstance(receipt, Receipt)


def test_an_unknown_early_publish_is_not_sent_again_but_an_ack_is() -> None:
    script = Script(UnknownOutcome("cut"), UnknownOutcome("cut"), ok({"acked": 1, "results": []}))
    client = Client(transport=script)
    with pytest.raises(UnknownOutcome):
        client.publish_early("orders", Outgoing(data=b"x"))
    assert client.ack("workers", "a").count == 1


def test_refusals_of_the_request_itself_are_not_sent_again() -> None:
    script = Script(problem(422, "x"))
    with pytest.raises(InvalidRequest):
        Client(transport=script).publish_batch("orders", [b"x"])


@pytest.mark.parametrize("slug", ["too-many-changes", "work-limited", "rate-limited"])
def test_what_a_tenant_does_too_much_of_is_sent_again_after_the_servers_pause(slug: str) -> None:
    refused = problem(429, slug, {"retry-after": "2"})
    with pytest.raises(Overloaded) as caught:
        Client(transport=Script(refused), retry_for_s=0).topics.delete("t")
    assert caught.value.slug == slug
    pause_s = Retries(10.0, safe=False, started_s=0.0).pause_s(caught.value, 0.0)
    assert pause_s is not None
    assert 2.0 <= pause_s <= 2.05


def test_a_quota_has_an_error_of_its_own_and_is_not_tried_again() -> None:
    body = b'{"type": "https://x/quota-exceeded", "status": 403, "quota": "topics", "limit": 5}'
    error = failure(Response(403, {}, body))
    assert isinstance(error, QuotaExceeded)
    assert isinstance(error, NotAuthorized)
    assert error.problem.members == {"quota": "topics", "limit": 5}
    assert Retries(10.0, safe=True, started_s=0.0).pause_s(error, 0.0) is None


def test_retries_keep_the_servers_pause_and_the_total_time() -> None:
    retries = Retries(10.0, safe=False, started_s=100.0)
    response = problem(503, "x", {"retry-after": "3"})
    with pytest.raises(Unavailable) as caught:
        Client(transport=Script(response), retry_for_s=0).publish_batch("t", [b""])
    assert caught.value.retry_after_s == 3.0
    pause_s = retries.pause_s(caught.value, 100.0)
    assert pause_s is not None
    assert 3.0 <= pause_s <= 3.05
    assert retries.pause_s(caught.value, 107.5) is None


@pytest.mark.parametrize("error", [NotFound, Conflict, InvalidRequest, NotAuthorized])
def test_only_what_may_fare_better_is_retried(error: type[ApiError]) -> None:
    raised = error(packetboat.Problem(status=404))
    assert Retries(10.0, safe=True, started_s=0.0).pause_s(raised, 0.0) is None


def test_a_server_that_is_not_there_is_not_done() -> None:
    transport = HttpxTransport("http://127.0.0.1:9")
    with pytest.raises(ConnectionFailed):
        transport.send(Request("GET", "/"))
    transport.close()


async def test_a_server_that_is_not_there_is_not_done_under_asyncio() -> None:
    transport = AsyncHttpxTransport("http://127.0.0.1:9")
    with pytest.raises(ConnectionFailed):
        await transport.send(Request("GET", "/"))
    await transport.close()


def test_everything_exported_exists_and_is_documented() -> None:
    for name in packetboat.__all__:
        thing = getattr(packetboat, name)
        assert thing.__doc__, name
        if issubclass(thing, Exception):
            assert issubclass(thing, PacketboatError)


def test_a_problem_keeps_what_else_was_said() -> None:
    body = b'{"type": "https://x/held", "status": 409, "holder": "w", "n": [1]}'
    error = failure(Response(409, {}, body))
    assert isinstance(error, Conflict)
    assert error.problem.members == {"holder": "w", "n": [1]}


def test_a_token_endpoint_says_it_in_its_own_way() -> None:
    body = b'{"error":"invalid_client","error_description":"No such client."}'
    client = Client(transport=Script(Response(401, {}, body)), retry_for_s=0)
    with pytest.raises(NotAuthorized, match="401 invalid_client: No such client"):
        client.tokens.get("id", "secret")
