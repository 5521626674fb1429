"""Publishing over real sockets: what plain HTTP clients do, and do wrong."""

from __future__ import annotations

import json
import socket
import threading
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from urllib.parse import quote, urlsplit

import msgspec
import pytest
import requests
from cloudevents.core.bindings import http as ce_http
from cloudevents.core.formats.json import JSONFormat
from cloudevents.core.v1.event import CloudEvent

from tests.e2e.installation import Installation


@pytest.fixture
def http(running: Installation) -> Iterator[requests.Session]:
    with running.session() as session:
        yield session


@pytest.fixture
def messages_url(running: Installation, http: requests.Session) -> Iterator[str]:
    topic = f"{running.url}/topics/publish-{uuid.uuid4().hex[:8]}"
    name = topic.rpartition("/")[2]
    http.post(f"{running.url}/topics", json={"name": name, "partitions": 2}).raise_for_status()
    yield f"{topic}/messages"
    http.delete(topic).raise_for_status()


def test_a_key_gets_dense_offsets_in_one_partition(
    http: requests.Session, messages_url: str
) -> None:
    answers = [
        http.post(messages_url, data=b"x", headers={"Packetboat-Key": "k"}).json()
        for _ in range(10)
    ]
    assert len({answer["partition"] for answer in answers}) == 1
    assert [answer["offset"] for answer in answers] == list(range(10))
    times = [answer["publish_time"] for answer in answers]
    assert times == sorted(times)


def test_a_chunked_body_is_one_message(http: requests.Session, messages_url: str) -> None:
    answer = http.post(messages_url, data=iter([b"one ", b"", b"two"]))
    assert answer.status_code == 201


@pytest.mark.parametrize(
    ("content_type", "body"),
    [
        ("application/json", json.dumps({"messages": [{"data": 1}, {"data": "b"}]}).encode()),
        ("application/x-ndjson", b'{"data":1}\n{"data":"b"}\n'),
        ("application/msgpack", msgspec.msgpack.encode({"messages": [{"data": b"1"}] * 2})),
    ],
)
def test_batches(http: requests.Session, messages_url: str, content_type: str, body: bytes) -> None:
    answer = http.post(f"{messages_url}:batch", data=body, headers={"Content-Type": content_type})
    assert answer.status_code == 200
    assert [result["duplicate"] for result in answer.json()["results"]] == [False, False]


def test_a_bad_line_does_not_hold_up_the_others(http: requests.Session, messages_url: str) -> None:
    body = b'{"data":1}\n{"data":\n{"data":3}\n'
    headers = {"Content-Type": "application/x-ndjson"}
    results = http.post(f"{messages_url}:batch", data=body, headers=headers).json()["results"]
    assert ["message_id" in result for result in results] == [True, False, True]
    assert results[1]["status"] == 400


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Packetboat-Delay": "soon"}, 422),
        ({"Packetboat-Deliver-At": "2030-01-01"}, 422),
        ({"Packetboat-TTL": "0"}, 422),
        ({"Packetboat-Priority": "high"}, 422),
        ({"Packetboat-Unknown": "x"}, 422),
        ({"Content-Encoding": "gzip"}, 415),
        ({f"Packetboat-Attr-A{n}": "v" * 1000 for n in range(50)}, 431),
    ],
)
def test_wrong_headers_are_refused_and_the_connection_lives(
    http: requests.Session, messages_url: str, headers: dict[str, str], status: int
) -> None:
    answer = http.post(messages_url, data=b"x" * 100_000, headers=headers)
    assert answer.status_code == status
    assert answer.headers["Content-Type"] == "application/problem+json"
    assert http.post(messages_url, data=b"x").status_code == 201


def test_a_client_that_leaves_mid_body_publishes_nothing(
    running: Installation, http: requests.Session, messages_url: str
) -> None:
    at = urlsplit(messages_url)
    with socket.create_connection((at.hostname or "", at.port or 0)) as half:
        head = (
            f"POST {at.path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {running.token}\r\n"
            "Packetboat-Key: k\r\nContent-Length: 1000\r\n\r\n"
        )
        half.sendall(head.encode() + b"x" * 500)
    answer = http.post(messages_url, data=b"x", headers={"Packetboat-Key": "k"}).json()
    assert answer["offset"] == 0


EVENT = CloudEvent(
    {
        "specversion": "1.0",
        "id": "17",
        "source": "/shop",
        "type": "made",
        "time": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        "subject": "order 17",
        "datacontenttype": "application/json",
        "region": "eu",
    },
    {"total": 12.5},
)


def test_an_event_of_each_mode_is_pulled_as_the_same(
    running: Installation, http: requests.Session, messages_url: str
) -> None:
    topic, reader = messages_url.removesuffix("/messages"), f"events-{uuid.uuid4().hex[:8]}"
    made = {
        "name": reader,
        "start": "earliest",
        "filter": 'attributes["ce-region"] == "eu" && data.total > 12.0',
    }
    http.post(f"{topic}/subscriptions", json=made).raise_for_status()
    binary = ce_http.to_binary(EVENT, JSONFormat())
    whole = ce_http.to_structured(EVENT, JSONFormat())
    many = {"Content-Type": "application/cloudevents-batch+json"}
    sent = [
        http.post(messages_url, data=binary.body, headers=binary.headers),
        http.post(messages_url, data=whole.body, headers=whole.headers),
        http.post(messages_url, data=b"[%b]" % whole.body, headers=many),
        http.post(f"{messages_url}:batch", data=b"[%b]" % whole.body, headers=many),
    ]
    assert [answer.status_code for answer in sent] == [201, 201, 200, 200]
    asked = {"wait_seconds": 10, "max_messages": 4, "min_messages": 4}
    pulled = http.get(f"{running.url}/subscriptions/{reader}/messages", params=asked).json()
    for message in pulled["messages"]:
        headers = {name: quote(value) for name, value in message["attributes"].items()}
        headers["content-type"] = message["content_type"]
        body = json.dumps(message["data"]).encode()
        back = ce_http.from_http(ce_http.HTTPMessage(headers=headers, body=body), JSONFormat())
        assert back.get_attributes() == EVENT.get_attributes()
        assert back.get_data() == EVENT.get_data()
    assert len(pulled["messages"]) == 4
    reading = f"{running.url}/subscriptions/{reader}"
    http.delete(reading, params={"force": "true"}).raise_for_status()
    wrong = http.post(messages_url, data=b"x", headers={"ce-id": "1", "ce-specversion": "1.0"})
    assert (wrong.status_code, wrong.json()["errors"][0]["field"]) == (422, "ce-source")


def test_many_clients_at_once_get_each_their_own_offset(
    running: Installation, messages_url: str
) -> None:
    places: list[tuple[int, int]] = []

    def work() -> None:
        with running.session() as session:
            for _ in range(25):
                answer = session.post(messages_url, data=b"x" * 1000).json()
                places.append((answer["partition"], answer["offset"]))

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(places)) == 200
    for partition in {partition for partition, _ in places}:
        offsets = sorted(offset for number, offset in places if number == partition)
        assert offsets == list(range(len(offsets)))
