"""Run in a network namespace of its own, where every address is this machine and answers:
`python -m tests.security.egress_namespace`. A fake metadata service listens at 169.254.169.254 as
one does at 10.0.0.5, on the ports that webhooks may have and on some that they may not. Requests
are made that want to get there; a packet socket hears all that leaves. Prints one line of JSON.
"""

from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
from collections import Counter
from collections.abc import Sequence
from ipaddress import IPv4Address, IPv6Address

import uvloop
from aiohttp.abc import AbstractResolver, ResolveResult

from edge.egress.addresses import denied_for
from edge.egress.guard import Guard
from harness.hostile_endpoint import HostileEndpoint
from subscribe_forwarder.push.requests import PushRequest
from subscribe_forwarder.push.sender import OneRule, Sender

PUBLIC = "93.184.216.34"
METADATA = "169.254.169.254"
ALL_PACKETS = 0x0003
PORTS = (443, 8443)
PLAIN_PORTS = (22, 80, 3128)
PRIVATE = (
    "127.0.0.1", "10.0.0.5", "172.16.0.5", "192.168.0.5", "100.64.0.5", METADATA, "198.18.0.1",
    "0.0.0.1", "::1", "::ffff:169.254.169.254", "::ffff:10.0.0.5", "::127.0.0.1",
    "64:ff9b::169.254.169.254", "64:ff9b::10.0.0.5", "2002:a9fe:a9fe::1", "2001:0:4136:e378::1",
    "fd00::5", "fe80::5", "fec0::5", "ff02::1",
)  # fmt: skip
URLS = (
    f"http://{METADATA}/latest/meta-data/", f"https://{METADATA}/", "https://2852039166/",
    "https://0xa9fea9fe/", "https://0251.0376.0251.0376/", "https://169.254.43518/",
    "https://[::ffff:a9fe:a9fe]/", "https://[64:ff9b::a9fe:a9fe]/", "https://[::1]/",
    "https://127.1/", "https://0/", f"https://hook.example@{METADATA}/",
    f"https://hook.example:x@{METADATA}/", f"https://{METADATA}#@hook.example/",
    f"https://hook.example\\@{METADATA}/", "https://hook.example:22/", "http://hook.example/",
    "https://hook.example:3128/", f"https://{METADATA}.:8443/", "https://localhost/",
)  # fmt: skip
PROXIES = ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY")


class Names(AbstractResolver):
    """`hook.example` is public; any other name has what it was given, one answer after another."""

    def __init__(self) -> None:
        self.answers: dict[str, list[Sequence[str]]] = {"localhost": [["127.0.0.1", "::1"]]}

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        answers = self.answers.get(host, [[PUBLIC]])
        addresses = answers.pop(0) if len(answers) > 1 else answers[0]
        return [
            ResolveResult(hostname=host, host=one, port=port, family=family, proto=0, flags=0)
            for one in addresses
        ]

    async def close(self) -> None:
        pass


class Wire:
    """Counts packets, by where they go."""

    def __init__(self) -> None:
        self._socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ALL_PACKETS))
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024 * 1024)

    def count(self) -> Counter[str]:
        """Return the packets since the last call, by destination."""
        seen: Counter[str] = Counter()
        while True:
            try:
                packet = self._socket.recv(65_536)
            except BlockingIOError:
                return seen
            if packet[0] >> 4 == 4:
                seen[str(IPv4Address(packet[16:20]))] += 1
            elif packet[0] >> 4 == 6:
                seen[str(IPv6Address(packet[24:40]))] += 1


def make_every_address_ours() -> None:
    """Route packets to all addresses over `lo`, so that they come back."""
    for command in (
        ("link", "set", "lo", "up"),
        ("route", "add", "local", "0.0.0.0/0", "dev", "lo"),
        ("-6", "route", "add", "local", "::/0", "dev", "lo"),
    ):
        subprocess.run(("ip", *command), check=True)


async def run() -> dict[str, object]:
    """Return the attempts, and the destinations of packets and connections."""
    wire, names = Wire(), Names()
    async with HostileEndpoint() as endpoint:
        for port in PORTS:
            for host in ("0.0.0.0", "::"):
                await endpoint.listen(host, port, tls="ok")
        for port in PLAIN_PORTS:
            for host in ("0.0.0.0", "::"):
                await endpoint.listen(host, port)
        sender = Sender(OneRule(Guard()), resolver=names, ssl_context=endpoint.trusting())
        outcomes = await tried(sender, names)
        await sender.close()
        packets, reached = wire.count(), Counter(endpoint.reached)
        # That the counters count: what nothing guards gets there.
        for address in (METADATA, "64:ff9b::a9fe:a9fe"):
            reader, writer = await asyncio.open_connection(address, 80)
            writer.write(b"POST /early-close HTTP/1.1\r\n\r\n")
            await reader.read()
            writer.close()
        control = {"packets": wire.count(), "connections": endpoint.reached - reached}
    return {
        "control": control,
        "outcomes": outcomes,
        "denied_packets": {ip: count for ip, count in packets.items() if is_denied(ip)},
        "denied_connections": {ip: count for ip, count in reached.items() if is_denied(ip)},
        "packets": packets.total(),
        "reached": reached,
    }


async def tried(sender: Sender, names: Names) -> dict[str, str]:
    """Return the failure of each attempt, or the status if an endpoint answered."""

    async def send(url: str) -> str:
        answer = await sender.send(PushRequest(url, [], b"{}", bytes(16)), 10)
        return answer.failure or str(answer.status)

    outcomes = {"allowed": await send("https://hook.example/ok")}
    outcomes["redirect"] = await send("https://hook.example/redirect")
    for url in URLS:
        outcomes[url] = await send(url)
    for at, address in enumerate(PRIVATE):
        names.answers[f"n{at}.example"] = [[address]]
        outcomes[f"name of {address}"] = await send(f"https://n{at}.example/")
        for place, mixed in (("first", [address, PUBLIC]), ("last", [PUBLIC, address])):
            name = f"mixed-{place}-{at}.example"
            names.answers[name] = [mixed]
            outcomes[f"mixed, {place}: {address}"] = await send(f"https://{name}/")
        name = f"rebound-{at}.example"
        names.answers[name] = [[PUBLIC], [address]]
        for turn in ("public", "private"):
            # A client that asks again for each connection is given the second answer.
            outcomes[f"rebound, {turn}: {address}"] = await send(f"https://{name}:8443/early-close")
            for session in sender._sessions.values():
                session.connector.clear_dns_cache()  # type: ignore[union-attr]
    for variable in PROXIES:
        os.environ[variable] = "http://10.0.0.5:3128"
    outcomes["proxies"] = await send("https://hook.example/ok")
    return outcomes


def is_denied(text: str) -> bool:
    address = IPv6Address(text) if ":" in text else IPv4Address(text)
    return denied_for(address) is not None


if __name__ == "__main__":
    make_every_address_ours()
    print(json.dumps(uvloop.run(run())))
