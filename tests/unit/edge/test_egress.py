"""Row 26 of the fault matrix: what may be asked of the world outside, and what never is."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Sequence
from ipaddress import IPv4Address, IPv6Address, IPv6Network
from typing import Any

import aiohttp
import pytest
from aiohttp.abc import AbstractResolver, ResolveResult
from hypothesis import given
from hypothesis import strategies as st

from edge.egress.addresses import denied_for, parse
from edge.egress.guard import EgressDenied, Guard, Target, parse_allowance, parse_allowances
from edge.egress.session import BodyTooLong, check_url, guarded_session, read_capped
from harness.hostile_endpoint import HostileEndpoint

DENIED = [
    "0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.100.100.200",
    "127.0.0.1", "127.255.255.255", "168.63.129.16", "169.254.169.254", "169.254.170.2",
    "172.16.0.1", "172.31.255.255", "192.0.0.8", "192.0.0.192", "192.0.2.1", "192.31.196.1",
    "192.52.193.1", "192.88.99.1", "192.168.0.1", "192.175.48.1", "198.18.0.1", "198.19.255.255",
    "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255", "240.0.0.1", "255.255.255.255",
    "::", "::1", "::127.0.0.1", "::8.8.8.8", "::ffff:127.0.0.1", "::ffff:169.254.169.254",
    "::ffff:10.0.0.1", "::ffff:0:127.0.0.1", "64:ff9b::127.0.0.1", "64:ff9b::169.254.169.254",
    "64:ff9b::10.0.0.1", "64:ff9b:1::1", "64:ff9b:1::8.8.8.8", "100::1", "2001::1",
    "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001:10::1", "2001:20::1", "2001:db8::1",
    "2002:7f00:1::", "2002:a9fe:a9fe::", "2002:a00:1::1", "2002:808:808::1", "2620:4f:8000::1",
    "3fff::1", "4000::1", "5f00::1", "fc00::1", "fd00:ec2::254", "fdff::1", "fe80::1",
    "fe80::1%eth0", "fec0::1", "ff02::1", "ff0e::1",
]  # fmt: skip
ALLOWED = [
    "1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0",
    "126.255.255.255", "128.0.0.0", "169.253.255.255", "169.255.0.0", "172.15.255.255",
    "172.32.0.0", "192.0.1.0", "192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0",
    "223.255.255.255", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8", "2000::1", "2001:200::1",
    "2001:4860:4860::8888", "2606:4700:4700::1111", "2a00:1450:4001:81b::200e", "3ffe::1",
]  # fmt: skip


@pytest.mark.parametrize("text", DENIED)
def test_denied(text: str) -> None:
    assert denied_for(parse(text))
    with pytest.raises(EgressDenied, match="not allowed"):
        Guard().check(text)


@pytest.mark.parametrize("text", ALLOWED)
def test_allowed(text: str) -> None:
    assert denied_for(parse(text)) is None
    Guard().check(text)


@given(st.integers(0, 2**32 - 1))
def test_an_address_carried_in_another_is_no_better_than_alone(number: int) -> None:
    alone = denied_for(IPv4Address(number))
    assert denied_for(IPv6Address((0xFFFF << 32) | number)) == alone
    nat64 = denied_for(IPv6Address(int(IPv6Network("64:ff9b::/96").network_address) | number))
    assert (nat64 is None) is (alone is None)
    for prefix in (0x2002 << 112, 0x20010000 << 96):
        assert denied_for(IPv6Address(prefix | number << 80 if prefix >> 112 == 0x2002 else prefix))


@given(st.integers(0, 2**32 - 1))
def test_ours_denies_what_the_standard_library_calls_not_global(number: int) -> None:
    address = IPv4Address(number)
    if not address.is_global:
        assert denied_for(address)


URLS_DENIED = [
    "http://example.com/", "ftp://example.com/", "file:///etc/passwd", "gopher://example.com/",
    "javascript:alert(1)", "//example.com/", "example.com", "https://", "https:///x", "",
    "https://user@example.com/", "https://user:secret@example.com/", "https://@example.com/",
    "https://:x@example.com/", "https://example.com@10.0.0.1/", "https://example.com:22/",
    "https://example.com:25/", "https://example.com:6379/", "https://example.com:80/",
    "https://example.com:0/", "https://example.com:65536/", "https://example.com:x/",
    "https://example.com/#fragment", "https://example.com/#", "https://example.com/ x",
    "https://example.com\\@10.0.0.1/", "https://exam\tple.com/", "https://example.com/\r\nX: y",
    "https://127.0.0.1/", "https://127.0.0.1./", "https://127.1/", "https://127.0.1/",
    "https://2130706433/", "https://0x7f000001/", "https://0x7f.0.0.1/", "https://0177.0.0.1/",
    "https://017700000001/", "https://127.0.0.01/", "https://0/", "https://1.2.3.4.5/",
    "https://256.1.1.1/", "https://example.0x7f/", "https://1.1.1.0x1/",
    "https://\u2460\u2461\u2466.\u24ea.\u24ea.\u2460/", "https://\uff11\uff12\uff17.0.0.1/",
    "https://127\u30020\u30020\u30021/", "https://169.254.169.254/latest/meta-data/",
    "https://[::1]/", "https://[::]/", "https://[::ffff:127.0.0.1]/", "https://[::ffff:7f00:1]/",
    "https://[0:0:0:0:0:ffff:a9fe:a9fe]/", "https://[64:ff9b::a9fe:a9fe]/",
    "https://[2002:7f00:1::]/", "https://[fe80::1%25eth0]/", "https://[fd00:ec2::254]/",
    "https://[::1", "https://[127.0.0.1]/", "https://10.0.0.1:8443/",
    "https://example.com/" + "x" * 2048,
]  # fmt: skip


@pytest.mark.parametrize("url", URLS_DENIED)
def test_urls_that_are_refused_before_any_look_up(url: str) -> None:
    with pytest.raises(EgressDenied):
        check_url(Guard(), url)


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("https://example.com", ("https", "example.com", 443)),
        ("HTTPS://Example.COM.:8443/a?b=c", ("https", "example.com", 8443)),
        ("https://1.1.1.1/", ("https", "1.1.1.1", 443)),
        ("https://[2606:4700:4700::1111]/x", ("https", "2606:4700:4700::1111", 443)),
        ("https://b\u00fccher.example/", ("https", "xn--bcher-kva.example", 443)),
        ("https://7.example/", ("https", "7.example", 443)),
        ("https://example.com/a@b", ("https", "example.com", 443)),
    ],
)
def test_urls_that_are_not(url: str, target: tuple[str, str, int]) -> None:
    assert check_url(Guard(), url) == Target(*target)


class TestExceptions:
    @pytest.mark.parametrize(
        ("entry", "url", "address"),
        [
            ("10.1.0.0/16", "https://a.example/", "10.1.2.3"),
            ("10.1.2.3", "https://10.1.2.3/", "10.1.2.3"),
            ("10.1.0.0/16", "https://a.example:8443/", "10.1.2.3"),
            ("10.1.0.0/16:9443", "https://a.example:9443/", "10.1.2.3"),
            ("10.1.0.0/16:*", "https://a.example:1/", "10.1.2.3"),
            ("http://10.1.0.0/16", "http://a.example/", "10.1.2.3"),
            ("http://10.1.0.0/16", "http://a.example:8080/", "10.1.2.3"),
            ("http://10.1.0.0/16", "https://a.example/", "10.1.2.3"),
            ("http://127.0.0.0/8:*", "http://127.0.0.1:9000/", "127.0.0.1"),
            ("http://[::1]:*", "http://[::1]:9000/", "::1"),
            ("::1", "https://[::1]/", "::1"),
            ("fd00::/8", "https://a.example/", "fd12::1"),
            ("[fd00::/8]:99", "https://[fd12::1]:99/", "fd12::1"),
            ("hook.internal", "https://hook.internal/", "10.9.9.9"),
            ("http://hook.internal:7000", "http://hook.internal:7000/", "192.168.1.1"),
            ("*.internal", "https://a.b.internal/", "10.9.9.9"),
            ("HOOK.internal.", "https://hook.INTERNAL./", "10.9.9.9"),
            ("10.1.0.0/16", "https://a.example/", "::ffff:10.1.2.3"),
        ],
    )
    def test_what_an_entry_allows(self, entry: str, url: str, address: str) -> None:
        guard = Guard([entry])
        guard.check_address(check_url(guard, url), address)
        with pytest.raises(EgressDenied):
            Guard().check_address(check_url(guard, url), address)

    @pytest.mark.parametrize(
        ("entry", "url", "address"),
        [
            ("10.1.0.0/16", "https://a.example/", "10.2.0.1"),
            ("10.1.0.0/16", "https://a.example:9443/", "10.1.2.3"),
            ("10.1.0.0/16", "http://a.example/", "10.1.2.3"),
            ("10.1.0.0/16:9443", "https://a.example/", "10.1.2.3"),
            ("http://10.1.0.0/16", "http://a.example/", "1.1.1.1"),
            ("http://10.1.0.0/16:*", "http://a.example:9000/", "1.1.1.1"),
            ("http://10.1.0.0/16:*", "https://a.example:9000/", "1.1.1.1"),
            ("hook.internal", "https://a.hook.internal/", "10.9.9.9"),
            ("*.internal", "https://internal/", "10.9.9.9"),
            ("*.internal", "https://ainternal/", "10.9.9.9"),
            ("hook.internal", "https://a.example/", "10.9.9.9"),
            ("0.0.0.0/0", "https://a.example/", "fd00::1"),
            ("10.0.0.0/8", "https://a.example/", "64:ff9b::10.0.0.1"),
        ],
    )
    def test_what_it_does_not(self, entry: str, url: str, address: str) -> None:
        guard = Guard([entry])
        with pytest.raises(EgressDenied):
            guard.check_address(check_url(guard, url), address)

    @pytest.mark.parametrize(
        "entry",
        ["", "a b", "https://x", "10.0.0.1/8", "10.0.0.0/33", "1.2.3", "0x7f.1", "host:0",
         "host:65536", "host:http", "[::1", "*", "*.", "a/b", "ftp://x", "user@host", "x.*.y"],
    )  # fmt: skip
    def test_entries_that_are_none(self, entry: str) -> None:
        with pytest.raises(ValueError, match=r"entry is|neither"):
            parse_allowance(entry)

    def test_lists(self) -> None:
        assert parse_allowances(" 10.0.0.0/8, a.example:* ,,") == ("10.0.0.0/8", "a.example:*")
        assert parse_allowances("") == ()
        assert Guard(["a"]) == Guard(["a", "a"]) != Guard(["b"])
        assert hash(Guard(["a"])) == hash(Guard(["a"]))


class Script(AbstractResolver):
    """Answers look-ups as told, and says how many there were."""

    def __init__(self, *answers: Sequence[str]) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        self.asked.append(host)
        addresses = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        return [
            ResolveResult(
                hostname=host, host=each, port=port, family=socket.AF_INET, proto=0, flags=0
            )
            for each in addresses
        ]

    async def close(self) -> None:
        pass


class Sockets:
    """Counts who is connected to, and connects to nobody."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.connected: list[str] = []

        async def connect(loop: Any, sock: socket.socket, address: tuple[Any, ...]) -> None:
            self.connected.append(address[0])
            raise ConnectionRefusedError("a test")

        monkeypatch.setattr(asyncio.selector_events.BaseSelectorEventLoop, "sock_connect", connect)


@pytest.fixture
def sockets(monkeypatch: pytest.MonkeyPatch) -> Sockets:
    return Sockets(monkeypatch)


async def ask(
    url: str, resolver: AbstractResolver, guard: Guard | None = None, **options: Any
) -> None:
    async with guarded_session(guard or Guard(), resolver=resolver, **options) as session:
        await session.post(url, data=b"x")


@pytest.mark.parametrize(
    "addresses",
    [
        ["10.0.0.1"],
        ["169.254.169.254"],
        ["1.1.1.1", "10.0.0.1"],
        ["10.0.0.1", "1.1.1.1"],
        ["1.1.1.1", "::ffff:127.0.0.1"],
        ["2606:4700:4700::1111", "64:ff9b::a9fe:a9fe"],
        ["2002:7f00:1::"],
        ["1.1.1.1", "fe80::1%eth0"],
    ],
)
async def test_a_name_with_any_denied_address_is_refused_whole(
    sockets: Sockets, addresses: list[str]
) -> None:
    script = Script(addresses)
    with pytest.raises(EgressDenied, match=r"hook\.example"):
        await ask("https://hook.example/", script)
    assert (script.asked, sockets.connected) == (["hook.example"], [])


async def test_a_name_that_was_public_and_is_private_now(sockets: Sockets) -> None:
    """Rebinding: there is no second look-up between the check and the connection."""
    script = Script(["1.1.1.1"], ["127.0.0.1"])
    async with guarded_session(Guard(), resolver=script) as session:
        with pytest.raises(aiohttp.ClientConnectorError):
            await session.post("https://hook.example/")
        assert (script.asked, sockets.connected) == (["hook.example"], ["1.1.1.1"])
        assert isinstance(session.connector, aiohttp.TCPConnector)
        session.connector.clear_dns_cache()
        with pytest.raises(EgressDenied):
            await session.post("https://hook.example/")
    assert sockets.connected == ["1.1.1.1"]


@pytest.mark.parametrize(
    "addresses", [["10.0.0.1"], ["1.1.1.1", "10.0.0.1"], ["10.0.0.1", "1.1.1.1", "fd00::1"]]
)
async def test_the_socket_is_checked_by_itself(
    sockets: Sockets, monkeypatch: pytest.MonkeyPatch, addresses: list[str]
) -> None:
    """Were the look-up's check gone, no denied address would be connected to all the same."""

    async def unchecked(self: Any, *args: Any, **named: Any) -> list[ResolveResult]:
        found: list[ResolveResult] = await self._inner.resolve(*args, **named)
        return found

    monkeypatch.setattr("edge.egress.session.GuardedResolver.resolve", unchecked)
    with pytest.raises(EgressDenied):
        await ask("https://hook.example/", Script(addresses))
    assert set(sockets.connected) <= {"1.1.1.1"}


async def test_a_look_up_that_was_kept_is_no_way_past_the_scheme(sockets: Sockets) -> None:
    guard, script = Guard(["http://10.0.0.0/8:443"]), Script(["1.1.1.1"])
    async with guarded_session(guard, resolver=script) as session:
        with pytest.raises(aiohttp.ClientConnectorError):
            await session.post("https://hook.example:443/")
        with pytest.raises(EgressDenied, match="http"):
            await session.post("http://hook.example:443/")
    assert sockets.connected == ["1.1.1.1"]


@pytest.mark.parametrize("url", ["https://10.0.0.1/", "https://127.1/", "http://a.example/"])
async def test_urls_are_checked_where_requests_are_made(sockets: Sockets, url: str) -> None:
    script = Script(["1.1.1.1"])
    with pytest.raises((EgressDenied, aiohttp.InvalidURL)):
        await ask(url, script)
    assert (script.asked, sockets.connected) == ([], [])


async def test_proxies_of_the_environment_are_not_heard(
    sockets: Sockets, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "https_proxy", "http_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:3128")
    script = Script(["1.1.1.1"])
    with pytest.raises(aiohttp.ClientConnectorError):
        await ask("https://hook.example/", script)
    assert (script.asked, sockets.connected) == (["hook.example"], ["1.1.1.1"])


@pytest.fixture
async def endpoint() -> AsyncIterator[HostileEndpoint]:
    async with HostileEndpoint() as endpoint:
        yield endpoint


HERE = Guard(["http://127.0.0.0/8:*"])


async def test_redirects_are_not_followed(endpoint: HostileEndpoint) -> None:
    async with guarded_session(HERE) as session:
        with pytest.raises(EgressDenied, match="redirects are not followed"):
            await session.post(endpoint.url("/redirect"))
        async with session.post(endpoint.url("/redirect"), allow_redirects=False) as response:
            assert response.status == 302
    assert endpoint.counts == {"/redirect": 2}


async def test_bodies_have_a_limit(endpoint: HostileEndpoint) -> None:
    async with guarded_session(HERE) as session:
        async with session.post(endpoint.url("/huge")) as response:
            with pytest.raises(BodyTooLong, match="1000"):
                await read_capped(response, 1000)
        async with session.post(endpoint.url("/ok")) as response:
            assert await read_capped(response, 10) == b"this is ok"
        async with session.post(endpoint.url("/ok")) as response:
            with pytest.raises(BodyTooLong):
                await read_capped(response, 9)


async def test_a_name_is_pinned_to_its_address_and_its_certificate(
    endpoint: HostileEndpoint,
) -> None:
    """The connection goes to the address that was checked; TLS and Host are of the name."""
    port = endpoint.ports["ok"]
    async with guarded_session(
        Guard([f"hook.example:{port}", f"other.example:{port}"]),
        resolver=Script(["127.0.0.1"]),
        ssl_context=endpoint.trusting(),
    ) as session:
        async with session.post(f"https://hook.example:{port}/ok") as response:
            assert response.status == 200
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await session.post(f"https://other.example:{port}/ok")
    (received,) = endpoint.received
    assert received.header("host") == f"hook.example:{port}"


class Proxy:
    """A forward proxy that answers CONNECT by its own rules, as smokescreen does."""

    def __init__(self, to: int) -> None:
        self.asked: list[str] = []
        self._to = to

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.asked.append(head.split("\r\n")[0])
        if "denied" in self.asked[-1]:
            writer.write(b"HTTP/1.1 407 Request rejected by proxy\r\nContent-Length: 0\r\n\r\n")
            writer.close()
            return
        there, to = await asyncio.open_connection("127.0.0.1", self._to)
        writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
        await asyncio.gather(self._pipe(reader, to), self._pipe(there, writer))

    async def _pipe(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            writer.write(data)
        writer.close()


async def test_with_a_proxy_everything_goes_there(endpoint: HostileEndpoint) -> None:
    """The proxy looks names up; everything that can be checked without that is checked before."""
    proxy = Proxy(endpoint.ports["ok"])
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    script = Script(["127.0.0.1"])
    async with guarded_session(
        Guard(),
        resolver=script,
        ssl_context=endpoint.trusting(),
        proxy=f"http://proxy.example:{port}",
    ) as session:
        async with session.post("https://hook.example/ok", data=b"x") as response:
            assert response.status == 200
        with pytest.raises(aiohttp.ClientHttpProxyError):
            await session.post("https://denied.example/")
        for url in ("https://10.0.0.1/", "http://hook.example/", "https://hook.example:22/"):
            with pytest.raises(EgressDenied):
                await session.post(url)
    server.close()
    assert proxy.asked == [
        "CONNECT hook.example:443 HTTP/1.1",
        "CONNECT denied.example:443 HTTP/1.1",
    ]
    assert set(script.asked) == {"proxy.example"}
