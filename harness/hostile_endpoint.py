"""An endpoint that does what endpoints do: answers, and everything else. Which is in the path.

    /ok /status/418 /slow/0.5 /gate      an answer: now, with that status, late, when `gate` is set
    /polite                              an answer, with some hints before it, in tiny chunks
    /429 /410 /500 /flapping             with Retry-After: 2; …; 500 and 200 by turns
    /hang /unread                        never an answer; the body is not even read
    /drip /drip-head                     a byte of body or head, again and again
    /huge /huge-head /interim /chunks    a body, a head, interim responses, or chunks without end
    /redirect                            to the metadata service of a cloud
    /early-close /reset /cut /garbage    the connection ends, within the body too; what is no HTTP

TLS: `url(path, tls="ok")`, and "self_signed", "expired", "wrong_name", which no client accepts.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import ipaddress
import os
import socket
import ssl
import struct
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

METADATA_URL = "http://169.254.169.254/latest/meta-data/"
TLS_KINDS = ("ok", "self_signed", "expired", "wrong_name")
DRIP_S = 0.02
CHUNK = b"x" * 65_536
TINY_CHUNK = b"1\r\nx\r\n"
INTERIM = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n"


class Received(NamedTuple):
    """One request, as it came."""

    method: str
    path: str
    headers: list[tuple[str, str]]
    body: bytes

    def header(self, name: str) -> str | None:
        """Return the first header of that name, of any case."""
        return next((v for k, v in self.headers if k.lower() == name.lower()), None)

    @property
    def by_name(self) -> dict[str, str]:
        return {name.lower(): value for name, value in self.headers}


class HostileEndpoint:
    """Start it in a loop (`async with`), or in a thread (`running`)."""

    def __init__(self, host: str = "127.0.0.1") -> None:
        self.host = host
        self.received: list[Received] = []
        self.counts: Counter[str] = Counter()
        """Requests whose head has come, by path; also those whose body never did."""
        self.reached: Counter[str] = Counter()
        """Connections, by the address of ours that they were made to."""
        self.sent_bytes = 0
        self.gate = asyncio.Event()
        self.ports: dict[str, int] = {}
        self._directory = tempfile.TemporaryDirectory(prefix="packetboat-endpoint-")
        self._certificates = Certificates(Path(self._directory.name), host)
        self._servers: list[asyncio.Server] = []
        self._running: set[asyncio.Task[None]] = set()
        self._arrived = asyncio.Condition()
        self._loop: asyncio.AbstractEventLoop | None = None

    def url(self, path: str, tls: str = "") -> str:
        return f"{'https' if tls else 'http'}://{self.host}:{self.ports[tls]}{path}"

    def trusting(self) -> ssl.SSLContext:
        """Return a context for a client that trusts the signer of `ok`, `expired` and
        `wrong_name`.
        """
        return ssl.create_default_context(cafile=str(self._certificates.authority))

    async def __aenter__(self) -> HostileEndpoint:
        self._loop = asyncio.get_running_loop()
        for kind in ("", *TLS_KINDS):
            context = self._certificates.context(kind) if kind else None
            server = await asyncio.start_server(self._serve, self.host, 0, ssl=context)
            self._servers.append(server)
            self.ports[kind] = server.sockets[0].getsockname()[1]
        return self

    @property
    def connections(self) -> int:
        return self.reached.total()

    async def listen(self, host: str, port: int, tls: str = "") -> None:
        """Listen at one more address."""
        context = self._certificates.context(tls) if tls else None
        self._servers.append(await asyncio.start_server(self._serve, host, port, ssl=context))

    def listen_from_thread(self, host: str, port: int, tls: str = "") -> None:
        """Listen at one more address, where the endpoint runs in a thread of its own."""
        assert self._loop is not None
        asyncio.run_coroutine_threadsafe(self.listen(host, port, tls), self._loop).result(30)

    async def __aexit__(self, *_: object) -> None:
        for server in self._servers:
            server.close()
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        self._directory.cleanup()

    async def arrivals(
        self, count: int, path: str | None = None, timeout_s: float = 30
    ) -> list[Received]:
        """Return the requests to the path (or all), once there are at least `count`."""

        def found() -> list[Received]:
            return [one for one in self.received if path is None or one.path == path]

        async with asyncio.timeout(timeout_s), self._arrived:
            await self._arrived.wait_for(lambda: len(found()) >= count)
        return found()

    def arrivals_from_thread(
        self, count: int, path: str | None = None, timeout_s: float = 30
    ) -> list[Received]:
        """Return the same as `arrivals`, where the endpoint runs in a thread of its own."""
        assert self._loop is not None
        waiting = asyncio.run_coroutine_threadsafe(
            self.arrivals(count, path, timeout_s), self._loop
        )
        return waiting.result(timeout_s + 5)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._running.add(task)
        self.reached[writer.get_extra_info("sockname")[0]] += 1
        try:
            while await self._exchange(reader, writer):
                pass
        except (OSError, EOFError, ValueError, asyncio.CancelledError):
            pass  # it is cancelled at the end, and nothing comes after it
        finally:
            self._running.discard(task)
            writer.transport.abort()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """Return whether the connection may be used again."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        method, target, _ = head[0].split(" ")
        path = target.partition("?")[0]
        self.counts[path] += 1
        if path == "/unread":
            await asyncio.Event().wait()
        pairs = [line.partition(": ") for line in head[1:] if line]
        headers = [(name, value) for name, _, value in pairs]
        request = Received(method, path, headers, b"")
        body = await reader.readexactly(int(request.header("content-length") or 0))
        self.received.append(request._replace(body=body))
        async with self._arrived:
            self._arrived.notify_all()
        first = path.split("/")[1]
        act = getattr(self, f"_{first.replace('-', '_')}", None)
        if act is not None:
            await act(writer)
            return False
        await self._answer(writer, first, path.rpartition("/")[2])
        return True

    async def _answer(self, writer: asyncio.StreamWriter, first: str, last: str) -> None:
        status, more = 200, ""
        if first == "slow":
            await asyncio.sleep(float(last))
        elif first == "gate":
            await self.gate.wait()
        elif first == "flapping":
            status = 500 if self.counts[f"/{first}"] % 2 else 200
        elif last.isdigit():
            status = int(last)
        if first == "redirect":
            status, more = 302, f"Location: {METADATA_URL}\r\n"
        if status == 429:
            more = "Retry-After: 2\r\n"
        body = b"" if status == 204 else f"this is {first}".encode()
        length = "" if status == 204 else f"Content-Length: {len(body)}\r\n"
        head = f"HTTP/1.1 {status} It\r\n{length}{more}\r\n"
        await self._write(writer, head.encode() + body)

    async def _write(self, writer: asyncio.StreamWriter, data: bytes) -> None:
        writer.write(data)
        await writer.drain()
        self.sent_bytes += len(data)

    async def _again(self, writer: asyncio.StreamWriter, data: bytes, every_s: float = 0) -> None:
        while True:
            await self._write(writer, data)
            await asyncio.sleep(every_s)

    async def _hang(self, writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()

    async def _drip(self, writer: asyncio.StreamWriter) -> None:
        await self._write(writer, b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
        await self._again(writer, b"x", DRIP_S)

    async def _drip_head(self, writer: asyncio.StreamWriter) -> None:
        await self._write(writer, b"HTTP/1.1 200 OK\r\nX-Slow: ")
        await self._again(writer, b"x", DRIP_S)

    async def _huge(self, writer: asyncio.StreamWriter) -> None:
        await self._write(writer, b"HTTP/1.1 200 OK\r\nContent-Length: 10000000000\r\n\r\n")
        await self._again(writer, CHUNK)

    async def _huge_head(self, writer: asyncio.StreamWriter) -> None:
        await self._write(writer, b"HTTP/1.1 200 OK\r\n")
        await self._again(writer, b"X-More: %b\r\n" % (b"y" * 1000))

    async def _polite(self, writer: asyncio.StreamWriter) -> None:
        await self._write(
            writer, 2 * INTERIM + b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        await self._write(writer, 500 * TINY_CHUNK + b"0\r\n\r\n")

    async def _chunks(self, writer: asyncio.StreamWriter) -> None:
        await self._write(writer, b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
        await self._again(writer, TINY_CHUNK * 10_000)

    async def _interim(self, writer: asyncio.StreamWriter) -> None:
        await self._again(writer, INTERIM * 10_000)

    async def _early_close(self, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async def _reset(self, writer: asyncio.StreamWriter) -> None:
        raw: socket.socket = writer.get_extra_info("socket")
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()

    async def _cut(self, writer: asyncio.StreamWriter) -> None:
        await self._write(writer, b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n0123456789")

    async def _garbage(self, writer: asyncio.StreamWriter) -> None:
        await self._write(writer, b"\x00\xff" + os.urandom(2000) + b"\r\n\r\n")


class Certificates:
    """An authority of the test's own, and what it signed, well and badly."""

    def __init__(self, directory: Path, host: str) -> None:
        self._directory = directory
        self._host = host
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a test's authority")])
        self.authority = directory / "authority.pem"
        made = self._certificate(self._name, self._key, authority=True)
        self.authority.write_bytes(made.public_bytes(serialization.Encoding.PEM))

    def context(self, kind: str) -> ssl.SSLContext:
        """Return the context of a server, of one of TLS_KINDS."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, kind)])
        certificate = self._certificate(name, key, kind=kind)
        path = self._directory / f"{kind}.pem"
        path.write_bytes(
            certificate.public_bytes(serialization.Encoding.PEM)
            + key.private_bytes(
                serialization.Encoding.PEM,
                serialization.PrivateFormat.PKCS8,
                serialization.NoEncryption(),
            )
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(path)
        return context

    def _certificate(
        self,
        name: x509.Name,
        key: ec.EllipticCurvePrivateKey,
        *,
        kind: str = "ok",
        authority: bool = False,
    ) -> x509.Certificate:
        now, day = datetime.datetime.now(datetime.UTC), datetime.timedelta(days=1)
        until = now - day if kind == "expired" else now + day
        alone = kind == "self_signed"
        names: list[x509.GeneralName] = [x509.DNSName("elsewhere.example")]
        if kind != "wrong_name":
            with contextlib.suppress(ValueError):
                names.append(x509.IPAddress(ipaddress.ip_address(self._host)))
            names += [x509.DNSName("localhost"), x509.DNSName("hook.example")]
        signer = key if alone else self._key
        return (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name if alone else self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - 3 * day)
            .not_valid_after(until)
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), False
            )
            .add_extension(
                x509.KeyUsage(True, False, False, False, False, authority, authority, False, False),
                critical=True,
            )
            .sign(signer, hashes.SHA256())
        )


@contextlib.contextmanager
def running(host: str = "127.0.0.1") -> Iterator[HostileEndpoint]:
    """Run an endpoint in a thread with a loop of its own, for tests that have none."""
    started: list[HostileEndpoint] = []
    ready, stop = threading.Event(), threading.Event()

    async def serve() -> None:
        async with HostileEndpoint(host) as endpoint:
            started.append(endpoint)
            ready.set()
            await asyncio.get_running_loop().run_in_executor(None, stop.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert ready.wait(30), "the endpoint does not start"
    try:
        yield started[0]
    finally:
        stop.set()
        thread.join(30)
