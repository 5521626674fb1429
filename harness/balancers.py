"""HAProxy and nginx, run with the very files of deploy/, where only addresses and places differ."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.processes import Processes, free_ports, listening, wait_until

DEPLOY = Path(__file__).parent.parent / "deploy"
ROLES = ("publish", "subscribe", "gateway")
Servers = Mapping[str, Sequence[str]]
"""`host:port` of every process of each role."""


class HAProxy:
    """One HAProxy. `round_robin` spreads the subscribe role's requests evenly instead of by the
    name of what they are about."""

    name = "haproxy"

    def __init__(self, directory: Path, servers: Servers, *, round_robin: bool = False) -> None:
        self.directory = directory
        self.port, self._metrics_port = free_ports(2)
        self._servers = servers
        self._round_robin = round_robin
        self._processes = Processes()
        self.process: subprocess.Popen[bytes] | None = None

    @staticmethod
    def missing() -> str | None:
        """Return the name of a missing program, or None."""
        return None if program("haproxy") else "haproxy is not installed"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        return self.directory / "haproxy.log"

    def start(self) -> None:
        """Start, and wait until it listens. Raises NotReady."""
        self.directory.mkdir(parents=True, exist_ok=True)
        config = self.directory / "haproxy.cfg"
        config.write_text(self._config())
        shutil.copytree(DEPLOY / "haproxy/errors", self.directory / "errors", dirs_exist_ok=True)
        command = [program("haproxy"), "-db", "-f", str(config)]
        self.process = self._processes.start(command, log=self.log)
        wait_until(lambda: listening(self.port), timeout_s=10, what=f"haproxy ({self.log})")

    def _config(self) -> str:
        text = (DEPLOY / "haproxy/haproxy.cfg").read_text()
        for role in ROLES:
            lines = [
                f"  server {role}-{number} {address}"
                for number, address in enumerate(self._servers[role], 1)
            ]
            text = replaced(rf"(  server {role}-\d+ \S+\n)+", "\n".join(lines) + "\n", text)
        text = replaced(r"bind :8080", f"bind 127.0.0.1:{self.port}", text)
        text = replaced(r"bind 127\.0\.0\.1:8405", f"bind 127.0.0.1:{self._metrics_port}", text)
        # One thread: here it shares its processors with the servers.
        text = replaced(r"  maxconn 20000\n", "  maxconn 8000\n  nbthread 1\n", text)
        text = replaced(r"log /dev/log local0", "log stdout format raw local0", text)
        text = replaced(r"  (user|group) haproxy\n  (user|group) haproxy\n", "", text)
        if self._round_robin:
            pattern = r"  balance hash .*\n  hash-type .*\n"
            text = replaced(pattern, "  balance roundrobin\n", text)
        return text

    def servers_up(self) -> set[str]:
        """Names of the servers that its health checks have found well, such as `publish-1`."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._metrics_port}/metrics") as answer:
            text = answer.read().decode()
        return set(re.findall(r'haproxy_server_status\{.*server="([^"]+)",state="UP"\} 1', text))

    def stop(self) -> None:
        self._processes.stop(grace_s=0.0)


class Nginx:
    """One nginx."""

    name = "nginx"

    def __init__(self, directory: Path, servers: Servers) -> None:
        self.directory = directory
        (self.port,) = free_ports(1)
        self._servers = servers
        self._processes = Processes()
        self.process: subprocess.Popen[bytes] | None = None

    @staticmethod
    def missing() -> str | None:
        """Return the name of a missing program, or None."""
        return None if program("nginx") else "nginx is not installed"

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def log(self) -> Path:
        return self.directory / "nginx.log"

    def start(self) -> None:
        """Start, and wait until it listens. Raises NotReady."""
        self.directory.mkdir(parents=True, exist_ok=True)
        config = self.directory / "nginx.conf"
        config.write_text(self._config())
        command = [program("nginx"), "-p", str(self.directory), "-c", str(config)]
        command += ["-e", "stderr", "-g", "daemon off;"]
        self.process = self._processes.start(command, log=self.log)
        wait_until(lambda: listening(self.port), timeout_s=10, what=f"nginx ({self.log})")

    def _config(self) -> str:
        text = (DEPLOY / "nginx/nginx.conf").read_text()
        for role in ROLES:
            head = rf"(upstream {role} \{{\n(?:    (?!server).*\n)+)"
            found = re.search(head + r"((?:    server .*\n)+)", text)
            assert found is not None, role
            options = found[2].splitlines()[0].split(None, 2)[2]
            lines = "".join(f"    server {each} {options}\n" for each in self._servers[role])
            text = text[: found.start(2)] + lines + text[found.end(2) :]
        text = replaced(r"listen 8080;", f"listen 127.0.0.1:{self.port};", text)
        text = replaced(r"pid /run/nginx\.pid;", "pid nginx.pid;", text)
        text = replaced(r"error_log /var/log/nginx/error\.log", "error_log stderr", text)
        # Its directories of bodies would else be made where only root may, for another account.
        text = replaced(r"user www-data;", "user root;" if os.geteuid() == 0 else "", text)
        places = "".join(f"  {kind}_temp_path temp-{kind};\n" for kind in TEMPORARY)
        return replaced(r"http \{\n", "http {\n" + places, text)

    def stop(self) -> None:
        """nginx's workers end with their master, when that is asked."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(10)
        self._processes.stop(grace_s=0.0)


TEMPORARY = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


def replaced(pattern: str, by: str, text: str) -> str:
    """Exactly one place must fit, so that a file of deploy/ that has changed is noticed."""
    text, count = re.subn(pattern, lambda _: by, text)
    assert count == 1, f"{pattern}: {count} places"
    return text


def program(name: str) -> str:
    """Return the path of a program; empty if it is missing.

    Debian's are in directories in which a plain account does not look.
    """
    return shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/local/sbin") or ""
