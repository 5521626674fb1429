"""The key under which all that one caller begins is counted, whatever address it takes."""

from __future__ import annotations

import ipaddress


def of_address(host: str) -> str:
    """Return the key under which connections and handshakes of an address are counted.

    An IPv6 address is counted by its /64, since a host can have any number of addresses in it. Text
    that is no address stays as it is.
    """
    if ":" not in host:
        return host
    try:
        address = ipaddress.IPv6Address(host.partition("%")[0])
    except ValueError:
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return str(ipaddress.IPv6Network((int(address) >> 64 << 64, 64)))
