"""Tenants of a real installation, made as operators make them; one that has one of everything."""

from __future__ import annotations

import secrets
import time
from typing import Any

import requests

from tests.e2e.installation import Installation

WAIT_S = 30.0


def fresh(what: str) -> str:
    """Return a name that nothing else contains."""
    return f"{what}-{secrets.token_hex(6)}"


class Actor:
    """A caller with a certain token."""

    def __init__(self, url: str, token: str | None) -> None:
        self.url = url
        self.token = token
        self.session = requests.Session()
        if token is not None:
            self.session.headers["Authorization"] = f"Bearer {token}"

    def ask(self, method: str, path: str, status: int | None = None, **more: Any) -> Any:
        """Send a request; return the answer, which must have the status if one is given."""
        answer = self.session.request(method, self.url + path, timeout=WAIT_S, **more)
        if status is not None:
            assert answer.status_code == status, (method, path, answer.status_code, answer.text)
        return answer

    def post(self, path: str, status: int | None = None, **body: Any) -> Any:
        return self.ask("POST", path, status, json=body)

    def get(self, path: str, **query: Any) -> Any:
        return self.ask("GET", path, 200, params=query).json()

    def key(self, *scopes: str, name: str | None = None) -> Actor:
        """Return a caller with a new API key with those scopes."""
        made = self.post("/keys", 201, name=name or fresh("key"), scopes=list(scopes)).json()
        return Actor(self.url, made["key"])

    def client(self, name: str | None = None) -> Actor:
        """Return a caller with a new client, which no policy names."""
        made = self.post("/clients", 201, name=name or fresh("client")).json()
        return signed_in(self.url, made["client_id"], made["client_secret"])


def signed_in(url: str, client_id: str, secret: str) -> Actor:
    answer = requests.post(
        f"{url}/oauth/token",
        data={"grant_type": "client_credentials"},
        auth=(client_id, secret),
        timeout=WAIT_S,
    )
    assert answer.status_code == 200, answer.text
    return Actor(url, answer.json()["access_token"])


def operator_of(running: Installation) -> Actor:
    return Actor(running.url, running.token)


def new_tenant(
    running: Installation, name: str | None = None, **settings: Any
) -> tuple[str, Actor]:
    """Make a tenant; return its name, and its first owner."""
    name = name or fresh("tenant")
    body = {"name": name, "owner": {"name": "founder"}} | settings
    made = operator_of(running).post("/tenants", 201, **body).json()
    owner = made["owner"]
    return name, signed_in(running.url, owner["client_id"], owner["client_secret"])


class Victim:
    """A tenant with one of everything; `ids` are by their names in paths, and by their kinds."""

    def __init__(self, running: Installation) -> None:
        self.tenant, self.owner = new_tenant(running)
        names = (
            *("topic", "letters", "subscription", "schema", "schedule", "snapshot"),
            *("lock", "client", "key", "policy", "issuer", "job", "pool", "export"),
        )
        self.ids = {what: fresh(what) for what in names} | {"tenant": self.tenant}
        self.secret = fresh("payload")
        self._topics()
        self._messages()
        self._access()
        self._jobs()
        self._exports(operator_of(running))

    def _topics(self) -> None:
        ids, owner = self.ids, self.owner
        definition = {"type": "object", "title": self.secret}
        owner.post("/schemas", 201, name=ids["schema"], type="json_schema", definition=definition)
        for name in (ids["topic"], ids["letters"]):
            owner.post("/topics", 201, name=name, partitions=1)
        owner.post(
            f"/topics/{ids['topic']}/subscriptions",
            201,
            name=ids["subscription"],
            start="earliest",
            dead_letter_topic=ids["letters"],
            ack_deadline_seconds=600,
        )
        owner.post(
            "/schedules",
            201,
            name=ids["schedule"],
            topic=ids["topic"],
            cron="0 0 1 1 *",
            message={"data": self.secret},
        )
        owner.post(f"/subscriptions/{ids['subscription']}/snapshots", 201, name=ids["snapshot"])
        ids["rule"] = owner.post(
            f"/subscriptions/{ids['subscription']}/skip_rules",
            201,
            expression="'never' in attributes",
            reason=self.secret,
        ).json()["id"]

    def _messages(self) -> None:
        ids, owner = self.ids, self.owner
        for _ in range(3):
            sent = owner.ask(
                "POST", f"/topics/{ids['topic']}/messages", 201, data=self.secret
            ).json()
            ids["message"] = sent["message_id"]
        later = owner.ask(
            "POST",
            f"/topics/{ids['topic']}/messages",
            data=self.secret,
            headers={"Packetboat-Delay": "86400"},
        )
        assert later.status_code in (201, 202), later.text
        ids["staged"] = later.json()["message_id"]
        pulled = owner.post(
            f"/subscriptions/{ids['subscription']}:pull",
            200,
            max_messages=2,
            min_messages=2,
            wait_seconds=20,
        ).json()["messages"]
        ids["ack"] = pulled[0]["ack_id"]
        rejected = {"ack_id": pulled[1]["ack_id"], "reason": self.secret}
        owner.post(f"/subscriptions/{ids['subscription']}/reject", 200, **rejected)
        ids["letter"] = self._until_letter()
        ids["redrive"] = owner.post(
            f"/subscriptions/{ids['subscription']}/dead_letters:redrive",
            202,
            ids=[secrets.token_hex(16)],
        ).json()["redrive_id"]
        held = owner.post(f"/locks/{ids['lock']}:acquire", 200, ttl_seconds=3600).json()
        ids["lock_id"] = held["lock_id"]

    def _until_letter(self) -> str:
        until_s = time.monotonic() + WAIT_S
        while True:
            letters = self.owner.get(f"/subscriptions/{self.ids['subscription']}/dead_letters")
            if letters["dead_letters"]:
                return str(letters["dead_letters"][0]["id"])
            assert time.monotonic() < until_s, "the message was never dead-lettered"
            time.sleep(0.05)

    def _access(self) -> None:
        ids, owner = self.ids, self.owner
        made = owner.post("/clients", 201, name=ids["client"]).json()
        ids["client_id"], ids["prefix"] = made["client_id"], made["secrets"][0]["prefix"]
        ids["key_id"] = owner.post("/keys", 201, name=ids["key"], scopes=["read"]).json()["key_id"]
        owner.post(
            "/policies", 201, name=ids["policy"], role="viewer", members=[f"client:{ids['client']}"]
        )
        owner.post(
            "/issuers",
            201,
            name=ids["issuer"],
            issuer=f"https://{fresh('login')}.example.com",
        )

    def _jobs(self) -> None:
        ids, owner = self.ids, self.owner
        owner.ask("PUT", f"/pools/{ids['pool']}", 201, json={"max_running": 7})
        owner.post("/jobs", 201, name=ids["job"], map="k", pool=ids["pool"])
        owner.post(f"/jobs/{ids['job']}/tasks", 200, first_index=0, inputs=[self.secret, 1])
        claim = {"kinds": ["k"], "lease_seconds": 3600, "worker": self.secret}
        (task,) = owner.post(f"/pools/{ids['pool']}:claim", 200, **claim).json()["tasks"]
        ids["task_lease"] = task["lease_id"]

    def _exports(self, operator: Actor) -> None:
        """Make an export, with a run that a runner has."""
        ids, owner = self.ids, self.owner
        owner.post(
            "/exports",
            201,
            name=ids["export"],
            topic=ids["topic"],
            filter=f"key != '{self.secret}'",
            maintain_cron=None,
        )
        owner.post(f"/exports/{ids['export']}:run", 201)
        claim = {"runner": self.secret, "lakes": ["default"], "lease_seconds": 3600}
        run = operator.post("/export_runs:claim", 200, **claim).json()["run"]
        assert run["tenant"] == self.tenant
        ids["uid"], ids["run_lease"] = run["uid"], run["lease"]

    def strings(self) -> set[str]:
        """Return the strings that no answer to another tenant may contain."""
        return {*self.ids.values(), self.secret}

    def state(self) -> dict[str, Any]:
        """Return all of it that its owner sees and that does not change by itself."""
        paths = [
            "/topics",
            "/subscriptions",
            "/schemas",
            "/schedules",
            "/snapshots",
            "/locks",
            "/jobs",
            "/pools",
            f"/jobs/{self.ids['job']}/tasks",
            "/exports",
            f"/exports/{self.ids['export']}",
            f"/exports/{self.ids['export']}/runs",
            "/clients",
            "/keys",
            "/policies",
            "/issuers",
            f"/topics/{self.ids['topic']}/partitions",
            f"/topics/{self.ids['topic']}/messages/{self.ids['message']}",
            f"/topics/{self.ids['topic']}/messages/{self.ids['staged']}",
            f"/topics/{self.ids['topic']}/messages/{self.ids['message']}/ack",
            f"/schemas/{self.ids['schema']}/versions",
            f"/subscriptions/{self.ids['subscription']}/skip_rules",
            f"/subscriptions/{self.ids['subscription']}/dead_letters",
            f"/subscriptions/{self.ids['subscription']}/redrives",
            f"/subscriptions/{self.ids['subscription']}/backlog",
            "/quotas",
        ]
        return {path: _steady(self.owner.get(path)) for path in paths}


CLOCKED = {
    *("last_used_at", "expires_in_seconds", "lease_seconds", "next_runs"),
    "lag_messages",  # in listings as it was last looked at
}


def _steady(value: Any) -> Any:
    """Return a value without the parts that time alone changes."""
    if isinstance(value, dict):
        return {
            name: _steady(inner)
            for name, inner in value.items()
            if name not in CLOCKED and not name.startswith(("redrive", "updated"))
        }
    if isinstance(value, list):
        return [_steady(inner) for inner in value]
    return value
