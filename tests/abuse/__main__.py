"""`make abuse`: hostile input to every route of the product, beside a tenant that must not notice.

    python -m tests.abuse [--short] [--part 2/3] [--only WORD] [--rounds 5] [--setting NAME=VALUE]
    python -m tests.abuse --witness
    python -m tests.abuse --as-shipped --parts connections

Three parts. *Routes*: each route that the server really serves is sent requests made from its
contract (inputs.py); a route for which there are none is a failure. *Connections*: what a caller
without a token does to the listener (connections.py). *Tenants*: what a tenant makes and then asks
for, beside as many ordinary requests (scenarios.py). A fourth, h2spec, compares the listener with
Hypercorn alone, where Go and that program's module are there.

`--witness` makes the attacks of the audit that load alone, and prints what the witness saw beside
each: its p99 beside as many ordinary requests (the median of the rounds), and its refused requests.
It takes a quarter of an hour, and says something on a machine that does nothing else.

`--as-shipped` times no callback: the processes run on uvloop, as users run them. So are the witness
and the memory that attacks leave to be looked at; `--witness` includes it.

`--part rotating` attacks half of the routes, and has half of the tenants' attacks; the other half
with the next commit. Where a route is beyond the promise, the inputs are named that were.

The table at the end has the longest callback of an event loop, its longest pass and the memory for
each. The exit status is 1 where something is beyond the bounds of the promise (judge.py); there is
no bound for a pass, which has the requests of all connections in it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterator
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import TypeVar

from tests import parts
from tests.abuse import connections, h2spec, probe, scenarios
from tests.abuse.client import NO_ANSWER, Connection, send_all
from tests.abuse.connections import (
    ATTACKS,
    GET,
    ON_STORE_NODES,
    OWN_CONNECTION,
    SAME_REQUEST,
    Attack,
    never_read,
)
from tests.abuse.contract import Route, routes
from tests.abuse.inputs import SIZES, Input, Maker
from tests.abuse.judge import Row, compared, judged, table, witness_table
from tests.abuse.scenarios import SCENARIOS, Load, large_answer
from tests.abuse.site import Site, running
from tests.go_programs import NotHere
from tests.loop_cpu import MAX_CALLBACK_MS

INPUTS_IN_SHORT = 10
NO_TOKEN_IN_SHORT = 3
NO_TOKEN = 20
MOST_BYTES_IN_SHORT = 2 * 1024 * 1024
CONNECTIONS = 4
PATIENCE_S = 30.0
RENEW_S = 600.0
"""Seconds after which another tenant attacks: objects that an attack leaves change the next one."""
WITNESS_S = 2.0
"""Seconds of an attack whose witness is looked at: 160 publishes."""
PROOFS = {**connections.PROOFS, **scenarios.PROOFS}
T = TypeVar("T")
PARTS = ("routes", "connections", "tenants", "h2spec")


class Program:
    """One run against one installation."""

    def __init__(self, site: Site, options: argparse.Namespace) -> None:
        self._site = site
        self._options = options
        self._contract = routes()
        self._renewed_s = time.monotonic()
        self.rows: list[Row] = []
        self.missing: list[str] = []

    async def run(self) -> None:
        chosen = self._options.parts.split(",")
        if "routes" in chosen:
            await self._routes()
        if "connections" in chosen:
            large = await asyncio.to_thread(large_answer, self._site)
            of_tenants = {"large answers never read": partial(never_read, request=large)}
            on_nodes = {**ON_STORE_NODES, **self._site.handshakes()}
            for name, attack in self._chosen({**ATTACKS, **of_tenants, **on_nodes}):
                self._site.attacks_nodes = name in on_nodes
                same = large if name in of_tenants else GET if name in SAME_REQUEST else None
                self._add(await self._connection(name, attack, same))
            self._site.attacks_nodes = False
        if "tenants" in chosen:
            chosen_part = self._options.part.choose(list(SCENARIOS.items()))
            for name, scenario in self._chosen(dict(chosen_part)):
                load = await asyncio.to_thread(scenario, self._site)
                self._add(await self._tenant(name, load))
        if "h2spec" in chosen:
            try:
                self.missing += await asyncio.to_thread(h2spec.worse, self._site.address)
            except NotHere as error:
                say(f"SKIPPED: HTTP/2 was not compared with Hypercorn's: {error}")

    async def _routes(self) -> None:
        served = self._site.measured().routes
        assert served, "the server names no routes"
        # Deletions come last: other routes need the objects.
        served = sorted(served, key=lambda key: (key[0] == "DELETE", key[1], key[0]))
        for key in self._options.part.choose(served):
            route = self._contract.get(key)
            name = " ".join(key)
            if self._options.only not in name:
                continue
            if route is None:
                self.missing.append(f"{name} has no hostile inputs: the contract does not have it")
                continue
            if time.monotonic() - self._renewed_s > RENEW_S:
                await asyncio.to_thread(self._site.renew)
                self._renewed_s = time.monotonic()
            self._add(await self._route(route))

    async def _route(self, route: Route) -> Row:
        requests = await self._requests(route)
        assert requests, f"{route.label} has no hostile inputs"
        address, took_s = self._site.address, 1.0

        async def hostile() -> Counter[int]:
            nonlocal took_s
            slow: dict[int, float] = {}
            began_s = time.monotonic()
            statuses = await send_all(
                address,
                (one.make() for one in requests),
                connections=CONNECTIONS,
                within_s=PATIENCE_S,
                slow=slow,
            )
            took_s = time.monotonic() - began_s
            for number, each_s in slow.items():
                if each_s > self._options.tell_slow:
                    say(f"    {each_s:.2f} s: {requests[number].what}")
            return statuses

        async def ordinary() -> Counter[int]:
            token = None if route.public else self._site.owner.token
            good = Maker(route, self._site.attacker.ids, token, 0).request()
            return await send_all(
                address,
                [good] * len(requests),
                connections=CONNECTIONS,
                within_s=PATIENCE_S,
                rate=len(requests) / took_s,
            )

        if self._options.short:
            row = await judged(self._site, route.label, hostile)
        else:
            row = await compared(self._site, route.label, hostile, ordinary, self._options.rounds)
        if row.seen.callback_ms > MAX_CALLBACK_MS and not row.seen.gone:
            await self._name(requests)
        return row

    async def _name(self, requests: list[Input]) -> None:
        """Says which of them take that long, each sent alone."""
        connection = Connection(*self._site.address)
        for one in requests:
            self._site.measured()
            await connection.ask(one.make(), PATIENCE_S)
            longest = (await asyncio.to_thread(self._site.measured)).longest[:1]
            if longest and longest[0].cpu_ms > MAX_CALLBACK_MS:
                say(f"    {longest[0].cpu_ms:.0f} ms in {longest[0].what}: {one.what}")
        connection.close()

    async def _requests(self, route: Route) -> list[Input]:
        """Return the requests that are sent to that route."""
        site, short = self._site, self._options.short
        ids, token = site.attacker.ids, None if route.public else site.owner.token
        most_bytes = await self._most_bytes(route, Maker(route, ids, token, 0))
        if short:
            most_bytes = min(most_bytes, MOST_BYTES_IN_SHORT)
        maker = Maker(route, ids, token, most_bytes)
        seed = self._options.seed
        found = maker.some(INPUTS_IN_SHORT, seed) if short else list(maker.inputs())
        if not route.public:
            nobody = Maker(route, ids, None, most_bytes)
            for one in nobody.some(NO_TOKEN_IN_SHORT if short else NO_TOKEN, seed):
                found.append(Input(f"without a token: {one.what}", one.make))
        return found

    async def _most_bytes(self, route: Route, maker: Maker) -> int:
        """The longest body that the route takes, of the sizes that routes have."""
        if not route.bodies:
            return SIZES[0]
        connection, most = Connection(*self._site.address), SIZES[0]
        good = maker.request().partition(b"\r\n\r\n")[2]
        for size in SIZES:
            padded = b" " * (size - len(good)) + good
            status = await connection.ask(maker.request(body=padded), PATIENCE_S)
            if status in (413, NO_ANSWER):
                break
            most = size
        connection.close()
        return most

    async def _connection(self, name: str, attack: Attack, same: bytes | None) -> Row:
        site, seconds = self._site, self._options.seconds
        address = site.store_address if site.attacks_nodes else site.address
        last = b"Connection: close\r\n" if name in OWN_CONNECTION else b""
        request = same or b"GET /healthz HTTP/1.1\r\nHost: abuse\r\n" + last + b"\r\n"
        made = 0

        async def hostile() -> Counter[int]:
            nonlocal made
            made = await attack(address, seconds)
            return Counter({200: made})

        async def ordinary() -> Counter[int]:
            return await self._sent([request], CONNECTIONS, PATIENCE_S, made / seconds)

        return await compared(site, name, hostile, ordinary, self._options.rounds)

    async def _tenant(self, name: str, load: Load) -> Row:
        made = 0

        async def hostile() -> Counter[int]:
            nonlocal made
            statuses = await self._sent(load.hostile, load.connections, load.within_s, None)
            made = statuses.total()
            return statuses

        async def ordinary() -> Counter[int]:
            rate = max(1.0, made / self._options.seconds)
            return await self._sent(load.ordinary, load.connections, PATIENCE_S, rate)

        return await compared(self._site, name, hostile, ordinary, self._options.rounds)

    async def _sent(
        self, requests: list[bytes], connections: int, within_s: float, rate: float | None
    ) -> Counter[int]:
        """Send them again and again, for as long as an attack takes."""
        end_s = time.monotonic() + self._options.seconds

        def until_end() -> Iterator[bytes]:
            for request in cycle(requests):
                if time.monotonic() > end_s:
                    return
                yield request

        endless = until_end()
        endless = endless if rate is None else islice(endless, int(rate * self._options.seconds))
        return await send_all(
            self._site.address, endless, connections=connections, within_s=within_s, rate=rate
        )

    def _chosen(self, named: dict[str, T]) -> Iterator[tuple[str, T]]:
        chosen = ((name, one) for name, one in named.items() if self._options.only in name)
        return ((name, one) for name, one in chosen if not self._options.witness or name in PROOFS)

    def _add(self, row: Row) -> None:
        self.rows.append(row)
        seen = row.seen
        statuses = ", ".join(f"{status}: {n}" for status, n in sorted(seen.statuses.items()))
        say(
            f"{row.name}: {seen.callback_ms:.0f} ms in {seen.callback}, "
            f"a pass of {seen.pass_ms:.0f} ms ({seen.of_pass}), "
            f"{seen.kept_mib:+.0f} MiB (peak {seen.peak_mib:+.0f}), {seen.seconds:.1f} s, "
            f"witness p99 {seen.p99_ms:.0f} ms, {{{statuses}}}"
        )
        for text in row.breaches:
            say(f"  BREACH {text}")
        if seen.gone:
            raise SystemExit("the server has ended: what follows would say nothing")


def say(text: str) -> None:
    print(text, flush=True)


def main() -> int:
    """Exit status 1 when anything is beyond the promise."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--short", action="store_true", help="fewer inputs, one short round: for CI"
    )
    parser.add_argument(
        "--witness", action="store_true", help="what the witness saw beside the audit's attacks"
    )
    parser.add_argument(
        "--as-shipped", action="store_true", help="run on uvloop, and time no callback"
    )
    parser.add_argument("--parts", default=",".join(PARTS), help="comma-separated")
    parser.add_argument(
        "--part",
        type=lambda text: parts.part_of(text, parts.ABUSED_ROUTES),
        default=parts.ALL,
        help="of the routes and of the tenants' attacks: K/N, or rotating",
    )
    parser.add_argument("--only", default="", help="attacks whose name contains this")
    parser.add_argument("--rounds", type=int, help="of an attack and as many ordinary requests")
    parser.add_argument("--seconds", type=float, help="that such an attack goes on")
    parser.add_argument("--seed", type=int, default=0, help="which inputs the short form draws")
    parser.add_argument("--setting", action="append", default=[], metavar="NAME=VALUE")
    parser.add_argument("--tell-slow", type=float, default=1e9, help="inputs that take longer, s")
    parser.add_argument("--table", type=Path, help="a file for the table")
    options = parser.parse_args()
    if unknown := set(options.parts.split(",")) - set(PARTS):
        parser.error(f"--parts: there is no {sorted(unknown)}")
    if options.witness:
        options.parts, options.seconds = "connections,tenants", options.seconds or WITNESS_S
        options.as_shipped = True
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    options.rounds = options.rounds or (1 if options.short else 5)
    options.seconds = options.seconds or (1.5 if options.short else 4.0)
    settings = dict(one.split("=", 1) for one in options.setting)
    if options.as_shipped:
        settings[probe.AS_SHIPPED] = "1"
    with running(settings) as site:
        # An attacker has a machine of its own: here it leaves the processors to the site and the
        # witness, which run already.
        os.nice(5)
        program = Program(site, options)
        try:
            asyncio.run(program.run())
        finally:
            rows = program.rows
            shown = witness_table(rows, PROOFS) if options.witness else table(rows)
            say("\n" + shown)
            if options.table is not None:
                options.table.write_text(shown + "\n")
    broken = [f"{row.name}: {text}" for row in program.rows for text in row.breaches]
    broken += program.missing
    say(f"\n{len(program.rows)} attacks, {len(broken)} beyond the promise")
    for text in broken:
        say(f"  {text}")
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
