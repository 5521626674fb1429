"""Jobs over HTTP, as a worker and a client that waits for a result see them."""

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


def slug(answer: Any) -> str:
    return str(answer["type"].rpartition("/")[2])


def test_a_put_makes_a_job_once_and_never_changes_it(api: Api) -> None:
    name = f"put-{secrets.token_hex(4)}"
    body = {"map": "count", "labels": {"a": "b"}, "retry": {"min_backoff_seconds": 2}}
    made = api.ask("PUT", f"/jobs/{name}", 201, json=body)
    assert api.ask("PUT", f"/jobs/{name}", 200, json=body | {"name": name}) == made
    assert slug(api.ask("PUT", f"/jobs/{name}", 409, json=body | {"priority": 1})) == "job-exists"
    assert slug(api.post("/jobs", 409, name=name, map="count")) == "job-exists"
    old = {"If-Match": '"1"'}
    assert slug(api.ask("PUT", f"/jobs/{name}", 412, json=body, headers=old))
    assert slug(api.ask("PUT", f"/jobs/{name}-2", 412, json=body, headers=old))
    assert slug(api.ask("DELETE", f"/jobs/{name}", 409)) == "job-live"
    api.ask("DELETE", f"/jobs/{name}?force=true", 412, headers=old)
    api.ask("DELETE", f"/jobs/{name}?force=true", 204)
    api.ask("GET", f"/jobs/{name}", 404)


def test_the_etag_of_a_job_goes_with_its_state(api: Api) -> None:
    name = api.job(1, seal=False)
    answer = api.http.get(f"{api.url}/jobs/{name}", timeout=30)
    tag = {"If-Match": answer.headers["ETag"]}
    api.post(f"/jobs/{name}:seal", tasks=1)
    api.ask("DELETE", f"/jobs/{name}?force=true", 412, headers=tag)


def test_refusals_name_the_field_and_the_limit(api: Api) -> None:
    name = api.job(2)
    add = f"/jobs/{name}/tasks"
    assert slug(api.post(add, 409, first_index=2, inputs=[1])) == "job-sealed"
    assert slug(api.post(f"/jobs/{name}:seal", 409, tasks=1)) == "job-sealed"
    other = api.job(1, seal=False)
    different = api.post(f"/jobs/{other}/tasks", 409, first_index=0, inputs=["x"])
    assert (slug(different), different["index"]) == ("task-differs", 0)
    assert slug(api.post(f"/jobs/{other}:seal", 409, tasks=3)) == "tasks-missing"
    long = api.post(f"/jobs/{other}/tasks", 422, first_index=1, inputs=[1, "x" * 65_536])
    assert long["errors"] == [{"field": "inputs[1]", "detail": "at most 65536 bytes of JSON"}]
    many = api.post(f"/jobs/{other}/tasks", 422, first_index=1, inputs=[1] * 1001)
    assert many["errors"] == [{"field": "inputs", "detail": "1 to 1000 items"}]
    far = api.post(f"/jobs/{other}/tasks", 422, first_index=99_999, inputs=[1, 2])
    assert far["errors"][0]["field"] == "first_index"
    (task,) = api.claim(other)
    huge = [{"lease_id": task["lease_id"], "output": "x" * 262_144}]
    refused = api.post("/tasks:complete", 422, tasks=huge)
    assert refused["errors"][0]["field"] == "tasks[0].output"
    assert api.ask("GET", "/jobs?state=nonsense", 400)["errors"][0]["field"] == "state"
    assert api.ask("GET", f"/jobs/{name}?wait_seconds=61", 400)["errors"][0]["field"]
    names = [job["name"] for job in api.ask("GET", "/jobs?state=open&page_size=1000")["jobs"]]
    assert other in names
    assert name not in names


def test_payloads_come_back_byte_for_byte(api: Api) -> None:
    name = api.job(0, seal=False)
    exact = '{"b": 1.0, "a":[123456789012345678901234567890, "\\u0000ü"]}'
    body = f'{{"first_index": 0, "inputs": [{exact}]}}'.encode()
    api.ask("POST", f"/jobs/{name}/tasks", 200, data=body)
    answer = api.http.post(f"{api.url}/pools/{name}:claim", json={"kinds": ["count"]}, timeout=30)
    assert exact in answer.text
    lease = answer.json()["tasks"][0]["lease_id"]
    done = f'{{"tasks": [{{"output": {exact}, "lease_id": "{lease}"}}]}}'.encode()
    api.ask("POST", "/tasks:complete", 200, data=done)
    assert exact in api.http.get(f"{api.url}/jobs/{name}/outputs", timeout=30).text


def test_a_worker_that_hangs_up_gets_no_task(api: Api) -> None:
    name = api.job(0, seal=False)
    with pytest.raises(requests.exceptions.Timeout):
        api.http.post(
            f"{api.url}/pools/{name}:claim",
            json={"kinds": ["count"], "wait_seconds": 60},
            timeout=0.5,
        )
    api.post(f"/jobs/{name}/tasks", first_index=0, inputs=[1])
    (task,) = api.claim(name, wait_seconds=WAIT_S)
    assert task["attempt"] == 1


def test_who_waits_for_the_end_hears_of_it(api: Api) -> None:
    name = api.job(1)
    (task,) = api.claim(name)
    seen: list[Any] = []
    waiting = threading.Thread(target=lambda: seen.append(api.get(name, wait_seconds=WAIT_S)))
    waiting.start()
    other = requests.Session()
    other.headers.update(api.http.headers)
    done = {"tasks": [{"lease_id": task["lease_id"], "output": 1}]}
    assert other.post(f"{api.url}/tasks:complete", json=done, timeout=30).json()["done"] == 1
    waiting.join(WAIT_S)
    assert seen[0]["state"] == "succeeded"


def test_pools_are_limited_and_counted(api: Api) -> None:
    name = api.job(5)
    api.ask("PUT", f"/pools/{name}", 201, json={"max_running": 2})
    tasks = api.claim(name)
    assert len(tasks) == 2
    pool = api.ask("GET", f"/pools/{name}")
    assert pool == {"name": name, "max_running": 2, "running": 2, "waiting": 3}
    assert pool in api.ask("GET", "/pools?page_size=1000")["pools"]
    api.post("/tasks:release", lease_ids=[tasks[0]["lease_id"]])
    (again,) = api.claim(name, wait_seconds=WAIT_S)
    assert again["attempt"] == 1
    api.ask("DELETE", f"/pools/{name}", 204)
    assert api.ask("GET", f"/pools/{name}")["max_running"] is None
    api.post(f"/jobs/{name}:cancel")
    api.ask("GET", f"/pools/{name}", 404)
