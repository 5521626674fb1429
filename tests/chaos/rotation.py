"""Every secret of an installation changed, while applications publish and consume.

    by three rounds of restarts   the store's secret, the ack secret, the seal keys; in the first of
                                  them the login of Postgres and the development token, too
    by files that are read anew   the certificates between processes and their CA
    by commands and over HTTP     signing keys, an operator's credential, a client's secret, an API
                                  key, a webhook's secret

At the end none of the old ones is good for anything (docs/operations/rotate-secrets.md).
"""

from __future__ import annotations

import asyncio
import base64
import json
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import asyncpg
from aiohttp import ClientSession, web
from packetboat.aio.client import AsyncClient
from packetboat.credentials import ClientCredentials, TokenFile
from packetboat.errors import PacketboatError
from packetboat.options import Options
from packetboat.webhooks import NotVerified, verify

from gateway.operators import Credential
from harness.balancers import HAProxy
from harness.cluster import HOST, NODES, ClusterFailed
from harness.fleet import Fleet, Member
from harness.processes import free_ports
from peering.authority import Issued, issue, make_authority
from peering.settings import DEFAULT_NAME
from tests.chaos.rolling.load import Addresses, SdkLoad
from tests.chaos.shell import run, succeeds

SCOPES = ["read", "publish", "consume", "manage"]
HOOK = "hooked"
PATIENCE_S = 60.0
PAUSE_S = 0.1
LOGIN = "packetboat_next"
_LOGIN = """
DO $$ BEGIN
    EXECUTE format(
        'CREATE ROLE packetboat_next LOGIN PASSWORD %L', current_setting('next.password')
    );
END $$;
GRANT packetboat_platform, packetboat_tenant TO packetboat_next WITH INHERIT TRUE, SET TRUE;
"""
_USED = """
SELECT count(*) FROM pg_stat_activity
WHERE usename = $1 AND backend_type = 'client backend' AND pid <> pg_backend_pid()
"""


@dataclass(slots=True)
class Secrets:
    """The secrets of processes: an old and a new one of each."""

    store: tuple[str, str] = field(default_factory=lambda: (_hex(), _hex()))
    ack: tuple[str, str] = field(default_factory=lambda: (_hex(), _hex()))
    seal: tuple[str, str] = field(default_factory=lambda: (f"a:{_hex()}", f"b:{_hex()}"))

    def settings(self, number: int) -> dict[str, str]:
        """Return the settings of round 0, before anything, to 3: old · old,new · new,old · new."""

        def of(pair: tuple[str, str]) -> str:
            old, new = pair
            return (old, f"{old},{new}", f"{new},{old}", new)[number]

        return {
            "PACKETBOAT_STORE_SECRET": of(self.store),
            "PACKETBOAT_ACK_SECRET": of(self.ack),
            "PACKETBOAT_SEAL_KEYS": of(self.seal),
        }


class Certificates:
    """The certificates of all processes, in files that they read anew."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        directory.mkdir(parents=True)
        self.old, self.new = make_authority("old"), make_authority("new")
        self.trust(self.old)
        self.issued_by(self.old)

    def settings(self) -> dict[str, str]:
        return {
            "PACKETBOAT_PEER_TLS": "require",
            "PACKETBOAT_PEER_TLS_CA": str(self._directory / "ca.pem"),
            "PACKETBOAT_PEER_TLS_CERT": str(self._directory / "cert.pem"),
            "PACKETBOAT_PEER_TLS_KEY": str(self._directory / "key.pem"),
        }

    def trust(self, *authorities: Issued) -> None:
        path = self._directory / "ca.pem"
        path.write_bytes(b"".join(one.certificate for one in authorities))

    def issued_by(self, authority: Issued) -> None:
        issued = issue(authority, DEFAULT_NAME)
        issued.write(self._directory / "cert.pem", self._directory / "key.pem")


class Hook:
    """An endpoint that takes what is signed with one of its secrets."""

    def __init__(self) -> None:
        (self.port,) = free_ports(1)
        self.secrets: list[str] = []
        self.taken: set[str] = set()
        self.refused: list[str] = []
        self.in_a_row = 0
        """The number of last requests that were signed with the first of the secrets, among
        others.
        """

    async def take(self, request: web.Request) -> web.Response:
        body = await request.read()
        try:
            verify(body, dict(request.headers), self.secrets, format="raw")
        except NotVerified as error:
            self.refused.append(str(error))
            return web.Response(status=401)
        self.in_a_row = self.in_a_row + 1 if self._is_by_first(body, request) else 0
        self.taken.add(request.headers["webhook-id"])
        return web.Response(status=204)

    def _is_by_first(self, body: bytes, request: web.Request) -> bool:
        try:
            verify(body, dict(request.headers), self.secrets[:1], format="raw")
        except NotVerified:
            return False
        return True

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        app = web.Application()
        app.router.add_post("/", self.take)
        runner = web.AppRunner(app)
        await runner.setup()
        await web.TCPSite(runner, HOST, self.port).start()
        try:
            yield
        finally:
            await runner.cleanup()


class Rotation:
    """One drill, on a fleet under load. `wrong` has what was refused, or is good still."""

    def __init__(self, root: Path) -> None:
        self.secrets = Secrets()
        self.wrong: list[str] = []
        self._root = root
        self._certificates = Certificates(root / "peer")
        balance = "none" if HAProxy.missing() else "hash"
        settings = self._certificates.settings() | self.secrets.settings(0)
        self.fleet = Fleet(root / "site", subscribers=2, publishers=2, balance=balance)
        self.fleet.settings |= settings
        self._hook = Hook()
        self._key_file = root / "key"
        self._over = asyncio.Event()
        self._client: AsyncClient | None = None
        """The client of the application that has a client's secret."""
        self._published = 0
        self._old: dict[str, str] = {}
        """The replaced secrets, by their kind."""

    async def run(self) -> None:
        async with self._hook.open(), self.fleet as fleet:
            self._old["token"] = fleet.token
            await self._make_credentials()
            urls = {role: [f"http://{each}" for each in at] for role, at in fleet.servers.items()}
            balancer = None if HAProxy.missing() else fleet.base_url
            at = Addresses(balancer, urls["publish"], urls["subscribe"], urls["gateway"][0])
            load = SdkLoad(at, fleet.token, [TokenFile(self._key_file)])
            async with load.at_work():
                application = asyncio.create_task(self._publish())
                await self._rotate()
                self._over.set()
                await application
            # An exactly-once lease of a process that went may be refused: that is promised.
            refused = [text for text in load.books.refused if not text.startswith("exact:")]
            self.wrong += load.wrong + refused
            print(load.books.summary(), f"{self._published} by a client's secret")
            await self._check()

    # -- the credentials and messages from before the rotation ----------------------------------

    async def _make_credentials(self) -> None:
        key = await self._ok("PUT", "/keys/applications", {"scopes": SCOPES})
        self._old["key"] = key["key"]
        self._key_file.write_text(key["key"])
        client = await self._ok("POST", "/clients", {"name": "shop"})
        self._old |= {"client_id": client["client_id"], "client": client["client_secret"]}
        policy = {"role": "publisher", "members": ["client:shop"], "resources": ["*"]}
        await self._ok("PUT", "/policies/shop", policy)
        await self._use(client["client_secret"])
        await self._ok("POST", "/topics", {"name": HOOK, "partitions": 2})
        push = {"url": f"http://{HOST}:{self._hook.port}/", "format": "raw", "verify": False}
        made = await self._ok(
            "POST", f"/topics/{HOOK}/subscriptions", {"name": HOOK, "type": "push", "push": push}
        )
        (secret,) = made["push"]["signing_secrets"]
        self._old |= {"hook": secret["secret"], "hook_id": secret["id"]}
        self._hook.secrets = [secret["secret"]]
        await self._operator("first")
        await self._ok("POST", "/topics", {"name": "held", "partitions": 1})
        reader = {"name": "held", "start": "earliest", "ack_deadline_seconds": 3600}
        await self._ok("POST", "/topics/held/subscriptions", reader)

    async def _operator(self, name: str) -> None:
        file = self._root / f"{name}.env"
        await succeeds(self.fleet, "operator", "create", name, "--credential-file", str(file))
        credential = Credential.from_exports(file.read_text())
        self._old |= {f"{name}_id": credential.client_id, name: credential.client_secret}

    async def _lease(self) -> str:
        """Return an ack id of the present secrets."""
        await self._ok("POST", "/topics/held/messages", {})
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            page = await self._ok("GET", "/subscriptions/held/messages?wait_seconds=5")
            if page["messages"]:
                ack_id: str = page["messages"][0]["ack_id"]
                return ack_id
            assert time.monotonic() < deadline_s

    async def _publish(self) -> None:
        """Publish as an application with a client's secret: to the topic that is pushed."""
        while not self._over.is_set():
            assert self._client is not None
            try:
                await self._client.publish(HOOK, "x")
            except PacketboatError as error:
                self.wrong.append(f"a publish failed: {error!r}")
            self._published += 1
            await asyncio.sleep(PAUSE_S)
        assert self._client is not None
        await self._client.close()

    async def _use(self, secret: str) -> None:
        """From now on, by the application: it is started again with another secret."""
        before = self._client
        credentials = ClientCredentials(self._old["client_id"], secret)
        self._client = AsyncClient.from_options(
            Options(urls=(self.fleet.base_url,), credentials=credentials, trust_env=False)
        )
        if before is not None:
            await before.close()

    # -- the changes ---------------------------------------------------------------------------

    async def _rotate(self) -> None:
        fleet, certificates = self.fleet, self._certificates
        await self._until_pushed()
        late, too_late = await self._lease(), await self._lease()
        fleet.token = f"pbdev_{secrets.token_hex(16)}"
        fleet.settings["PACKETBOAT_DATABASE_URL"] = await self._make_login()
        certificates.trust(certificates.old, certificates.new)
        await self._round(1)
        await self._until_login_is_unused()
        certificates.issued_by(certificates.new)
        await self._change_credentials()
        await self._round(2)
        told = await self._ok("POST", "/subscriptions/held/ack", {"ack_ids": [late]})
        self._expect(not told["results"], f"an ack id of the old secret: {told}")
        # Sealed by the new key, which is the first only now.
        await succeeds(fleet, "signing-keys", "replace")
        await self._change_hook()
        certificates.trust(certificates.new)
        await self._round(3)
        told = await self._ok("POST", "/subscriptions/held/ack", {"ack_ids": [too_late]})
        self._expect(bool(told["results"]), "an ack id of the old secret is good for ever")

    async def _round(self, number: int) -> None:
        """Restart one process of each kind at a time."""
        fleet = self.fleet
        fleet.settings |= self.secrets.settings(number)
        waves: list[list[Member]] = [
            [fleet.subscribers[0], fleet.publishers[0]],
            [fleet.subscribers[1], fleet.publishers[1]],
            [fleet.gateway, fleet.scheduler],
        ]
        for node, members in zip(NODES, waves, strict=True):
            began_s = time.monotonic()
            await asyncio.gather(self._restart_node(node), *map(self._restart, members))
            await fleet.until_ready()
            await self._operated("wait")
            print(f"round {number}, {node}: {time.monotonic() - began_s:.1f} s")

    async def _restart_node(self, node: int) -> None:
        await self._operated("drain", str(node))
        await self.fleet.stop_node(node)
        self.fleet.start_node(node)

    async def _restart(self, member: Member) -> None:
        if (status := await member.terminate()) != 0:
            raise ClusterFailed(f"{member.name} ended with {status}: {member.tail()}")
        member.start()

    async def _operated(self, *arguments: str) -> None:
        await succeeds(self.fleet, "store", *arguments)

    async def _make_login(self) -> str:
        """Make a login and return its URL.

        It has a name of its own: a login has one password, and processes need both.
        """
        password = secrets.token_hex(16)
        connection = await asyncpg.connect(self.fleet.postgres.url)
        try:
            await connection.execute("SELECT set_config('next.password', $1, false)", password)
            await connection.execute(_LOGIN)
        finally:
            await connection.close()
        place = self.fleet.postgres.url.rsplit("@", 1)[1]
        return f"postgresql://{LOGIN}:{password}@{place}"

    async def _until_login_is_unused(self) -> None:
        """Wait until the old login is unused."""
        connection = await asyncpg.connect(self.fleet.postgres.url)
        try:
            async with asyncio.timeout(PATIENCE_S):
                while await connection.fetchval(_USED, "postgres"):
                    await asyncio.sleep(0.1)
        finally:
            await connection.close()

    async def _change_credentials(self) -> None:
        key = await self._ok("POST", "/keys/applications:rotate", {"old_expires_in_seconds": 60})
        self._key_file.write_text(key["key"])
        told = await self._ok("POST", "/clients/shop/secrets", {})
        await self._use(told["client_secret"])
        for secret in told["secrets"]:
            if self._old["client"].removeprefix("pbs_").startswith(secret["prefix"]):
                await self._ok("DELETE", f"/clients/shop/secrets/{secret['prefix']}")
        await self._operator("second")
        await succeeds(self.fleet, "operator", "disable", "first")

    async def _change_hook(self) -> None:
        """Change the secret of the hook.

        Until the first secret ends, requests bear the signatures of both: those that are sent once
        the sender knows the change.
        """
        path = f"/subscriptions/{HOOK}/signing_secrets"
        made = await self._ok("POST", path, {"expires_previous_after_seconds": 3600})
        self._hook.secrets.insert(0, made["secret"])
        await self._until_signed_anew()
        self._hook.secrets.pop()
        await self._until_pushed()
        await self._ok("DELETE", f"{path}/{self._old['hook_id']}")

    async def _until_signed_anew(self) -> None:
        self._hook.in_a_row = 0
        async with asyncio.timeout(PATIENCE_S):
            while self._hook.in_a_row < 20:
                await asyncio.sleep(0.1)

    async def _until_pushed(self) -> None:
        taken = len(self._hook.taken)
        async with asyncio.timeout(PATIENCE_S):
            while len(self._hook.taken) < taken + 5:
                await asyncio.sleep(0.1)

    # -- afterwards ----------------------------------------------------------------------------

    async def _check(self) -> None:
        """Nothing of before is good for anything, and what is new is."""
        fleet, old = self.fleet, self._old
        for what in ("token", "key"):
            await self._until_refused(what)
        for what in ("client", "first"):
            status = await self._token(
                old["client_id" if what == "client" else "first_id"], old[what]
            )
            self._expect(status in (400, 401), f"the old secret of {what} gets a token: {status}")
        status = await self._token(old["second_id"], old["second"])
        self._expect(status == 200, f"the new operator gets no token: {status}")
        secret = {"PACKETBOAT_STORE_SECRET": self.secrets.store[0]}
        status, said = await run(fleet, "store", "status", settings=secret)
        self._expect(status != 0, f"the store takes its old secret: {said}")
        outdated = Certificates(self._root / "outdated")
        outdated.trust(self._certificates.new)
        outdated.issued_by(self._certificates.old)
        status, said = await run(fleet, "store", "status", settings=outdated.settings())
        self._expect(status != 0, f"the store takes a certificate of the old CA: {said}")
        self._expect(not self._hook.refused, f"webhooks not verified: {self._hook.refused[:3]}")

    async def _until_refused(self, what: str) -> None:
        """Wait until an old secret is refused; some hold for a while beside their successors."""
        async with asyncio.timeout(2 * PATIENCE_S):
            while (await self._request("GET", "/topics", token=self._old[what]))[0] != 401:
                await asyncio.sleep(0.5)

    async def _token(self, client_id: str, secret: str) -> int:
        """Return the status of a token endpoint's answer."""
        proof = base64.b64encode(f"{client_id}:{secret}".encode()).decode()
        async with (
            ClientSession() as session,
            session.post(
                f"{self.fleet.base_url}/oauth/token",
                data=urlencode({"grant_type": "client_credentials"}),
                headers={
                    "Authorization": f"Basic {proof}",
                    "Content-Type": "application/x-www-form-urlencoded",
                },
            ) as answer,
        ):
            return answer.status

    # -- shorthand -----------------------------------------------------------------------------

    def _expect(self, holds: bool, otherwise: str) -> None:
        if not holds:
            self.wrong.append(otherwise)

    async def _ok(self, method: str, path: str, body: object = None) -> dict[str, Any]:
        """Send the request, again while a process that would answer is being restarted."""
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            status, answer = await self._request(method, path, body)
            if 200 <= status < 300:
                return answer
            assert status in (0, 503), (path, status, answer)
            assert time.monotonic() < deadline_s, (path, status, answer)
            await asyncio.sleep(0.1)

    async def _request(
        self, method: str, path: str, body: object = None, token: str = ""
    ) -> tuple[int, dict[str, Any]]:
        """Return (status, answer); status 0 where none came."""
        headers = {"Authorization": f"Bearer {token or self.fleet.token}"}
        data = None if body is None else json.dumps(body)
        try:
            async with (
                ClientSession(headers=headers) as session,
                session.request(method, self.fleet.base_url + path, data=data) as answer,
            ):
                text = await answer.text()
                return answer.status, json.loads(text) if text else {}
        except OSError:
            return 0, {}


def _hex() -> str:
    return secrets.token_hex(32)
