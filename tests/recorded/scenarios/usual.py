"""Requests that every kind of resource is asked alike."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.recorded.client import Client

STALE = '"1"'
"""A version that nothing has any more."""
VERSIONED = frozenset({"PUT", "PATCH", "DELETE"})


def principals(ask: Client) -> None:
    """Make a key that may only read, and another tenant."""
    ask.stranger()
    ask.principal("reader", ["read"])


def refusals(
    ask: Client,
    collection: str,
    path: str,
    bodies: Mapping[str, Any],
    *,
    versioned: frozenset[str] = VERSIONED,
    as_: str = "owner",
) -> None:
    """Send what is refused alike everywhere, about a resource that exists, with `principals` made.

    `bodies` has what a POST to the collection, a PUT and a PATCH of the resource would accept; a
    method that it lacks is not an operation of the resource, but for GET and DELETE.
    """
    missing = f"{path.rpartition('/')[0]}/missing"
    ask("get-without-token", "GET", path, as_="nobody")
    ask("get-foreign", "GET", path, as_="stranger")
    ask("get-missing", "GET", missing, as_=as_)
    ask("get-bad-name", "GET", f"{path}%20", as_=as_)
    ask("get-unknown-parameter", "GET", f"{path}?x=1", as_=as_)
    ask("list-without-token", "GET", collection, as_="nobody")
    ask("list-of-stranger", "GET", collection, as_="stranger")
    ask("list-size-too-big", "GET", f"{collection}?page_size=1001", as_=as_)
    ask("list-wrong-token", "GET", f"{collection}?page_token=nonsense", as_=as_)
    ask("list-unknown-parameter", "GET", f"{collection}?page_sice=1", as_=as_)
    for method, body in bodies.items():
        of = collection if method == "POST" else path
        word = {"POST": "create", "PUT": "put", "PATCH": "patch"}[method]
        ask(f"{word}-without-token", method, of, body, as_="nobody")
        ask(f"{word}-as-reader", method, of, body, as_="reader")
        ask(f"{word}-unknown-field", method, of, {**body, "colour": 1}, as_=as_)
        ask(f"{word}-array", method, of, [], as_=as_)
        ask(f"{word}-no-body", method, of, as_=as_)
        ask(f"{word}-no-json", method, of, data=b"{", as_=as_)
        ask(f"{word}-twice-the-same-field", method, of, data=b'{"name":"a","name":"a"}', as_=as_)
        if method in versioned:
            stale = {"If-Match": STALE}
            ask(f"{word}-stale", method, of, body, headers=stale, as_=as_)
            ask(f"{word}-version-no-etag", method, of, body, headers={"If-Match": "x"}, as_=as_)
        if method == "PATCH":
            ask("patch-missing", method, missing, body, as_=as_)
            ask("patch-foreign", method, of, body, as_="stranger")
        if method == "PUT":
            ask("put-other-name", method, of, {**body, "name": "another"}, as_=as_)
    ask("delete-without-token", "DELETE", path, as_="nobody")
    ask("delete-as-reader", "DELETE", path, as_="reader")
    ask("delete-foreign", "DELETE", path, as_="stranger")
    ask("delete-missing", "DELETE", missing, as_=as_)
    if "DELETE" in versioned:
        ask("delete-stale", "DELETE", path, headers={"If-Match": STALE}, as_=as_)


def pages(ask: Client, collection: str, *, as_: str = "owner") -> None:
    """List in pages of one, of a collection that has two members or more."""
    first = ask("list-page", "GET", f"{collection}?page_size=1", as_=as_).json
    token = first["next_page_token"]
    ask("list-next-page", "GET", f"{collection}?page_size=1000&page_token={token}", as_=as_)
