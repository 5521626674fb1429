"""Checks outbound requests by rules: which schemes, names, ports and addresses are allowed.

Without an exception, only https is allowed, to the ports listed, and to public addresses. Each
exception is an entry of the form

    [http://](network | host | *.suffix)[:port | :*]

`http://` allows plain HTTP there as well. A named host may have any address; a network may have any
name. Without a port, the usual ports are allowed.
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
    """The rules of this installation forbid the request, and nothing was sent."""


class Allowance(NamedTuple):
    """An entry of a list of exceptions."""

    network: Network | None
    host: str
    """A name in lower case, all names below it if it begins with `*.`, or empty if there is a
    network.
    """
    http: bool
    port: int | None
    """The only port; None stands for the usual ports, 0 for all."""

    def names(self, host: str) -> bool:
        if self.host.startswith("*."):
            return host.endswith(self.host[1:])
        return self.host != "" and host == self.host

    def holds(self, address: Address) -> bool:
        """Return whether an address is in this entry's network."""
        return self.network is not None and address in self.network

    def fits(self, scheme: str, port: int) -> bool:
        """Return whether this entry allows a scheme and a port."""
        if scheme == "http" and not self.http:
            return False
        if self.port is None:
            return port in (HTTP_PORTS | HTTPS_PORTS if self.http else HTTPS_PORTS)
        return self.port in (0, port)


class Target(NamedTuple):
    """The scheme, host and port that a request asks for."""

    scheme: str
    host: str
    """Lower case, without brackets and the dot at the end."""
    port: int


def parse_allowance(text: str) -> Allowance:
    """Parse an entry. Raises ValueError that says how an entry is written."""
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
    """Return the entries of a setting, which has commas between them.

    Raises ValueError for the first that is no entry.
    """
    entries = tuple(entry.strip() for entry in text.split(",") if entry.strip())
    for entry in entries:
        parse_allowance(entry)
    return entries


class Guard:
    """A set of rules that does not change; two with the same entries are equal."""

    __slots__ = ("_allowances", "_networks", "_ports", "key")

    def __init__(self, allowed: Iterable[str] = (), ports: Iterable[int] = HTTPS_PORTS) -> None:
        """Parse the entries. Raises ValueError for the first that is no entry."""
        entries = tuple(dict.fromkeys(allowed))
        self._allowances = tuple(parse_allowance(entry) for entry in entries)
        self._networks = tuple(one for one in self._allowances if one.network is not None)
        self._ports = frozenset(ports)
        self.key = (entries, self._ports)
        """Rules as a hashable value."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Guard) and other.key == self.key

    def __hash__(self) -> int:
        """Return the hash of the entries, by which guards are equal."""
        return hash(self.key)

    def target(self, scheme: str, host: str | None, port: int | None) -> Target:
        """Check a URL as far as possible before its name is looked up.

        Raises EgressDenied.

        `host` is as the client will use it, with international characters encoded.
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
        """Raise EgressDenied unless the target may be reached at an address."""
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
        """Check that everybody may reach an address, at the usual ports. Raises EgressDenied."""
        what = denied_for(parse(ip) if isinstance(ip, str) else ip)
        if what is not None:
            raise EgressDenied(f"the address {ip} is not allowed: {what}")

    def _may_fit(self, target: Target) -> bool:
        """Return whether some address of the target may be allowed.

        Networks count, since the addresses of a name are not known yet.
        """
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
    """Return the address that a host is, or None for a name.

    Raises EgressDenied for an address in a notation that resolvers read differently (octal,
    hexadecimal, with parts left out, as one number).
    """
    try:
        return parse(host.removeprefix("[").removesuffix("]"))
    except ValueError:
        if ":" in host or "%" in host or _ends_in_number(host):
            raise EgressDenied(f"the address {host} is not written as a.b.c.d") from None
        return None


def _ends_in_number(host: str) -> bool:
    return _NUMBER.fullmatch(host.rpartition(".")[2]) is not None
