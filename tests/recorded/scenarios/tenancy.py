"""Tenants, who may do what in one, what it may use and has used, and who changed what."""

from __future__ import annotations

from tests.recorded.client import Client
from tests.recorded.scenarios.usual import pages, principals, refusals


def clients(ask: Client) -> None:
    """Send the requests about clients and their secrets."""
    principals(ask)
    full = {"display_name": "The shop", "state": "disabled", "labels": {"team": "shop"}}
    ask("list", "GET", "/clients")
    ask("create-least", "POST", "/clients", {"name": "least"})
    ask("create-again", "POST", "/clients", {"name": "least"})
    ask("create-unnamed", "POST", "/clients", {"display_name": "x"}, as_="reader")
    ask("create-full", "POST", "/clients", {"name": "full", **full})
    ask("put-new", "PUT", "/clients/put", full)
    same = ask("put-same", "PUT", "/clients/put", full).etag
    ask("put-at-version", "PUT", "/clients/put", {}, headers={"If-Match": same})
    ask("get", "GET", "/clients/full")
    pages(ask, "/clients")
    secrets = "/clients/full/secrets"
    added = ask("add-secret", "POST", secrets, {}).json["secrets"]
    ask("add-third-secret", "POST", secrets, {"old_expires_in_seconds": 60})
    ask("add-secret-missing", "POST", "/clients/none/secrets", {})
    ask("add-secret-as-reader", "POST", secrets, {}, as_="reader")
    ask("remove-secret", "DELETE", f"{secrets}/{added[0]['prefix']}")
    ask("remove-secret-again", "DELETE", f"{secrets}/{added[0]['prefix']}")
    ask("replace-secret-at-once", "POST", secrets, {"old_expires_in_seconds": 0})
    ask("revoke-tokens", "POST", "/clients/full:revoke_tokens")
    ask("revoke-tokens-missing", "POST", "/clients/none:revoke_tokens")
    refusals(ask, "/clients", "/clients/full", {"POST": {"name": "x"}, "PUT": {}})
    ask("disable-last-owner", "PUT", "/clients/owner", {"state": "disabled"})
    ask("delete-last-owner", "DELETE", "/clients/owner")
    ask("delete", "DELETE", "/clients/full")


def keys(ask: Client) -> None:
    """Send the requests about API keys."""
    principals(ask)
    least = {"scopes": ["publish:topics/orders"]}
    full = {
        "scopes": ["consume:subscriptions/*", "read"],
        "expires_at": "2099-01-01T00:00:00Z",
        "state": "disabled",
        "labels": {"team": "shop"},
    }
    ask("create-least", "POST", "/keys", {"name": "least", **least})
    ask("create-again", "POST", "/keys", {"name": "least", **least})
    ask("create-full", "POST", "/keys", {"name": "full", **full})
    ask("put-new", "PUT", "/keys/put", full)
    same = ask("put-same", "PUT", "/keys/put", full).etag
    ask("put-at-version", "PUT", "/keys/put", least, headers={"If-Match": same})
    ask("create-no-scope", "POST", "/keys", {"name": "x", "scopes": ["fly"]})
    ask(
        "create-expired",
        "POST",
        "/keys",
        {"name": "x", **least, "expires_at": "2001-01-01T00:00:00Z"},
    )
    ask("get", "GET", "/keys/full")
    pages(ask, "/keys")
    ask("rotate", "POST", "/keys/full:rotate", {})
    ask("rotate-third", "POST", "/keys/full:rotate", {"old_expires_in_seconds": 60})
    ask("rotate-at-once", "POST", "/keys/full:rotate", {"old_expires_in_seconds": 0})
    ask("rotate-missing", "POST", "/keys/none:rotate", {})
    ask("rotate-as-reader", "POST", "/keys/full:rotate", {}, as_="reader")
    refusals(ask, "/keys", "/keys/full", {"POST": {"name": "x", **least}, "PUT": least})
    ask("delete", "DELETE", "/keys/full")


def policies(ask: Client) -> None:
    """Send the requests about policies."""
    principals(ask)
    least = {"role": "viewer", "members": ["client:nobody"]}
    full = {
        "role": "publisher",
        "members": ["client:shop", "issuer:github#repo:shop"],
        "resources": ["topics/orders", "subscriptions/*"],
        "labels": {"team": "shop"},
    }
    ask("list", "GET", "/policies")
    ask("create-least", "POST", "/policies", {"name": "least", **least})
    ask("create-again", "POST", "/policies", {"name": "least", **least})
    ask("create-full", "POST", "/policies", {"name": "full", **full})
    ask("create-no-role", "POST", "/policies", {"name": "x", **least, "role": "king"})
    ask("create-no-member", "POST", "/policies", {"name": "x", **least, "members": ["nobody"]})
    ask("put-new", "PUT", "/policies/put", full)
    same = ask("put-same", "PUT", "/policies/put", full).etag
    ask("put-at-version", "PUT", "/policies/put", least, headers={"If-Match": same})
    ask("get", "GET", "/policies/full")
    pages(ask, "/policies")
    refusals(ask, "/policies", "/policies/full", {"POST": {"name": "x", **least}, "PUT": least})
    ask("delete-last-owner", "DELETE", "/policies/owner")
    ask("delete", "DELETE", "/policies/full")


def issuers(ask: Client) -> None:
    """Send the requests about issuers of tokens, which nobody has to prove here."""
    principals(ask)
    least = {"issuer": "https://least.example"}
    full = {
        "issuer": "https://full.example",
        "algorithms": ["ES256", "RS256"],
        "subject_claim": "email",
        "required_claims": {"hd": "example.com"},
        "labels": {"team": "shop"},
    }
    ask("create-least", "POST", "/issuers", {"name": "least", **least})
    ask("create-again", "POST", "/issuers", {"name": "least", **least})
    ask("create-full", "POST", "/issuers", {"name": "full", **full})
    ask("create-taken", "POST", "/issuers", {"name": "other", **full})
    unproved = {"name": "x", "issuer": "https://x.example", "audience": "packetboat"}
    ask("create-unproved", "POST", "/issuers", unproved)
    ask("create-no-url", "POST", "/issuers", {"name": "x", "issuer": "example"})
    ask("create-plain-http", "POST", "/issuers", {"name": "x", "issuer": "http://x.example"})
    ask("put-new", "PUT", "/issuers/put", {"issuer": "https://put.example"})
    same = ask("put-same", "PUT", "/issuers/put", {"issuer": "https://put.example"}).etag
    new = {"issuer": "https://put.example", "subject_claim": "email"}
    ask("put-at-version", "PUT", "/issuers/put", new, headers={"If-Match": same})
    ask("get", "GET", "/issuers/full")
    pages(ask, "/issuers")
    refusals(ask, "/issuers", "/issuers/full", {"POST": {"name": "x", **least}, "PUT": full})
    ask("delete", "DELETE", "/issuers/full")


def tenants(ask: Client) -> None:
    """Send the requests that operators make about tenants."""
    principals(ask)
    # Others have tenants beside this one; the names of its own begin with its name.
    own = ask.tenant

    def of_own(page: dict[str, list[dict[str, str]]]) -> dict[str, object]:
        return {"tenants": [one for one in page["tenants"] if one["name"].startswith(own)]}

    operator = "operator"
    full = {
        "display_name": "The shop",
        "state": "suspended",
        "labels": {"team": "shop"},
        "egress_allowed": ["10.1.0.0/16"],
        "issuers_allowed": ["https://full.example#subject"],
    }
    ask("list", "GET", "/tenants?page_size=1000", as_=operator, only=of_own)
    ask("list-page", "GET", "/tenants?page_size=1", as_=operator, only=lambda page: list(page))
    ask("create-least", "POST", "/tenants", {"name": f"{own}-a"}, as_=operator)
    ask("create-again", "POST", "/tenants", {"name": f"{own}-a"}, as_=operator)
    ask("create-full", "POST", "/tenants", {"name": f"{own}-b", **full}, as_=operator)
    owned = {"name": f"{own}-c", "owner": {"name": "root"}}
    ask("create-with-owner", "POST", "/tenants", owned, as_=operator)
    ask("put-new", "PUT", f"/tenants/{own}-d", full, as_=operator)
    same = ask("put-same", "PUT", f"/tenants/{own}-d", full, as_=operator).etag
    at = {"If-Match": same}
    ask("put-at-version", "PUT", f"/tenants/{own}-d", {}, headers=at, as_=operator)
    ask(
        "create-no-network",
        "POST",
        "/tenants",
        {"name": f"{own}-e", "egress_allowed": ["here"]},
        as_=operator,
    )
    ask("get", "GET", f"/tenants/{own}-b", as_=operator)
    ask("get-as-owner", "GET", f"/tenants/{own}")
    ask("list-as-owner", "GET", "/tenants")
    ask("put-as-owner", "PUT", f"/tenants/{own}", {})
    ask("get-missing", "GET", "/tenants/missing", as_=operator)
    ask("put-unknown-field", "PUT", f"/tenants/{own}-b", {"colour": 1}, as_=operator)
    ask("put-stale", "PUT", f"/tenants/{own}-b", full, headers={"If-Match": '"1"'}, as_=operator)
    ask("delete-as-owner", "DELETE", f"/tenants/{own}")
    ask("delete-missing", "DELETE", "/tenants/missing", as_=operator)
    ask("delete-stale", "DELETE", f"/tenants/{own}-b", headers={"If-Match": '"1"'}, as_=operator)
    ask.set_up("PUT", "/topics/orders", {"partitions": 1})
    ask("delete-not-empty", "DELETE", f"/tenants/{own}", as_=operator)
    ask.set_up("PUT", f"/tenants/{own}", {"state": "suspended"}, as_=operator)
    suspended = lambda got: got.status == 403  # noqa: E731
    ask("ask-suspended", "GET", "/topics", until=suspended)
    ask("delete", "DELETE", f"/tenants/{own}-b", as_=operator)
    gone = lambda got: got.status == 404  # noqa: E731
    ask("get-deleted", "GET", f"/tenants/{own}-b", as_=operator, until=gone)


def quotas(ask: Client) -> None:
    """Send the requests about limits of a tenant, and those that a limit refuses."""
    ask.principal("reader", ["read"])
    path, operator = f"/tenants/{ask.tenant}/quotas", "operator"
    ask("get-own", "GET", "/quotas")
    ask("get-own-as-reader", "GET", "/quotas", as_="reader")
    ask("get", "GET", path, as_=operator)
    ask("get-as-owner", "GET", path)
    ask("get-missing", "GET", "/tenants/missing/quotas", as_=operator)
    limits = {
        "publish_messages_per_second": 1000,
        "publish_bytes_per_second": 1000000,
        "stored_bytes": 1000000,
        "topics": 1,
        "subscriptions": 1,
        "in_flight": 100,
        "push_concurrency": 10,
        "requests_per_second": 1000,
    }
    changed = ask("put", "PUT", path, {"limits": limits, "weight": 2}, as_=operator)
    at = {"If-Match": changed.headers.get("etag", "*")}
    ask("put-at-version", "PUT", path, {"limits": limits, "weight": 2}, headers=at, as_=operator)
    ask("put-stale", "PUT", path, {}, headers={"If-Match": '"1"'}, as_=operator)
    ask("put-as-owner", "PUT", path, {})
    ask("put-missing", "PUT", "/tenants/missing/quotas", {}, as_=operator)
    ask("put-unknown-limit", "PUT", path, {"limits": {"speed": 1}}, as_=operator)
    ask("put-negative", "PUT", path, {"limits": {"topics": -1}}, as_=operator)
    ask.set_up("PUT", "/topics/one", {"partitions": 1})
    refused = lambda got: got.status == 403  # noqa: E731
    ask("topic-too-many", "POST", "/topics", {"name": "two", "partitions": 1}, until=refused)
    ask.set_up("PUT", "/subscriptions/one", {"topic": "one"})
    ask("subscription-too-many", "PUT", "/subscriptions/two", {"topic": "one"}, until=refused)
    ask.set_up("PUT", path, {"limits": {"stored_bytes": 1}}, as_=operator)
    full = lambda got: got.status == 507  # noqa: E731
    ask("publish-tenant-full", "POST", "/topics/one/messages", {"a": 1}, until=full)
    ask.set_up("PUT", path, {"limits": {"publish_messages_per_second": 0.01}}, as_=operator)
    ask(
        "publish-too-fast",
        "POST",
        "/topics/one/messages",
        {"a": 1},
        until=lambda got: got.status == 429,
    )
    ask.set_up("PUT", path, {"limits": {"requests_per_second": 0.01}}, as_=operator)
    ask("request-too-fast", "GET", "/topics", until=lambda got: got.status == 429)
    ask("put-least", "PUT", path, {}, as_=operator)


def usage(ask: Client) -> None:
    """Send the requests about what a tenant has used."""
    ask.stranger()
    ask.principal("publisher", ["publish"])
    path = f"/tenants/{ask.tenant}/usage"
    hour = "from=2001-01-01T00:00:00Z&to=2001-01-01T01:00:00Z"
    ask("own", "GET", f"/usage?{hour}")
    ask("own-of-metric", "GET", f"/usage?{hour}&metric=published_messages&page_size=1")
    ask("own-no-metric", "GET", f"/usage?{hour}&metric=colours")
    ask("own-no-time", "GET", "/usage?from=noon")
    ask("own-as-publisher", "GET", f"/usage?{hour}", as_="publisher")
    ask("of-tenant", "GET", f"{path}?{hour}", as_="operator")
    ask("of-tenant-as-owner", "GET", f"{path}?{hour}")
    ask("of-missing", "GET", f"/tenants/missing/usage?{hour}", as_="operator")


def audit(ask: Client) -> None:
    """Send the requests about who changed what."""
    ask.stranger()
    ask.principal("reader", ["read"])
    ask.set_up("PUT", "/topics/orders", {"partitions": 1, "labels": {"team": "shop"}})
    ask.set_up("DELETE", "/topics/orders")
    ask.send("PUT", "/topics/refused", {}, as_="reader")
    whole = lambda got: len(got.json["entries"]) >= 3  # noqa: E731
    ask("own", "GET", "/audit?order=oldest&page_size=100", until=whole)
    page = ask("own-page", "GET", "/audit?order=oldest&page_size=1").json["next_page_token"]
    ask("own-next-page", "GET", f"/audit?order=oldest&page_size=1&page_token={page}")
    ask("own-of-action", "GET", "/audit?action=deleteTopic")
    ask("own-of-resource", "GET", "/audit?resource=topics/orders&order=oldest")
    ask("own-before", "GET", "/audit?to=2001-01-01T00:00:00Z")
    ask("own-no-order", "GET", "/audit?order=any")
    ask("own-of-stranger", "GET", "/audit?action=deleteTopic", as_="stranger")
    ask("own-as-reader", "GET", "/audit", as_="reader")
    ask("export-own", "GET", "/audit:export?action=deleteTopic")
    path = f"/tenants/{ask.tenant}/audit"
    ask("of-tenant", "GET", f"{path}?action=deleteTopic", as_="operator")
    ask("of-tenant-as-owner", "GET", path)
    ask("of-missing", "GET", "/tenants/missing/audit", as_="operator")
    ask("export-of-tenant", "GET", f"{path}:export?action=deleteTopic", as_="operator")
