from __future__ import annotations

import asyncio

import pytest

from gateway.http.connection import address_of
from peering.addresses import of_address
from peering.rpc.listening import HANDSHAKES_AT_ONCE, HandshakeRates


class From(asyncio.BaseTransport):
    """A connection of a client at an address."""

    def __init__(self, host: str) -> None:
        super().__init__({"peername": (host, 50_000, 0, 0)})


def test_addresses_of_one_network_are_one() -> None:
    assert of_address("2001:db8:1:2:3:4:5:6") == of_address("2001:db8:1:2::1")
    assert of_address("2001:db8:1:2::1") != of_address("2001:db8:1:3::1")
    assert of_address("::ffff:192.0.2.1") == "192.0.2.1"
    assert of_address("192.0.2.1") == "192.0.2.1"
    assert of_address("fe80::1%eth0") == of_address("fe80::2%eth0")
    assert of_address("unix:") == "unix:"


@pytest.mark.parametrize("host", ["2001:db8:1:2::1", "2001:db8:1:2:ffff::2"])
def test_connections_of_one_network_count_as_one_address(host: str) -> None:
    """No host of IPv6 may pass the limit of an address by taking another address of its /64."""
    assert address_of(From(host)) == address_of(From("2001:db8:1:2::3"))
    assert address_of(From(host)) != address_of(From("2001:db8:1:3::3"))


def test_all_addresses_of_one_network_share_the_handshakes_of_one() -> None:
    rates = HandshakeRates()
    hosts = [f"2001:db8:1:2::{number:x}" for number in range(HANDSHAKES_AT_ONCE + 5)]
    assert [rates.take(host, 0.0) for host in hosts].count(False) == 5
    assert rates.take("2001:db8:1:3::1", 0.0)
