"""Locks over HTTP, as holders and waiters use them."""

from __future__ import annotations

import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
import requests

from tests.e2e.installation import Installation


class Locks:
    def __init__(self, running: Installation) -> None:
        self.http = running.session()
        self.base = running.url + "/locks"
        self.name = f"lock-{uuid.uuid4().hex[:8]}"

    def post(self, verb: str, body: object = None, **options: float) -> requests.Response:
        return self.http.post(f"{self.base}/{self.name}:{verb}", json=body or {}, **options)

    def acquired(self, **body: object) -> dict[str, object]:
        answer = self.post("acquire", body)
        assert answer.status_code == 200, answer.text
        found: dict[str, object] = answer.json()
        return found

    def state(self) -> dict[str, object]:
        found: dict[str, object] = self.http.get(f"{self.base}/{self.name}").json()
        return found

    def until_waiting(self, count: int) -> None:
        deadline_s = time.monotonic() + 10
        while self.state()["waiting"] != count:
            assert time.monotonic() < deadline_s
            time.sleep(0.02)


@pytest.fixture
def locks(running: Installation) -> Locks:
    return Locks(running)


def test_the_life_of_a_lock(locks: Locks) -> None:
    assert locks.http.get(f"{locks.base}/{locks.name}").status_code == 404
    mine = locks.acquired(ttl_seconds=20, holder="ann", labels={"job": "nightly"})
    assert mine["holder"] == "ann"
    assert 15 < float(str(mine["expires_in_seconds"])) < 20
    refused = locks.post("acquire", {"holder": "bob"})
    assert refused.status_code == 409
    assert refused.json()["type"].endswith("/lock-held")
    assert refused.json()["holder"] == "ann"
    assert 15 <= int(refused.headers["Retry-After"]) <= 20
    renewed = locks.post("renew", {"lock_id": mine["lock_id"], "ttl_seconds": 60}).json()
    assert renewed["fencing_token"] == mine["fencing_token"]
    assert renewed["labels"] == {"job": "nightly"}
    assert renewed["expires_in_seconds"] > 50
    state = locks.state()
    assert (state["held"], state["holder"]) == (True, "ann")
    assert "lock_id" not in state
    token = {"fencing_token": mine["fencing_token"]}
    assert locks.post("verify", token).json()["current"] is True
    for _ in range(2):
        assert locks.post("release", {"lock_id": mine["lock_id"]}).status_code == 204
    assert locks.post("verify", token).json()["current"] is False
    assert locks.post("renew", {"lock_id": mine["lock_id"]}).json()["type"].endswith("/lock-lost")
    assert locks.state()["held"] is False
    assert locks.acquired()["fencing_token"] == int(str(mine["fencing_token"])) + 1


def test_a_deleted_lock_never_gives_a_token_again(locks: Locks) -> None:
    first = locks.acquired()
    assert locks.http.delete(f"{locks.base}/{locks.name}").status_code == 204
    assert locks.http.delete(f"{locks.base}/{locks.name}").status_code == 404
    second = locks.acquired()
    assert int(str(second["fencing_token"])) > int(str(first["fencing_token"]))
    assert locks.post("renew", {"lock_id": first["lock_id"]}).status_code == 409


def test_one_request_sent_twice_is_one_holding(locks: Locks) -> None:
    once, twice = (locks.acquired(request_id="r-1") for _ in range(2))
    assert (once["lock_id"], once["fencing_token"]) == (twice["lock_id"], twice["fencing_token"])
    assert locks.post("acquire", {"request_id": "r-2"}).status_code == 409


def test_who_waits_gets_it_when_it_is_released(locks: Locks) -> None:
    mine = locks.acquired(ttl_seconds=600)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(locks.post, "acquire", {"wait_seconds": 30, "holder": "next"})
        locks.until_waiting(1)
        locks.post("release", {"lock_id": mine["lock_id"]})
        got = waiting.result().json()
    assert got["holder"] == "next"
    assert got["fencing_token"] == int(str(mine["fencing_token"])) + 1


def test_who_hangs_up_while_it_waits_gets_nothing(locks: Locks) -> None:
    mine = locks.acquired(ttl_seconds=600)
    with pytest.raises(requests.ReadTimeout):
        locks.post("acquire", {"wait_seconds": 60, "holder": "gone"}, timeout=1.0)
    locks.until_waiting(0)
    locks.post("release", {"lock_id": mine["lock_id"]})
    assert locks.state()["held"] is False


def test_many_threads_and_one_counter(locks: Locks) -> None:
    """Each reads, pauses and writes: only one at a time, and the tokens say in which order."""
    seen: list[int] = []
    inside = threading.Lock()

    def work(_: int) -> None:
        mine = locks.acquired(wait_seconds=60, ttl_seconds=60)
        assert inside.acquire(blocking=False)
        seen.append(int(str(mine["fencing_token"])))
        time.sleep(0.002)
        inside.release()
        assert locks.post("release", {"lock_id": mine["lock_id"]}).status_code == 204

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(work, range(48)))
    assert seen == sorted(set(seen))


@pytest.mark.parametrize(
    ("verb", "body", "field"),
    [
        ("acquire", {"ttl_seconds": 0.5}, "ttl_seconds"),
        ("acquire", {"ttl_seconds": 3601}, "ttl_seconds"),
        ("acquire", {"wait_seconds": 61}, "wait_seconds"),
        ("acquire", {"holder": ""}, "holder"),
        ("acquire", {"request_id": "a\u0000b"}, "request_id"),
        ("acquire", {"labels": {"-": "x"}}, "labels"),
        ("renew", {}, "lock_id"),
        ("release", {"lock_id": "zz"}, "lock_id"),
        ("verify", {"fencing_token": -1}, "fencing_token"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(
    locks: Locks, verb: str, body: dict[str, object], field: str
) -> None:
    answer = locks.post(verb, body)
    assert answer.status_code == 422
    assert [error["field"] for error in answer.json()["errors"]] == [field]


def test_locks_are_listed_by_name(locks: Locks) -> None:
    names = [f"{locks.name}-{number}" for number in range(3)]
    for name in names:
        locks.http.post(f"{locks.base}/{name}:acquire", json={}).raise_for_status()
    found: list[str] = []
    query: dict[str, str | int] = {"page_size": 2}
    while True:
        page = locks.http.get(locks.base, params=query).json()
        found += [each["name"] for each in page["locks"]]
        if page["next_page_token"] is None:
            break
        query["page_token"] = page["next_page_token"]
    assert [name for name in found if name in names] == names
    refused = locks.http.post(f"{locks.base}/-bad:acquire", json={})
    assert refused.json()["errors"][0]["field"] == "name"
