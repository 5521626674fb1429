"""Sends the requests of a scenario and keeps what was sent and answered."""

from __future__ import annotations

import json
import re
import threading
import uuid
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import requests

import openapi
from tests.e2e.installation import Installation
from tests.recorded import limits
from tests.recorded.masking import Mask

PROBLEM = "https://packetboat.dev/problems/"
USUAL = {
    "access-control-allow-origin": "*",
    "access-control-expose-headers": "Cache-Control, ETag, Location, RateLimit, RateLimit-Policy,"
    " Retry-After, WWW-Authenticate, X-Request-Id",
}
"""Headers that an answer has unless its record says otherwise."""
VARYING = ("date", "x-request-id")
"""Headers that every answer has, with a value of its own, unless its record says otherwise."""
VERSION = re.compile(r'"\d+"')
TRIES = 300
TRY_AGAIN_S = 0.1


class Answer(NamedTuple):
    """An answer as the scenario uses it for its next requests."""

    status: int
    headers: Mapping[str, str]
    json: Any
    text: str

    @property
    def etag(self) -> str:
        return self.headers["etag"]


class Client:
    """The requests of one area, in a tenant of its own and with several credentials.

    `records` has what was sent and answered, `wording` the sentences of the problems among it. With
    the first request of an operation that succeeds, its limits are asked for.
    """

    def __init__(self, installation: Installation, area: str) -> None:
        self.area = area
        self.records: dict[str, dict[str, Any]] = {}
        self.wording: dict[str, Any] = {}
        self.limits: dict[str, dict[str, dict[str, str]]] = {}
        """The answers at a limit and beyond it, by operation and field."""
        self.mask = Mask()
        self.url = installation.url
        self._http = requests.Session()
        self._http.trust_env = False
        self._http.headers.clear()
        self._tokens: dict[str, str | None] = {"nobody": None, "operator": installation.token}
        self.mask.name(installation.url, "<url>")
        self.mask.name(installation.url.removeprefix("http://"), "<address>")
        self.mask.name(installation.token, "<operator-token>")
        self.tenant = self._tenant("tenant", "owner")

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def __call__(
        self,
        name: str,
        method: str,
        path: str,
        body: Any = None,
        *,
        as_: str = "owner",
        headers: Mapping[str, str] | None = None,
        data: bytes | None = None,
        shown: str | None = None,
        shown_body: Any = None,
        shown_headers: Mapping[str, str] | None = None,
        until: Callable[[Answer], Any] | None = None,
        only: Callable[[Any], Any] | None = None,
        brief: bool = False,
    ) -> Answer:
        """Send one request and record it under a name that the area has once.

        A 503 is asked again, as clients do, and so is an answer that `until` does not accept.
        `shown`, `shown_body` and `shown_headers` are recorded in the place of `data`, `body` and
        `headers`. `only` chooses what of the body is recorded, where others than the scenario
        change it; of a `brief` record the body is left out.
        """
        assert name not in self.records, f"{self.area} has two records {name}"
        wanted = until or (lambda answer: answer.status != 503)
        for _ in range(TRIES):
            answer = self.send(method, path, body, as_=as_, headers=headers, data=data)
            if wanted(answer):
                break
            threading.Event().wait(TRY_AGAIN_S)
        else:
            raise AssertionError(f"{self.area} {name}: {answer.status} {answer.text}")
        chosen = answer.json if only is None else only(answer.json)
        self.mask.look(chosen, f"{path} {json.dumps(body)}")
        record: dict[str, Any] = {"request": self.mask.text(f"{method} {path}")}
        operation = operation_of(method, path)
        if operation is not None:
            record["operation"] = operation
        if as_ != "owner":
            record["as"] = as_
        if headers:
            recorded = shown_headers or headers
            record["request_headers"] = {k: self._header(k, v) for k, v in recorded.items()}
        if body is not None:
            record["body"] = self.mask.request(shown_body or body)
        if data is not None:
            record["body_text"] = shown or self.mask.text(_shown(data))
        record["status"] = answer.status
        record["headers"] = self._headers(answer, headers or {})
        if not brief:
            record |= self._shown_answer(name, answer, chosen)
        self.records[name] = record
        if operation and isinstance(body, dict) and answer.status < 300:
            self._ask_for_limits(operation, method, path, body, as_)
        return answer

    def big(
        self,
        name: str,
        method: str,
        path: str,
        data: bytes,
        *,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        """Send a body that is too long to be recorded; the record has its length."""
        self(name, method, path, data=data, headers=headers, shown=f"{len(data)} bytes")

    def send(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        as_: str = "owner",
        headers: Mapping[str, str] | None = None,
        data: bytes | None = None,
    ) -> Answer:
        """Send a request without a record of it."""
        sent = dict(headers or {})
        token = self._tokens[as_]
        if token is not None:
            sent.setdefault("Authorization", f"Bearer {token}")
        if body is not None:
            data = json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        got = self._http.request(
            method, self.url + path, data=data, headers=sent, timeout=90, allow_redirects=False
        )
        return Answer(got.status_code, got.headers, _decoded(got), got.text)

    def set_up(self, method: str, path: str, body: Any = None, *, as_: str = "owner") -> Answer:
        """Send a request that must succeed, without a record of it."""
        for _ in range(TRIES):
            answer = self.send(method, path, body, as_=as_)
            if answer.status != 503:
                break
            threading.Event().wait(TRY_AGAIN_S)
        assert answer.status < 300, f"{method} {path}: {answer.status} {answer.text}"
        self.mask.look(answer.json)
        return answer

    def principal(self, name: str, scopes: list[str]) -> None:
        """Make a key of these scopes; requests `as_` this name use it."""
        key = self.set_up("PUT", f"/keys/{name}", {"scopes": scopes}).json
        self.use(name, key["key"])

    def use(self, name: str, token: str) -> None:
        """Let requests `as_` this name have this token."""
        self._tokens[name] = token
        self.mask.learn(token, "token")

    def stranger(self) -> None:
        """Make another tenant; requests `as_` "stranger" are those of its owner."""
        self._tenant("other-tenant", "stranger")

    def _ask_for_limits(
        self, operation: str, method: str, path: str, accepted: dict[str, Any], as_: str
    ) -> None:
        if operation in self.limits:
            return
        found = self.limits[operation] = {}
        for case in limits.cases(operation, accepted):
            answer = self.send(method, path, case.body, as_=as_)
            of_field = found.setdefault(case.field, {})
            of_field[case.limit] = limits.outcome(answer.status, answer.json)

    def _tenant(self, placeholder: str, owner: str) -> str:
        name = f"recorded-{self.area.replace('_', '-')}-{uuid.uuid4().hex[:12]}"
        self.mask.name(name, f"<{placeholder}>")
        made = self.set_up("PUT", f"/tenants/{name}", {"owner": {}}, as_="operator").json
        self.mask.name(made["token_audience"], f"<audience-of-{placeholder}>")
        given = made["owner"]
        self.mask.name(given["client_id"], f"<client-of-{owner}>")
        self.mask.name(given["client_secret"], f"<secret-of-{owner}>")
        form = {"grant_type": "client_credentials"}
        login = (given["client_id"], given["client_secret"])
        token = self._http.post(f"{self.url}/oauth/token", data=form, auth=login, timeout=30)
        assert token.status_code == 200, token.text
        self._tokens[owner] = token.json()["access_token"]
        self.mask.name(token.json()["access_token"], f"<token-of-{owner}>")
        return name

    def _headers(self, answer: Answer, sent: Mapping[str, str]) -> dict[str, str]:
        """Return the headers that are not as usual; None stands for a missing one."""
        left = {name.lower(): value for name, value in answer.headers.items()}
        shown: dict[str, Any] = {}
        for name in VARYING:
            value = left.pop(name, None)
            if value is None or value in sent.values():
                shown[name] = value
        for name, usual in USUAL.items():
            if left.get(name) != usual:
                shown[name] = left.get(name)
            left.pop(name, None)
        if (length := left.pop("content-length", None)) is not None:
            assert not answer.text or int(length) > 0
        shown |= {name: self._header(name, value) for name, value in left.items()}
        return dict(sorted(shown.items()))

    def _header(self, name: str, value: str) -> str:
        if name == "etag" and VERSION.fullmatch(value):
            return self.mask.etag(value)
        if name == "If-Match":
            return self.mask.known_etag(value)
        if name == "retry-after":
            return "<seconds>"
        if name == "ratelimit":
            return re.sub(r"(?<=;t=)\d+", "<seconds>", value)
        return self.mask.text(value)

    def _shown_answer(self, name: str, answer: Answer, shown: Any) -> dict[str, Any]:
        if answer.json is not None:
            body, sentences = _split(self.mask.answer(shown))
            if answer.headers.get("content-type") == "application/problem+json":
                body = self._plain_problem(answer, body)
            if sentences:
                self.wording[name] = sentences[0] if len(sentences) == 1 else sentences
            return {"answer": body}
        if answer.text:
            return {"answer_text": self.mask.text(answer.text)}
        return {}

    def _plain_problem(self, answer: Answer, body: dict[str, Any]) -> dict[str, Any]:
        """Leave out what repeats the status and headers; None stands for what is missing."""
        repeated = {
            "status": answer.status,
            "instance": f"urn:packetboat:request:{answer.headers.get('x-request-id')}",
        }
        shown = {name: value for name, value in body.items() if repeated.get(name) != value}
        return shown | {name: None for name in repeated if name not in body}


def _decoded(got: requests.Response) -> Any:
    kind = got.headers.get("content-type", "")
    if "ndjson" in kind:
        return [json.loads(line) for line in got.text.splitlines() if line]
    if "json" in kind and got.content:
        return got.json()
    return None


def _shown(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return repr(data)


def _split(value: Any) -> tuple[Any, list[dict[str, Any]]]:
    """Return a body without the sentences of its problems, and these."""
    if isinstance(value, list):
        parts = [_split(member) for member in value]
        return [part[0] for part in parts], [said for part in parts for said in part[1]]
    if not isinstance(value, dict):
        return value, []
    if not str(value.get("type", "")).startswith(PROBLEM):
        members = {key: _split(member) for key, member in value.items()}
        said = [sentence for part in members.values() for sentence in part[1]]
        return {key: part[0] for key, part in members.items()}, said
    kept = {"problem": value["type"].removeprefix(PROBLEM)}
    kept |= {key: member for key, member in value.items() if key not in ("type", "title", "detail")}
    sentences = {key: value[key] for key in ("title", "detail") if key in value}
    if "errors" in value:
        kept["errors"] = [
            {key: member for key, member in error.items() if key != "detail"}
            for error in value["errors"]
        ]
        sentences["errors"] = [error.get("detail") for error in value["errors"]]
    return kept, [sentences]


_OPERATIONS = [
    (method.upper(), re.compile(re.sub(r"\\{\w+\\}", r"[^/]+", re.escape(path))), operation)
    for path, item in openapi.document()["paths"].items()
    for method, described in item.items()
    if method != "parameters"
    for operation in [described["operationId"]]
]


def operation_of(method: str, path: str) -> str | None:
    """Return the id of the operation that a request asks for, if the contract has it."""
    plain = path.partition("?")[0]
    found = [
        (len(pattern.pattern), operation)
        for its, pattern, operation in _OPERATIONS
        if its == method and pattern.fullmatch(plain)
    ]
    # `/jobs/{job}:seal` is longer than `/jobs/{job}`, which matches it too.
    return max(found)[1] if found else None
