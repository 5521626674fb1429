"""A port that was given out is nobody else's while who got it lives."""

from __future__ import annotations

import subprocess
import sys

from harness import processes

SCRIPT = "from harness import processes\nprint(processes._claimed({port}))"


def claimed_elsewhere(port: int) -> str:
    command = [sys.executable, "-c", SCRIPT.format(port=port)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.strip()


def test_a_port_is_given_once() -> None:
    """A store node was killed, and another test took its port before it was started again."""
    (port,) = processes.free_ports(1)
    assert claimed_elsewhere(port) == "False"
    assert not processes._claimed(port)


def test_a_port_is_free_again_when_its_process_ended() -> None:
    port = next(each for each in processes.FREE_PORTS if each not in processes._ours)
    assert claimed_elsewhere(port) == "True"
    assert claimed_elsewhere(port) == "True"
