"""The balancer of the platform module: a configuration that HAProxy takes, and its certificate
changed while it runs."""

from __future__ import annotations

import re
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from cryptography import x509

from harness.balancers import DEPLOY, HAProxy, program
from harness.processes import Processes, free_ports, listening
from peering.authority import Issued, issue, make_authority
from tests.terraform.built_provider import ROOT
from tests.terraform.manifests import LARGE, SMALL, Manifests, rendered

RELOAD = ROOT / "deploy/terraform/modules/platform/manifests/files/reload.sh"
PATIENCE_S = 120.0
CONFIGURATION = """
global
  ssl-load-extra-del-ext
defaults
  mode http
  timeout connect 1s
  timeout client 30s
  timeout server 30s
frontend it
  bind 127.0.0.1:{port} ssl crt {directory}/tls.crt
  http-request return status 200 content-type text/plain string well
"""


@pytest.fixture(autouse=True)
def haproxy() -> str:
    if missing := HAProxy.missing():
        pytest.skip(f"{missing}: apt-get install haproxy")
    return program("haproxy")


def unpacked(manifests: Manifests, directory: Path) -> Path:
    """Unpack the files as the volume mounts them; return the path of the configuration."""
    pod = manifests.get("Deployment", "packetboat-front")["spec"]["template"]["spec"]
    (volume,) = (each for each in pod["volumes"] if each["name"] == "files")
    data = manifests.get("ConfigMap", volume["configMap"]["name"])["data"]
    for item in volume["configMap"]["items"]:
        file = directory / item["path"]
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(data[item["key"]])
    return directory / "haproxy.cfg"


@pytest.fixture
def certificate(tmp_path: Path) -> Path:
    """Return a directory with a certificate and its key."""
    renew(tmp_path)
    return tmp_path


def renew(directory: Path) -> Issued:
    made = issue(make_authority("test"), "localhost")
    made.write(directory / "tls.crt", directory / "tls.key")
    return made


@pytest.mark.parametrize("configuration", [SMALL, LARGE], ids=["plain", "tls"])
def test_haproxy_takes_the_configuration(
    configuration: dict[str, object], haproxy: str, tmp_path: Path, certificate: Path
) -> None:
    file = unpacked(rendered(tmp_path / "main", configuration), tmp_path / "etc")
    text = file.read_text().replace("/etc/haproxy-tls", str(certificate))
    said = subprocess.run([haproxy, "-v"], capture_output=True, text=True, check=True).stdout
    if version_of(said) < (3, 0):
        # Balancers agree on who has which subscription by it; Debian 12's does not know it yet.
        text, count = re.subn(" hash-key addr", "", text)
        assert count == 1
    file.write_text(text)
    done = subprocess.run(
        [haproxy, "-c", "-f", str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "warning" not in done.stderr.lower(), done.stderr


def version_of(said: str) -> tuple[int, int]:
    found = re.search(r"version (\d+)\.(\d+)", said)
    assert found is not None
    return int(found[1]), int(found[2])


def test_nothing_but_addresses_places_and_shares_differ_from_deploy(tmp_path: Path) -> None:
    file = unpacked(rendered(tmp_path / "main", SMALL), tmp_path / "etc")
    ours = (DEPLOY / "haproxy/haproxy.cfg").read_text().splitlines()
    gone = [line for line in ours if line not in file.read_text().splitlines()]
    about = re.compile(
        r"\s+(server \w+-\d+ |bind |user |group |log /dev/log|default-server maxconn \d+$)"
    )
    assert [line for line in gone if not about.match(line)] == []


@pytest.fixture
def running(haproxy: str, certificate: Path) -> Iterator[Callable[[], int]]:
    """Start HAProxy by the script of the manifests; yield a function for the serial number
    that it shows.
    """
    (port,) = free_ports(1)
    (certificate / "haproxy.cfg").write_text(CONFIGURATION.format(port=port, directory=certificate))
    shell = shutil.which("sh") or "sh"
    with Processes() as processes:
        process = processes.start(
            [shell, RELOAD, certificate, certificate / "tls.crt", "0.2"],
            log=certificate / "log",
            env={"PATH": f"{Path(haproxy).parent}:/usr/bin:/bin"},
        )

        def serial() -> int:
            assert process.poll() is None, (certificate / "log").read_text()
            return shown(port)

        yield serial
        process.terminate()
        assert process.wait(PATIENCE_S) == 0, (certificate / "log").read_text()
        assert not listening(port)


def shown(port: int) -> int:
    """Return the serial number of the certificate at that port; 0 if nobody listens yet."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with (
            socket.create_connection(("127.0.0.1", port), 5) as plain,
            context.wrap_socket(plain) as secure,
        ):
            raw = secure.getpeercert(binary_form=True)
    except OSError:
        return 0
    assert raw is not None
    return x509.load_der_x509_certificate(raw).serial_number


def test_a_new_certificate_is_shown_without_a_restart(
    running: Callable[[], int], certificate: Path
) -> None:
    first = x509.load_pem_x509_certificate((certificate / "tls.crt").read_bytes())
    until(lambda: running() == first.serial_number)
    second = x509.load_pem_x509_certificate(renew(certificate).certificate)
    until(lambda: running() == second.serial_number)


def until(done: Callable[[], bool]) -> None:
    deadline_s = time.monotonic() + PATIENCE_S
    while not done():
        assert time.monotonic() < deadline_s
        time.sleep(0.05)
