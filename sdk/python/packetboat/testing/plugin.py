"""The pytest plugin: `packetboat`. Where no test asks for it, nothing of it is imported.

[pytest]
packetboat_store_nodes = 3
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from packetboat.testing.faults import Faults
    from packetboat.testing.packetboat import Packetboat, Session

NODES = "packetboat_store_nodes"
FAULTS: pytest.StashKey[Faults] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addini(
        NODES, "store nodes of the fixture `packetboat`: 1, or 3 for majorities", "string", "1"
    )


@pytest.fixture(scope="session")
def packetboat_session(pytestconfig: pytest.Config) -> Iterator[Session]:
    """Start the server that all tests of this process share."""
    from packetboat.testing.packetboat import Session

    session = Session(nodes=int(pytestconfig.getini(NODES)))
    try:
        yield session.start()
    finally:
        session.close()


@pytest.fixture
def packetboat(packetboat_session: Session, request: pytest.FixtureRequest) -> Iterator[Packetboat]:
    """Provide a real Packetboat with a tenant of the test's own, a clock to move, and
    seeded faults.
    """
    made = packetboat_session.begin()
    request.node.stash[FAULTS] = made.faults
    try:
        yield made
    finally:
        packetboat_session.end(made)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A failed test says which faults it had, and their seeds."""
    report = yield
    faults = item.stash.get(FAULTS, None)
    if faults is not None and report.when == "call" and report.failed and faults.report():
        report.sections.append(("packetboat faults", "\n".join(faults.report())))
    return report
