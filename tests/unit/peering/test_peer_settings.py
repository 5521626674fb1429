"""Settings of TLS between processes."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from peering.settings import PeerSettings, PeerTlsMode

FILES = {
    f"PACKETBOAT_PEER_TLS_{name}": f"/etc/packetboat/{name.lower()}.pem"
    for name in ("CA", "CERT", "KEY")
}


def test_it_is_off_unless_asked_for() -> None:
    assert PeerSettings.from_environment({}) == PeerSettings()
    assert PeerSettings().tls is PeerTlsMode.OFF
    assert PeerSettings.from_environment(FILES).tls is PeerTlsMode.OFF


def test_all_of_it_is_read() -> None:
    given = FILES | {"PACKETBOAT_PEER_TLS": "prefer", "PACKETBOAT_PEER_TLS_NAME": "staging"}
    settings = PeerSettings.from_environment(given)
    assert settings.tls is PeerTlsMode.PREFER
    assert settings.tls_key == Path("/etc/packetboat/key.pem")
    assert settings.tls_name == "staging"


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"PACKETBOAT_PEER_TLS": "yes"}, "PACKETBOAT_PEER_TLS='yes'.*off, accept, prefer, require"),
        ({"PACKETBOAT_PEER_TLS_CA": ""}, "PACKETBOAT_PEER_TLS_CA"),
        ({"PACKETBOAT_PEER_TLS_KEY": ""}, "PACKETBOAT_PEER_TLS_KEY"),
        ({"PACKETBOAT_PEER_TLS_NAME": ""}, "PACKETBOAT_PEER_TLS_NAME"),
    ],
)
def test_what_does_not_fit_is_named(change: dict[str, str], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        PeerSettings.from_environment(FILES | {"PACKETBOAT_PEER_TLS": "accept"} | change)


def test_each_mode_understands_its_neighbours() -> None:
    """A listener of a mode accepts the dialers of the next one, and the other way round."""
    for one, other in itertools.pairwise(PeerTlsMode):
        for dialer, listener in ((one, other), (other, one)):
            assert listener is not PeerTlsMode.OFF if dialer.dials_tls else listener.listens_plain
