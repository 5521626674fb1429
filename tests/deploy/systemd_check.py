"""docs/operations/systemd.md under a real systemd: root, and Debian's debootstrap and
systemd-container; a quarter of an hour.

    make systemd-test

A Debian is made and booted beside this one, Packetboat is installed in it by the commands of the
page, and used while its services are restarted, killed and stopped. The tests go on from each
other.
"""

from __future__ import annotations

import asyncio
import functools
import itertools
import json
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from packetboat import Client, Options
from packetboat.credentials import StaticToken

from harness.balancers import HAProxy
from tests.chaos.rolling.load import Addresses, SdkLoad
from tests.deploy.debian import missing
from tests.deploy.one_machine import SERVERS, STORE_NODES, OneMachine
from tests.deploy.test_units import MOST_EXPOSED
from tests.e2e.test_operations_docs import blocks

UNITS = (*STORE_NODES, *SERVERS)
WAIT_S = 300.0
RETRY_FOR_S = 120.0
TOPIC, SUBSCRIPTION = "invoices", "billing"


@pytest.fixture(scope="module")
def one_machine() -> Iterator[OneMachine]:
    """Yield a machine on which everything on the page is started."""
    lacking = missing("systemd-nspawn", "nsenter")
    if HAProxy.missing():
        lacking.append("haproxy")
    if lacking:
        pytest.skip(
            f"systemd: {', '.join(lacking)} missing"
            " (Debian: apt-get install debootstrap systemd-container haproxy; root)"
        )
    root = Path(tempfile.mkdtemp(prefix="packetboat-systemd-"))
    site = OneMachine(root / "debian")
    try:
        site.make()
        yield site
    finally:
        site.machine.kill()
        shutil.rmtree(root)


@pytest.fixture
def site(one_machine: OneMachine) -> Iterator[OneMachine]:
    """Yield the machine; the test is in its network."""
    with one_machine.machine.network():
        yield one_machine


def client(site: OneMachine, role: str) -> Client:
    return Client.from_options(
        Options(
            urls=tuple(site.urls[role]),
            credentials=StaticToken(site.token),
            retry_for_s=RETRY_FOR_S,
            trust_env=False,
        )
    )


def until(is_so: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < deadline_s
        time.sleep(0.2)


def runs_anew(site: OneMachine, unit: str, before: str) -> bool:
    """Return whether the unit runs as another process than `before`."""
    return site.show(unit, "MainPID")["MainPID"] not in ("0", before)


def is_over(site: OneMachine, unit: str) -> bool:
    """Return whether the unit is over, because it was told to or by itself for ever."""
    return site.show(unit, "ActiveState")["ActiveState"] in ("inactive", "failed")


def moment(site: OneMachine, unit: str, name: str) -> int:
    """Return a time of a unit, in microseconds of one clock."""
    return int(site.show(unit, name)[name])


class Publishing:
    """Numbers, one after the other, each with a key of its own."""

    def __init__(self) -> None:
        self.published: list[str] = []
        self.failed: list[BaseException] = []
        self.is_over = False

    def run(self, publisher: Client) -> None:
        for number in map(str, itertools.count()):
            if self.is_over:
                return
            try:
                publisher.publish("numbers", number, idempotency_key=number).result()
            except Exception as error:
                self.failed.append(error)
                raise
            self.published.append(number)


@contextmanager
def publishing(site: OneMachine) -> Iterator[Publishing]:
    """Publish while the block runs; then check that each message is there once."""
    with client(site, "gateway") as control, client(site, "publish") as publisher:
        control.topics.create("numbers", partitions=1, retention={"mode": "retain"})
        work = Publishing()
        thread = threading.Thread(target=work.run, args=(publisher,))
        thread.start()
        try:
            yield work
            before = len(work.published)
            until(lambda: len(work.published) > before or not thread.is_alive())
        finally:
            work.is_over = True
            thread.join()
        with client(site, "subscribe") as reader:
            stored = [message.text for message in reader.messages.replay("numbers", 0)]
        control.topics.delete("numbers")
    assert work.failed == []
    assert stored == work.published


def test_all_that_was_started_runs(site: OneMachine) -> None:
    assert site.machine.run("systemctl is-system-running").strip() == "running"
    for unit in UNITS:
        told = site.show(unit, "ActiveState", "NRestarts", "User")
        assert told == {"ActiveState": "active", "NRestarts": "0", "User": "packetboat"}, unit


def test_a_message_goes_through_all_of_it(site: OneMachine) -> None:
    with client(site, "gateway") as control:
        control.topics.create(TOPIC)
        control.subscriptions.create(TOPIC, SUBSCRIPTION, start="earliest")
    with client(site, "publish") as publisher:
        publisher.publish(TOPIC, "one", delay_seconds=1).result()
    with client(site, "subscribe") as consumer:
        (message,) = consumer.pull(SUBSCRIPTION, max_messages=1, wait_seconds=60)
        assert message.text == "one"
        assert not consumer.ack(SUBSCRIPTION, [message]).failures


@pytest.mark.parametrize("unit", UNITS)
def test_it_may_do_little_as_it_runs(site: OneMachine, unit: str) -> None:
    said = site.machine.run(f"systemd-analyze security --no-pager '{unit}'")
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", said)
    assert found, said
    assert float(found[1]) <= MOST_EXPOSED, said


def test_it_sees_and_changes_nothing_else(site: OneMachine) -> None:
    """The test looks from inside a store node's namespace."""
    pid = site.show(STORE_NODES[0], "MainPID")["MainPID"]
    status = site.machine.run(f"cat /proc/{pid}/status")
    for line in ("CapEff:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2"):
        assert line in status
    uid = site.machine.run("id -u packetboat").strip()
    inside = f"nsenter --target={pid} --mount --setuid={uid} --setgid={uid} --"
    site.machine.run(
        f"""
        {inside} sh -c '! touch /opt/packetboat/mark && ! touch /etc/mark'
        {inside} sh -c '! cat /etc/packetboat/store.env'
        {inside} sh -c '! touch /var/lib/packetboat/store-node-2/mark'
        {inside} sh -c 'touch /var/lib/packetboat/store-node-1/mark'
        rm /var/lib/packetboat/store-node-1/mark
        """
    )


@pytest.mark.parametrize("unit", UNITS)
def test_the_journal_has_its_log_line_by_line(site: OneMachine, unit: str) -> None:
    lines = site.journal(unit)
    assert lines
    for line in lines:
        assert isinstance(json.loads(line), dict), line


@pytest.fixture
def balancer(site: OneMachine, tmp_path: Path) -> Iterator[HAProxy]:
    """Yield a balancer in front of all servers."""
    at = {role: [url.removeprefix("http://") for url in urls] for role, urls in site.urls.items()}
    balancer = HAProxy(tmp_path, at)
    balancer.start()
    try:
        yield balancer
    finally:
        balancer.stop()


def test_restarts_under_load_fail_no_publish(site: OneMachine, balancer: HAProxy) -> None:
    """The loop of the page restarts the store nodes; then systemctl restarts each unit
    alone, in no order.
    """
    urls = site.urls
    at = Addresses(balancer.url, urls["publish"], urls["subscribe"], urls["gateway"][0])
    load = SdkLoad(at, site.token)

    async def run() -> None:
        async with load.at_work():
            (loop,) = blocks("rolling-restart.md", "Store nodes")
            await asyncio.to_thread(site.shell, f"NODES='1 2 3'\n{loop}")
            await load.probe()
            for unit in UNITS:
                await asyncio.to_thread(site.machine.run, f"systemctl restart '{unit}'")
                await asyncio.to_thread(site.until_ready)
                await load.probe()

    asyncio.run(run())
    print(load.books.summary())
    assert load.wrong == []
    for unit in UNITS:
        assert site.show(unit, "Result", "NRestarts") == {"Result": "success", "NRestarts": "0"}


def test_what_is_killed_under_load_is_started_again(site: OneMachine) -> None:
    with publishing(site):
        for unit in UNITS:
            before = site.show(unit, "MainPID")["MainPID"]
            site.machine.run(f"kill -9 {before}")
            until(functools.partial(runs_anew, site, unit, before))
            site.until_ready()
            assert site.show(unit, "NRestarts") == {"NRestarts": "1"}


@pytest.mark.parametrize(
    ("unit", "settings", "status"),
    [
        ("publish@8099", {"PACKETBOAT_DRAIN_S": "soon"}, "2"),
        ("store-node@4", {}, "2"),
        ("store-node@5", {"PACKETBOAT_STORE_NODES": "5=127.0.0.1:9005"}, "78"),
    ],
    ids=("no number", "not among the nodes", "the directory of another"),
)
def test_what_cannot_run_is_left_alone(
    site: OneMachine, unit: str, settings: dict[str, str], status: str
) -> None:
    site.configure(f"{unit.replace('@', '-')}.env", settings)
    state = "/var/lib/packetboat/store-node"
    site.machine.run(f"cp -a {state}-1 {state}-5")
    site.machine.run(f"systemctl start packetboat-{unit} || true")
    until(functools.partial(is_over, site, f"packetboat-{unit}"))
    told = site.show(f"packetboat-{unit}", "ExecMainStatus", "NRestarts")
    assert told == {"ExecMainStatus": status, "NRestarts": "0"}
    site.machine.run(f"systemctl reset-failed 'packetboat-*'; rm -r {state}-5")


def test_a_runner_exports_what_is_there(site: OneMachine, balancer: HAProxy) -> None:
    """The runner is the only unit that may make code at run time."""
    site.start_runner(balancer.url)
    with client(site, "gateway") as control, client(site, "publish") as publisher:
        control.topics.create("sales", retention={"mode": "retain"})
        for number in range(10):
            publisher.publish("sales", json.dumps({"number": number})).result()
        control.exports.create("sales", "sales")
        run = control.exports.run("sales").wait(timeout_s=WAIT_S)
        assert run.state == "succeeded", run
        assert control.exports.get("sales").rows == 10
    assert site.show("packetboat-export-runner", "ActiveState", "NRestarts") == {
        "ActiveState": "active",
        "NRestarts": "0",
    }


def test_another_version_leaves_settings_and_services_alone(site: OneMachine) -> None:
    settings = "cat /etc/packetboat/*.env | sha256sum"
    before = site.machine.run(settings)
    with publishing(site):
        site.install()
    assert site.machine.run(settings) == before
    for unit in UNITS:
        assert site.show(unit, "ActiveState")["ActiveState"] == "active"


def test_a_stop_of_all_ends_servers_before_store_nodes(site: OneMachine) -> None:
    with client(site, "publish") as publisher:
        publisher.publish(TOPIC, "before the stop").result()
    site.machine.run("systemctl stop packetboat.target")
    for unit in UNITS:
        until(functools.partial(is_over, site, unit))
        assert site.show(unit, "Result") == {"Result": "success"}
    ended = [moment(site, unit, "InactiveEnterTimestampMonotonic") for unit in SERVERS]
    began = [moment(site, unit, "ActiveExitTimestampMonotonic") for unit in STORE_NODES]
    assert max(ended) <= min(began)
    site.machine.run("ls /var/lib/packetboat/store-node-*/checkpoints/*")


def test_a_boot_starts_all_of_it(site: OneMachine) -> None:
    """Earlier messages are still there."""
    site.machine.halt()
    site.machine.start()
    with site.machine.network():
        site.until_ready()
        with client(site, "subscribe") as consumer:
            (message,) = consumer.pull(SUBSCRIPTION, max_messages=1, wait_seconds=60)
            assert message.text == "before the stop"
    assert site.machine.run("systemctl is-system-running").strip() == "running"
