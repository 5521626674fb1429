"""Lists the addresses that outbound requests may not be sent to.

Packetboat has its own table: `ipaddress.is_global` holds for multicast, for NAT64 and 6to4 of a
private address, and for services of clouds that have public addresses. An address that carries an
IPv4 address is checked by that one as well.
"""

from __future__ import annotations

from ipaddress import (
    IPv4Address,
    IPv4Network,
    IPv6Address,
    IPv6Network,
    ip_address,
    ip_network,
)

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network

DENIED_V4 = tuple(
    (IPv4Network(network), what)
    for network, what in (
        ("0.0.0.0/8", "this host"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "shared address space"),
        ("127.0.0.0/8", "loopback"),
        ("168.63.129.16/32", "a cloud's metadata"),
        ("169.254.0.0/16", "link-local, where clouds keep metadata"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "protocol assignments"),
        ("192.0.2.0/24", "documentation"),
        ("192.31.196.0/24", "AS112"),
        ("192.52.193.0/24", "AMT"),
        ("192.88.99.0/24", "6to4 relays"),
        ("192.168.0.0/16", "private"),
        ("192.175.48.0/24", "AS112"),
        ("198.18.0.0/15", "benchmarks"),
        ("198.51.100.0/24", "documentation"),
        ("203.0.113.0/24", "documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
    )
)
GLOBAL_V6 = IPv6Network("2000::/3")
"""The only range of IPv6 that is allowed: loopback, unique local, link-local, multicast and
unassigned addresses are outside of it.
"""
DENIED_V6 = tuple(
    (IPv6Network(network), what)
    for network, what in (
        ("2001::/23", "protocol assignments, Teredo among them"),
        ("2001:db8::/32", "documentation"),
        ("2002::/16", "6to4"),
        ("2620:4f:8000::/48", "AS112"),
        ("3fff::/20", "documentation"),
    )
)
NAT64 = IPv6Network("64:ff9b::/96")
_MAPPED = IPv6Network("::ffff:0:0/96")
_TRANSLATED = IPv6Network("::ffff:0:0:0/96")
_COMPATIBLE = IPv6Network("::/96")


def parse(text: str) -> Address:
    """Parse an address in its usual notation; a zone (`%eth0`) is ignored.

    Raises ValueError for every other notation.
    """
    return ip_address(text.partition("%")[0])


def parse_network(text: str) -> Network:
    """Parse a network. Raises ValueError, also if bits beside the mask are set."""
    return ip_network(text)


def plain(address: Address) -> Address:
    """Return an IPv4-mapped address as IPv4, since the kernel sends to that."""
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def carried(address: IPv6Address) -> tuple[IPv4Address, ...]:
    """Return the IPv4 addresses at which a packet to an IPv6 address may arrive."""
    if address in NAT64 or address in _TRANSLATED or address in _COMPATIBLE or address in _MAPPED:
        return (IPv4Address(int(address) & 0xFFFFFFFF),)
    if address.sixtofour is not None:
        return (address.sixtofour,)
    if address.teredo is not None:
        return address.teredo
    return ()


def denied_for(address: Address) -> str | None:
    """Return why nothing may be sent to an address, or None if it is of the public internet."""
    address = plain(address)
    if isinstance(address, IPv4Address):
        return next((what for network, what in DENIED_V4 if address in network), None)
    for inner in carried(address):
        what = denied_for(inner)
        if what is not None:
            return f"{what} ({inner})"
    if address in NAT64:
        return None
    if address not in GLOBAL_V6:
        return "not of the global unicast space"
    return next((what for network, what in DENIED_V6 if address in network), None)
