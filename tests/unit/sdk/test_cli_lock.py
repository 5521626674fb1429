"""`packetboat lock`: the program runs while the lock is held, and not a moment longer."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from packetboat.cli.commands import lock
from packetboat.errors import UnknownOutcome
from packetboat.transport import Request

from tests.unit.sdk.cli_support import Answer, Command, Ran, problem

HELD = {"name": "n", "lock_id": "id-1", "fencing_token": 7, "ttl_seconds": 30}
RUN = ["lock", "n", "--"]
WAITS = "import time; time.sleep(60)"


def answers(**changed: Answer) -> dict[str, Answer]:
    found: dict[str, Answer] = {"acquire": HELD, "renew": HELD, "release": {}} | changed
    return {f"POST /locks/n:{verb}": each for verb, each in found.items()}


def verbs(ran: Ran) -> list[str]:
    return [path.rpartition(":")[2] for path in ran.server.paths()]


def python(command: Command, program: str, *options: str, **changed: Answer) -> Ran:
    arguments = ["lock", "n", *options, "--", sys.executable, "-c", program]
    return command(*arguments, answers=answers(**changed))


def test_the_program_runs_between(command: Command) -> None:
    ran = python(command, "open('ran', 'w')")
    assert (ran.code, verbs(ran)) == (0, ["acquire", "release"])
    assert Path("ran").exists()
    assert ran.server.sent() == {"lock_id": "id-1"}


@pytest.mark.parametrize(
    ("program", "code"), [("exit(9)", 9), ("import os; os.kill(os.getpid(), 15)", 143)]
)
def test_its_exit_code_is_ours(command: Command, program: str, code: int) -> None:
    ran = python(command, program)
    assert (ran.code, verbs(ran)) == (code, ["acquire", "release"])


def test_it_finds_its_fencing_token(command: Command) -> None:
    program = "import os, json; json.dump(dict(os.environ), open('e', 'w'))"
    python(command, program)
    environment = json.loads(Path("e").read_text())
    assert environment["PACKETBOAT_FENCING_TOKEN"] == "7"
    assert (environment["PACKETBOAT_LOCK"], environment["PACKETBOAT_LOCK_ID"]) == ("n", "id-1")


def test_a_lock_that_is_held_by_another(command: Command) -> None:
    held = problem(409, "lock-held", "Held.", holder="w")
    ran = python(command, "open('ran', 'w')", acquire=held)
    assert (ran.code, verbs(ran)) == (5, ["acquire"])
    assert not Path("ran").exists()
    assert "holder: w" in ran.err


def test_asking_twice_takes_it_once(command: Command) -> None:
    ran = python(command, "", acquire=[UnknownOutcome("cut"), HELD])
    assert verbs(ran) == ["acquire", "acquire", "release"]
    assert ran.server.sent(0) == ran.server.sent(1)


def test_it_is_renewed(command: Command) -> None:
    renewed: list[Request] = []

    def renew(request: Request) -> Any:
        renewed.append(request)
        if len(renewed) == 2:
            Path("go").touch()
        return HELD

    program = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.01)"
    ran = python(command, program, "--ttl", "1", renew=renew)
    assert ran.code == 0
    assert verbs(ran)[:3] == ["acquire", "renew", "renew"]


def test_a_lost_lock_ends_the_program(command: Command) -> None:
    lost = problem(409, "lock-lost", "Another has it.")
    ran = python(command, WAITS, "--ttl", "1", renew=lost, release=lost)
    assert ran.code == 5
    assert "the program was ended" in ran.err


def test_a_server_that_is_away_for_too_long_ends_it(command: Command) -> None:
    cut = UnknownOutcome("cut")
    ran = python(command, WAITS, "--ttl", "1", "--timeout", "0.01", renew=lambda request: cut)
    assert ran.code == 5


def test_a_program_that_does_not_listen_is_killed(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "KILL_AFTER_S", 0.1)
    deaf = f"import signal; signal.signal(15, signal.SIG_IGN); {WAITS}"
    began_s = time.monotonic()
    ran = python(command, deaf, "--ttl", "1", renew=problem(409, "lock-lost"))
    assert ran.code == 5
    assert time.monotonic() - began_s < 50


def test_a_program_that_is_not_there(command: Command) -> None:
    ran = command(*RUN, "/nowhere/program", answers=answers())
    assert (ran.code, verbs(ran)) == (1, ["acquire", "release"])
    assert "/nowhere/program" in ran.err


def test_a_signal_while_the_program_is_started_goes_to_it(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command was ended by the signal, and the program ran on without the lock."""
    popen = subprocess.Popen

    def signalled(*arguments: Any, **more: Any) -> Any:
        os.kill(os.getpid(), signal.SIGTERM)
        return popen(*arguments, **more)

    monkeypatch.setattr(lock.subprocess, "Popen", signalled)
    ran = python(command, WAITS)
    assert (ran.code, verbs(ran)) == (128 + signal.SIGTERM, ["acquire", "release"])


def test_options_behind_the_dashes_are_the_programs(command: Command) -> None:
    program = "import sys; open('arguments', 'w').write(' '.join(sys.argv[1:]))"
    command(*RUN, sys.executable, "-c", program, "-o", "--url", answers=answers())
    assert Path("arguments").read_text() == "-o --url"
