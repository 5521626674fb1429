"""Locks: acquired, renewed, verified, released, deleted."""

from __future__ import annotations

from tests.recorded.client import Client

OTHER = "0123456789abcdef0123456789abcdef"


def locks(ask: Client) -> None:
    """Send the requests about locks."""
    ask.stranger()
    ask.principal("reader", ["read"])
    ask("list-none", "GET", "/locks")
    ask("get-missing", "GET", "/locks/report")
    ask("acquire-least", "POST", "/locks/least:acquire", {})
    held = ask(
        "acquire",
        "POST",
        "/locks/report:acquire",
        {"ttl_seconds": 600, "holder": "nightly", "request_id": "r-1", "labels": {"team": "data"}},
    ).json
    ask(
        "acquire-repeated",
        "POST",
        "/locks/report:acquire",
        {"ttl_seconds": 600, "holder": "nightly", "request_id": "r-1", "labels": {"team": "data"}},
    )
    ask("acquire-held", "POST", "/locks/report:acquire", {"holder": "other"})
    ask("acquire-held-after-wait", "POST", "/locks/report:acquire", {"wait_seconds": 0.01})
    ask("get", "GET", "/locks/report", until=lambda got: got.json["waiting"] == 0)
    ask("get-foreign", "GET", "/locks/report", as_="stranger")
    ask("renew", "POST", "/locks/report:renew", {"lock_id": held["lock_id"]})
    ask(
        "renew-for-longer",
        "POST",
        "/locks/report:renew",
        {"lock_id": held["lock_id"], "ttl_seconds": 3600},
    )
    ask("renew-of-another", "POST", "/locks/report:renew", {"lock_id": OTHER})
    ask("renew-missing", "POST", "/locks/none:renew", {"lock_id": OTHER})
    token = held["fencing_token"]
    ask("verify", "POST", "/locks/report:verify", {"fencing_token": token})
    ask("verify-old", "POST", "/locks/report:verify", {"fencing_token": token - 1})
    ask("verify-missing", "POST", "/locks/none:verify", {"fencing_token": 1})
    page = ask("list-page", "GET", "/locks?page_size=1").json
    ask("list-next-page", "GET", f"/locks?page_size=1&page_token={page['next_page_token']}")
    ask("list-wrong-page", "GET", "/locks?page_token=nonsense")
    ask("list-wrong-size", "GET", "/locks?page_size=0")
    ask("list-unknown-parameter", "GET", "/locks?page_sice=1")
    ask("acquire-forbidden", "POST", "/locks/report:acquire", {}, as_="reader")
    ask("list-as-reader", "GET", "/locks?page_size=1", as_="reader")
    ask("acquire-without-token", "POST", "/locks/report:acquire", {}, as_="nobody")
    ask("acquire-bad-name", "POST", "/locks/-report:acquire", {})
    ask("release-of-another", "POST", "/locks/report:release", {"lock_id": OTHER})
    ask("release", "POST", "/locks/report:release", {"lock_id": held["lock_id"]})
    ask("release-repeated", "POST", "/locks/report:release", {"lock_id": held["lock_id"]})
    ask("release-missing", "POST", "/locks/none:release", {"lock_id": OTHER})
    ask("renew-lost", "POST", "/locks/report:renew", {"lock_id": held["lock_id"]})
    ask("get-released", "GET", "/locks/report")
    ask("delete-foreign", "DELETE", "/locks/report", as_="stranger")
    ask("delete", "DELETE", "/locks/report")
    ask("delete-missing", "DELETE", "/locks/report")
