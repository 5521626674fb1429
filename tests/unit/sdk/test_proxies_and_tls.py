"""The way to the server: proxies, certificates. Each for both kinds of client."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from packetboat.errors import ConnectionFailed, UntrustedServer
from packetboat.options import Options, Tls
from packetboat.transport.connecting import InsecureConnection, proxy_of

from tests.unit.sdk.certificates import PASSWORD, Authority
from tests.unit.sdk.raw_server import (
    OK,
    AsyncCaller,
    Caller,
    Peer,
    RawServer,
    SyncCaller,
    answer,
    post,
)

Opened = Callable[..., Caller]
FAR = "http://boat.example:8080"


@pytest.fixture(params=["sync", "async"])
def opened(request: pytest.FixtureRequest) -> Iterator[Opened]:
    with ExitStack() as stack:

        def open_one(url: str, **options: Any) -> Caller:
            told = Options(urls=(url,), **({"retry_for_s": 0} | options))
            caller = SyncCaller(told) if request.param == "sync" else AsyncCaller(told)
            stack.callback(caller.end)
            return caller

        yield open_one


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


class Proxy:
    """Answers http itself, tunnels https to where `to` says; notes what it was asked."""

    def __init__(self, to: RawServer | None = None, status: int = 200) -> None:
        self.to = to
        self.status = status
        self.asked: list[str] = []
        self.authorization: str | None = None

    async def serve(self, peer: Peer) -> None:
        while await peer.request():
            self.asked.append(peer.head.split("\r\n")[0])
            self.authorization = peer.header("Proxy-Authorization")
            if self.status != 200:
                await peer.write(answer(self.status))
            elif self.to is None:
                await peer.write(OK)
            else:
                await self._tunnel(peer, self.to.port)
                return

    async def _tunnel(self, peer: Peer, port: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await peer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
        await asyncio.gather(_copy(peer.reader, writer), _copy(reader, peer.writer))


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()


def test_http_through_a_proxy(opened: Opened) -> None:
    proxy = Proxy()
    with RawServer(proxy.serve) as server:
        named = server.url.replace("http://", "http://me:secret@")
        assert opened(FAR, proxy=named).send(post()) == b"{}"
    assert proxy.asked == [f"POST {FAR}/topics/orders/messages HTTP/1.1"]
    assert proxy.authorization == "Basic " + base64.b64encode(b"me:secret").decode()


def test_https_through_a_proxy(opened: Opened, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    with RawServer(context=authority.server("boat.example")) as target:
        proxy = Proxy(target)
        with RawServer(proxy.serve) as server:
            tls = Tls(ca_file=str(authority.file))
            caller = opened("https://boat.example", proxy=server.url, tls=tls)
            assert caller.send(post()) == b"{}"
            caller.close()
    assert proxy.asked == ["CONNECT boat.example:443 HTTP/1.1"]


def test_a_proxy_that_makes_no_tunnel_is_not_done(opened: Opened) -> None:
    proxy = Proxy(status=403)
    with RawServer(proxy.serve) as server, pytest.raises(ConnectionFailed, match="403"):
        opened("https://boat.example", proxy=server.url).send(post())


def test_the_environment_names_a_proxy(opened: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = Proxy()
    with RawServer(proxy.serve) as server:
        monkeypatch.setenv("HTTP_PROXY", server.url)
        assert opened(FAR).send(post()) == b"{}"


ENVIRONMENTS: dict[str, tuple[dict[str, str], str, str | None]] = {
    "http": ({"HTTP_PROXY": "http://p:1"}, FAR, "http://p:1"),
    "https": ({"HTTPS_PROXY": "http://p:2"}, "https://boat.example", "http://p:2"),
    "other-scheme": ({"HTTPS_PROXY": "http://p:2"}, FAR, None),
    "all": ({"ALL_PROXY": "socks5://p:3"}, FAR, "socks5://p:3"),
    "without-scheme": ({"HTTP_PROXY": "p:1"}, FAR, "http://p:1"),
    "not-for-that-host": ({"HTTP_PROXY": "http://p:1", "NO_PROXY": "boat.example"}, FAR, None),
    "not-for-its-domain": ({"HTTP_PROXY": "http://p:1", "NO_PROXY": ".example"}, FAR, None),
    "not-for-us": ({"HTTP_PROXY": "http://p:1"}, "http://127.0.0.1:8080", None),
    "not-for-us-by-name": ({"HTTP_PROXY": "http://p:1"}, "http://localhost:8080", None),
    "not-for-us-by-ipv6": ({"HTTP_PROXY": "http://p:1"}, "http://[::1]:8080", None),
    "none": ({}, FAR, None),
}


@pytest.mark.parametrize("case", ENVIRONMENTS)
def test_what_the_environment_says(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    variables, url, proxy = ENVIRONMENTS[case]
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert proxy_of(url, Options()) == proxy
    assert proxy_of(url, Options(trust_env=False)) is None
    assert proxy_of(url, Options(proxy="http://named:1")) == "http://named:1"


def test_a_server_whose_certificate_we_trust(opened: Opened, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    with RawServer(context=authority.server()) as server:
        caller = opened(server.url, tls=Tls(ca_file=str(authority.file)))
        assert caller.send(post()) == b"{}"


def test_http2_is_spoken_only_where_the_server_does(opened: Opened, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    with RawServer(context=authority.server()) as server:
        caller = opened(server.url, tls=Tls(ca_file=str(authority.file)), http2=True)
        assert caller.send(post()) == b"{}"


def test_one_that_nobody_knows(opened: Opened, tmp_path: Path) -> None:
    """The client does not ask again, because that would not help."""
    with RawServer(context=Authority(tmp_path).server()) as server:
        with pytest.raises(UntrustedServer):
            opened(server.url, retry_for_s=5).send(post())
        other = Authority(tmp_path, "other")
        with pytest.raises(UntrustedServer):
            opened(server.url, tls=Tls(ca_file=str(other.file))).send(post())
        assert server.connections <= 2


def test_one_of_another_name(opened: Opened, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    context = authority.server("elsewhere.example")
    with RawServer(context=context) as server, pytest.raises(UntrustedServer):
        opened(server.url, tls=Tls(ca_file=str(authority.file))).send(post())


def test_not_verifying_is_loud(opened: Opened, tmp_path: Path) -> None:
    with RawServer(context=Authority(tmp_path).server()) as server:
        caller = opened(server.url, tls=Tls(verify=False))
        with pytest.warns(InsecureConnection, match="anybody may pretend"):
            assert caller.send(post()) == b"{}"


def test_a_server_that_wants_a_certificate_of_us(opened: Opened, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.issue("client")
    with RawServer(context=authority.server(clients=authority)) as server:
        tls = Tls(
            ca_file=str(authority.file),
            certificate_file=str(certificate),
            key_file=str(key),
            key_password=PASSWORD,
        )
        assert opened(server.url, tls=tls).send(post()) == b"{}"


def test_environment_variables_change_no_trust(
    opened: Opened, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = Authority(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.file))
    context = authority.server()
    with RawServer(context=context) as server, pytest.raises(UntrustedServer):
        opened(server.url).send(post())


def test_secrets_of_the_way_are_not_printed() -> None:
    options = Options(
        proxy="http://me:hush@p:1", tls=Tls(certificate_file="c", key_password="hush")
    )
    assert "hush" not in repr(options)
