"""The rules of outbound requests: which schemes, names, ports and addresses are allowed.

Without an exception: https, to the ports listed, and to public addresses alone. What is allowed
beside that is said entry by entry, as

    [http://](network | host | *.suffix)[:port | :*]

`http://` allows plain HTTP there as well. A named host may have any address; a network may have any
name. Without a port, the usual ones count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from edge.egress.addresses import Address, Network, denied_for, parse, parse_network, plain

HTTPS_PORTS = frozenset({443, 8443})
HTTP_PORTS = frozenset({80, 8080})
MAX_URL_CHARS = 2048
_ENTRY = re.compile(
    r"(?P<http>http://)?"
    r"(?:\[(?P<bracketed>[0-9A-Fa-f:./]+)\]|(?P<bare>[0-9A-Fa-f:]*:[0-9A-Fa-f:]*:[0-9A-Fa-f:./]*)"
    r"|(?P<name>[^:\[\]]+))"
    r"(?::(?P<port>\d{1,5}|\*))?"
)
_HOST = re.compile(r"(\*\.)?[a-z0-9_]([a-z0-9_.-]*[a-z0-9_])?")
_NUMBER = re.compile(r"[0-9]+|0[xX][0-9A-Fa-f]*")


class EgressDenied(Exception):
    """The rules of this installation forbid the request. Nothing was sent."""


class Allowance(NamedTuple):
    """One entry of a list of exceptions."""

    network: Network | None
    host: str
    """Lower case; `*.` in front: all below; empty where there is a network."""
    http: bool
    port: int | None
    """None: the usual ones; 0: all."""

    def names(self, host: str) -> bool:
        if self.host.startswith("*."):
            return host.endswith(self.host[1:])
        return self.host != "" and host == self.host

    def holds(self, address: Address) -> bool:
        return self.network is not None and address in self.network

    def fits(self, scheme: str, port: int) -> bool:
        if scheme == "http" and not self.http:
            return False
        if self.port is None:
            return port in (HTTP_PORTS | HTTPS_PORTS if self.http else HTTPS_PORTS)
        return self.port in (0, port)


class Target(NamedTuple):
    """Where a request wants to go."""

    scheme: str
    host: str
    """Lower case, without brackets and the dot at the end."""
    port: int


def parse_allowance(text: str) -> Allowance:
    """Raises ValueError that says how an entry is written."""
    found = _ENTRY.fullmatch(text.strip())
    port = found["port"] if found else None
    if found is None or (port not in (None, "*") and not 0 < int(port) < 65536):
        raise ValueError(f"{text!r}: an entry is [http://](network|host|*.suffix)[:port|:*]")
    number = None if port is None else 0 if port == "*" else int(port)
    where = (found["bracketed"] or found["bare"] or found["name"]).lower().rstrip(".")
    try:
        network = parse_network(where)
    except ValueError:
        if "/" in where or ":" in where or _ends_in_number(where) or not _HOST.fullmatch(where):
            raise ValueError(f"{text!r}: neither a network, nor the name of a host") from None
        return Allowance(None, where, found["http"] is not None, number)
    return Allowance(network, "", found["http"] is not None, number)


def parse_allowances(text: str) -> tuple[str, ...]:
    """Of a setting: entries with commas between. Raises ValueError for the first that is none."""
    entries = tuple(entry.strip() for entry in text.split(",") if entry.strip())
    for entry in entries:
        parse_allowance(entry)
    return entries


class Guard:
    """Rules that do not change; two of the same list are equal."""

    __slots__ = ("_allowances", "_networks", "_ports", "key")

    def __init__(self, allowed: Iterable[str] = (), ports: Iterable[int] = HTTPS_PORTS) -> None:
        """Raises ValueError for an entry that is none."""
        entries = tuple(dict.fromkeys(allowed))
        self._allowances = tuple(parse_allowance(entry) for entry in entries)
        self._networks = tuple(one for one in self._allowances if one.network is not None)
        self._ports = frozenset(ports)
        self.key = (entries, self._ports)
        """What its rules are; hashable."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Guard) and other.key == self.key

    def __hash__(self) -> int:
        return hash(self.key)

    def target(self, scheme: str, host: str | None, port: int | None) -> Target:
        """What of a URL can be judged before its name is looked up. Raises EgressDenied.

        `host` is as the client will use it, with what is international encoded.
        """
        if scheme not in ("http", "https"):
            raise EgressDenied(f"the scheme is {scheme!r}: only https is allowed")
        host = (host or "").lower().rstrip(".")
        if not host:
            raise EgressDenied("there is no host")
        if port is None:
            port = 443 if scheme == "https" else 80
        target = Target(scheme, host, port)
        address = _literal(host)
        if address is not None:
            self.check_address(target, address)
        elif not self._may_fit(target):
            raise EgressDenied(self._misfit(target))
        return target

    def check_address(self, target: Target, address: Address | str) -> None:
        """Whether the target may be sought at that address. Raises EgressDenied."""
        address = plain(parse(address) if isinstance(address, str) else address)
        for one in self._allowances:
            if (one.holds(address) or one.names(target.host)) and one.fits(
                target.scheme, target.port
            ):
                return
        if target.scheme != "https" or target.port not in self._ports:
            raise EgressDenied(self._misfit(target))
        self.check(address)

    def check(self, ip: Address | str) -> None:
        """Whether an address may be reached by all, at the usual ports. Raises EgressDenied."""
        what = denied_for(parse(ip) if isinstance(ip, str) else ip)
        if what is not None:
            raise EgressDenied(f"the address {ip} is not allowed: {what}")

    def _may_fit(self, target: Target) -> bool:
        """Networks count: what address a name has is not known yet."""
        if target.scheme == "https" and target.port in self._ports:
            return True
        return any(
            one.fits(target.scheme, target.port) and (one.network or one.names(target.host))
            for one in self._allowances
        )

    def _misfit(self, target: Target) -> str:
        if target.scheme != "https":
            return f"plain http to {target.host} is not allowed: use https"
        ports = ", ".join(str(port) for port in sorted(self._ports))
        return f"port {target.port} is not allowed: use one of {ports}"


def _literal(host: str) -> Address | None:
    """Of a host that is an address; EgressDenied for one in a notation that resolvers read apart
    (octal, hexadecimal, with parts left out, as one number)."""
    try:
        return parse(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        if ":" in host or "%" in host or _ends_in_number(host):
            raise EgressDenied(f"the address {host} is not written as a.b.c.d") from None
        return None


def _ends_in_number(host: str) -> bool:
    return _NUMBER.fullmatch(host.rpartition(".")[2]) is not None
