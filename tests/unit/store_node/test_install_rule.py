"""Test which image of a peer's machine a group may take."""

from __future__ import annotations

from store_nodes.consensus.acceptor import Acceptor, Recovered
from store_nodes.consensus.effects import Outbox
from store_nodes.membership import Membership
from store_nodes.node.install import is_ahead, least_of


def test_what_an_image_must_cover() -> None:
    known = Membership.first({1: ("a:1", ""), 2: ("b:1", ""), 3: ("c:1", "")})
    at_10 = Acceptor(Outbox(), Recovered(applied=10), known)
    assert least_of(at_10, 11) == 11
    assert least_of(at_10, 500) == 500
    assert least_of(at_10, 10) is None, "what it lacks can be learned"
    assert not is_ahead(at_10, 10)
    assert is_ahead(at_10, 11)
    stranger = Acceptor(Outbox(), Recovered(), Membership())
    assert least_of(stranger, 0) == 1, "a machine without an instance may know no members either"
