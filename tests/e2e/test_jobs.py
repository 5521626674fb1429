"""Jobs over HTTP, as a worker and as whoever waits for a result sees them."""

from __future__ import annotations

import secrets
import threading
from typing import Any

import pytest
import requests

from tests.e2e.installation import Installation

WAIT_S = 60


class Api:
    """A session that knows where it is."""

    def __init__(self, running: Installation) -> None:
        self.http, self.url = running.session(), running.url

    def ask(self, method: str, path: str, status: int = 200, **more: Any) -> Any:
        answer = self.http.request(method, self.url + path, timeout=WAIT_S + 30, **more)
        assert answer.status_code == status, (method, path, answer.status_code, answer.text)
        return answer.json() if answer.content else None

    def post(self, path: str, status: int = 200, **body: Any) -> Any:
        return self.ask("POST", path, status, json=body)

    def job(self, tasks: int, *, seal: bool = True, **options: Any) -> str:
        name = f"job-{secrets.token_hex(4)}"
        self.post("/jobs", 201, **({"name": name, "map": "count", "pool": name} | options))
        if tasks:
            self.post(f"/jobs/{name}/tasks", first_index=0, inputs=list(range(tasks)))
        if seal:
            self.post(f"/jobs/{name}:seal", tasks=tasks)
        return name

    def claim(self, pool: str, **options: Any) -> list[dict[str, Any]]:
        body = {"kinds": ["count", "sum"], "max_tasks": 100} | options
        tasks: list[dict[str, Any]] = self.post(f"/pools/{pool}:claim", **body)["tasks"]
        return tasks

    def complete(self, *tasks: dict[str, Any], output: Any = "done") -> Any:
        done = [{"lease_id": task["lease_id"], "output": output} for task in tasks]
        return self.post("/tasks:complete", tasks=done)

    def get(self, name: str, **query: Any) -> Any:
        return self.ask("GET", f"/jobs/{name}", params=query)


@pytest.fixture(scope="module")
def api(running: Installation) -> Api:
    return Api(running)


def test_map_reduce_end_to_end(api: Api) -> None:
    name = api.job(5, reduce="sum")
    assert api.get(name)["state"] == "running"
    tasks = api.claim(name, worker="w1")
    for task in tasks:
        api.complete(task, output=task["input"] * 2)
    (reduce,) = api.claim(name, wait_seconds=WAIT_S)
    assert (reduce["phase"], reduce["inputs_total"], reduce["input"]) == ("reduce", 5, None)
    outputs = api.ask("GET", f"/jobs/{name}/outputs")["outputs"]
    api.complete(reduce, output=sum(each["output"] for each in outputs))
    job = api.get(name, wait_seconds=WAIT_S)
    assert (job["state"], job["result"], job["tasks"]["succeeded"]) == ("succeeded", 20, 5)


def test_a_claim_that_waits_gets_what_comes(api: Api) -> None:
    name = api.job(0, seal=False)
    got: list[Any] = []
    waiting = threading.Thread(target=lambda: got.extend(api.claim(name, wait_seconds=WAIT_S)))
    waiting.start()
    other = requests.Session()
    other.headers.update(api.http.headers)
    added = other.post(
        f"{api.url}/jobs/{name}/tasks", json={"first_index": 0, "inputs": [7]}, timeout=30
    )
    assert added.json() == {"total": 1}
    waiting.join(WAIT_S)
    assert [task["input"] for task in got] == [7]


def test_a_lease_that_ends_gives_the_task_to_another(api: Api) -> None:
    name = api.job(1)
    (lost,) = api.claim(name, lease_seconds=1)
    (again,) = api.claim(name, wait_seconds=WAIT_S)
    assert (again["index"], again["attempt"]) == (0, 2)
    (refused,) = api.complete(lost)["results"]
    assert (refused["status"], refused["type"].rpartition("/")[2]) == (409, "lease-lost")
    assert api.complete(again) == {"done": 1, "results": []}
    assert api.complete(again) == {"done": 1, "results": []}
    assert api.get(name, wait_seconds=WAIT_S)["tasks"]["succeeded"] == 1
