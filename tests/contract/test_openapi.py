"""Requests made up from openapi.yaml, by the hundred: no undocumented answer, no 500.

Half of the paths name the topic and subscription that exist, so that handlers get past their 404.
Some sixty requests try the limits of an operation's schemas, one by one. They are the most work of
all tests, so a run of this file asks them of one operation in six, of others at each commit;
test_openapi_limits.py, a long test, and `make contract-test` ask them of all.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from functools import partial
from types import MappingProxyType, SimpleNamespace
from typing import Any, NamedTuple, cast

import msgspec
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis.checks import CHECKS

import openapi
from tests.contract.over_http2 import OverHttp2
from tests.e2e.installation import Installation
from tests.parts import OPERATIONS, Part, of_this_turn

EXISTING = {
    "topic": "contract",
    "name": "contract-reader",
    "tenant": "contract",
    "job": "contract-reader",
    "pool": "contract-reader",
    "run": 1,
}
LONGEST_WAIT_S = 0.05
TRIES, PAUSE_S = 5, 0.5
"""The most times that a request is sent which was refused with 503 and left nothing done."""
USED = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "response_headers_conformance",
    "unsupported_method",
    "negative_data_rejection",
)


def map_path_parameters(context: Any, path_parameters: Any) -> Any:
    if context.operation.method == "delete" or not path_parameters:
        return path_parameters
    return {
        name: EXISTING.get(name, value) if len(str(value)) % 2 else value
        for name, value in path_parameters.items()
    }


def map_query(context: Any, query: Any) -> Any:
    if context.operation.path.endswith(":stream"):
        return _short_stream(query or {})
    return _short(query)


def map_body(context: Any, body: Any) -> Any:
    return _short(body)


def _short(values: Any) -> Any:
    """Waiting for a minute finds nothing out."""
    if isinstance(values, dict) and _takes(values.get("wait_seconds"), 60):
        return values | {"wait_seconds": LONGEST_WAIT_S}
    return values


def _short_stream(query: Any) -> Any:
    """One that nobody ends would go on."""
    if isinstance(query, dict) and _takes(query.get("max_seconds", 60), 43_200):
        return query | {"max_seconds": LONGEST_WAIT_S}
    return query


def _takes(seconds: Any, most: int) -> bool:
    """Return whether a server would wait for these seconds, of which it accepts `most`."""
    if isinstance(seconds, str) and seconds.isdecimal():
        seconds = int(seconds)
    return isinstance(seconds, int | float) and LONGEST_WAIT_S < seconds <= most


@pytest.mark.parametrize("given", [43_200, "43199", "1", None])
def test_no_stream_goes_on_after_its_answer_is_known(given: object) -> None:
    """The values of a query are texts where limits are tried one by one."""
    query = {} if given is None else {"max_seconds": given}
    assert _short_stream(query) == {"max_seconds": LONGEST_WAIT_S}
    assert _short_stream({"max_seconds": "43201"}) == {"max_seconds": "43201"}


@schemathesis.serializer("application/x-ndjson")
def as_text(context: Any, value: Any) -> bytes:
    return str(value).encode()


@schemathesis.serializer("application/msgpack")
def as_msgpack(context: Any, value: Any) -> bytes:
    return msgspec.msgpack.encode({"messages": [{"data": str(value)}]})


def _refused_an_item(response: Any) -> bool:
    # HEAD is answered with the fields of GET and no body.
    if "application/json" not in response.headers.get("content-type", []) or not response.content:
        return False
    answer = response.json()
    results = answer.get("results", []) if isinstance(answer, dict) else []
    return any(result.get("status", 0) >= 400 for result in results)


def _is_wrong(case: Any) -> bool:
    """Also after the hooks, which may have put what exists in the place of a wrong name."""
    mutations = getattr(case.meta.phase.data, "mutations", ())
    wrong = {mutation.parameter_location.name for mutation in mutations}
    if any(value in EXISTING.values() for value in (case.path_parameters or {}).values()):
        wrong.discard("PATH")
    return bool(wrong)


# The test brings its own token: one that was made up would be replaced, and the request accepted.
# The server may check If-Match first.
REFUSALS = [400, 401, 403, 404, 405, 406, 409, 412, 415, 422, 428, 429, "5xx"]
CONFIG = {
    "generation": {"with-security-parameters": False},
    "checks": {"negative_data_rejection": {"expected-statuses": REFUSALS}},
}
contract = schemathesis.openapi.from_dict(
    openapi.document(), config=schemathesis.Config.from_dict(CONFIG)
)
for hook in (map_path_parameters, map_query, map_body):
    contract.hook(hook)


def operations(part: Part) -> Any:
    """Return the contract with these of its operations."""
    labels = [each.ok().label for each in contract.get_all_operations()]
    return contract.include(name=part.choose(labels))


drawn = partial(
    settings,
    deadline=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)


class Way(NamedTuple):
    """A server, and what requests to it are sent by."""

    installation: Installation
    http: requests.Session


@pytest.fixture(scope="module")
def ways(served: Installation, request: pytest.FixtureRequest) -> Iterator[list[Way]]:
    """Yield HTTP/1.1 to our listener; with TEST_EVERY_WAY, also HTTP/2, and Hypercorn's listener.

    Each has one connection, without proxies or passwords of the machine.
    """
    found = [Way(served, requests.Session())]
    if os.environ.get("TEST_EVERY_WAY"):
        over_http2 = requests.Session()
        over_http2.mount("http://", OverHttp2())
        hypercorns: Installation = request.getfixturevalue("served_by_hypercorn")
        found += [Way(served, over_http2), Way(hypercorns, requests.Session())]
    for way in found:
        way.http.trust_env = False
    yield found
    for way in found:
        way.http.close()


@contract.parametrize()
@drawn(max_examples=2, phases=(Phase.generate,))
def test_every_answer_is_as_described(case: Any, ways: list[Way]) -> None:
    """The test sends a few requests that are drawn."""
    answers_are_as_described(case, ways)


@operations(of_this_turn(OPERATIONS)).parametrize()
@drawn(phases=(Phase.explicit,))
def test_answers_at_limits_are_as_described(case: Any, ways: list[Way]) -> None:
    """The test tries the limits of each schema, one by one."""
    answers_are_as_described(case, ways)


@contract.parametrize()
@drawn(max_examples=30, phases=(Phase.generate,))
def test_answers_to_more_that_is_drawn_are_as_described(case: Any, ways: list[Way]) -> None:
    """To draw a request takes many times as long as to answer it, so `make test` draws two."""
    answers_are_as_described(case, ways)


def answers_are_as_described(case: Any, ways: list[Way]) -> None:
    # No hook has seen the examples that were not made up.
    case.query, case.body = map_query(case, case.query), map_body(case, case.body)
    for way in ways:
        _answer_is_as_described(case, way)


def _answer_is_as_described(case: Any, way: Way) -> None:
    token = way.installation.token
    case.headers = {**(case.headers or {}), "Authorization": f"Bearer {token}"}
    response = _answer(case, way)
    # Other encodings of a batch are made up by the serializers above; and a wrong item of a batch
    # is refused in its place, while the others go through.
    plain = case.media_type in (None, "application/json")
    judged = USED
    if not plain or _refused_an_item(response) or not _is_wrong(case):
        judged = USED[:-1]
    case.validate_response(response, checks=[CHECKS.get_one(name) for name in judged])


def _answer(case: Any, way: Way) -> Any:
    """Return the answer of a request. One that was refused for a while is sent again, `TRIES` times
    in all: a busy machine is no fault, and a server that goes on refusing is one."""
    for _ in range(TRIES):
        response = case.call(base_url=way.installation.url, session=way.http, timeout=20)
        if not _may_be_sent_again(response):
            break
        time.sleep(PAUSE_S)
    return response


def _may_be_sent_again(response: Any) -> bool:
    if response.status_code != 503 or not response.content:
        return False
    return bool(response.json().get("outcome") == "not_done")


class Answered(NamedTuple):
    """An answer, as far as the tests below need it."""

    status_code: int
    content: bytes = b""
    headers: Mapping[str, list[str]] = MappingProxyType({})

    def json(self) -> Any:
        return msgspec.json.decode(self.content)


class Asked:
    """A request that gets these answers, the last one for ever; it keeps the one that is judged."""

    headers = media_type = None

    def __init__(self, *answers: Answered) -> None:
        self._answers = answers
        self.calls = 0
        self.meta = SimpleNamespace(phase=SimpleNamespace(data=None))
        self.path_parameters: dict[str, str] = {}
        self.judged: tuple[Answered, list[str]] | None = None

    def call(self, **given: object) -> Answered:
        self.calls += 1
        return self._answers[min(self.calls, len(self._answers)) - 1]

    def validate_response(self, response: Answered, checks: list[Any]) -> None:
        self.judged = response, [check.__name__ for check in checks]


NOT_DONE = Answered(503, b'{"outcome": "not_done"}')


@pytest.mark.parametrize(
    ("answers", "calls", "judged"),
    [
        ((Answered(200),), 1, 200),
        ((NOT_DONE, NOT_DONE, Answered(201)), 3, 201),
        ((NOT_DONE,), 5, 503),
        ((Answered(503, b'{"outcome": "unknown"}'), Answered(200)), 1, 503),
        ((Answered(503), Answered(200)), 1, 503),
        ((Answered(500, b'{"outcome": "not_done"}'), Answered(200)), 1, 500),
    ],
)
def test_the_tester_sends_a_refused_request_again_and_judges_the_last_answer(
    answers: tuple[Answered, ...], calls: int, judged: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So a server that refuses for ever fails the check for errors of the server."""
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    case = Asked(*answers)
    way = Way(cast(Any, SimpleNamespace(token="", url="")), requests.Session())
    _answer_is_as_described(case, way)
    assert case.calls == calls
    assert case.judged is not None
    response, checks = case.judged
    assert response.status_code == judged
    assert "not_a_server_error" in checks


def test_operations_need_a_token(served: Installation) -> None:
    for path, item in openapi.document()["paths"].items():
        for method in ("get", "post", "delete"):
            if method not in item:
                continue
            target = served.url + path.replace("{", "").replace("}", "")
            answer = requests.request(method, target, allow_redirects=False, timeout=10)
            public = item[method].get("security") == []
            assert (answer.status_code == 401) is not public, (method, path)


def test_head_of_real_paths_and_unknown_query_parameters(served: Installation) -> None:
    """All requests use one connection: a body that was not announced would garble its next
    answer.
    """
    http = served.session()
    for path in (
        "/topics",
        "/topics/contract",
        "/whoami",
        "/openapi.json",
        "/topics/no",
    ):
        got, told = http.get(served.url + path), http.head(served.url + path)
        assert (told.status_code, told.content) == (got.status_code, b""), path
        assert int(told.headers["content-length"]) > 0
        assert told.headers["content-type"] == got.headers["content-type"]
    for path in ("/subscriptions/contract-reader/messages", "/backlog:stream", "/audit:export"):
        refused = http.head(served.url + path)
        assert (refused.status_code, refused.headers["allow"]) == (405, "GET"), path
    wrong = http.get(f"{served.url}/topics?page_sice=2")
    assert (wrong.status_code, wrong.json()["errors"][0]["field"]) == (400, "page_sice")


def test_pulls_of_a_push_subscription_are_in_the_contract() -> None:
    """Every way to pull answers 409 `push-subscription`."""
    pulls = {"pull", "pullTopicSubscription", "stream", "streamTopicSubscription"}
    found = {
        item["get"]["operationId"]: item["get"]["responses"]
        for item in openapi.document()["paths"].values()
        if "get" in item and item["get"]["operationId"] in pulls
    }
    assert found.keys() == pulls
    assert [name for name, responses in found.items() if "409" not in responses] == []
