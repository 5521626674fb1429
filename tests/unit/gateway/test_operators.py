"""Test where the credential of an operator is kept, and that nothing shows it twice."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from gateway.operators import Credential, NotMade, credential_in, new_credential


def test_a_credential_goes_to_a_file_of_its_owner_and_is_found_again(tmp_path: Path) -> None:
    path = tmp_path / "operator.env"
    made = credential_in(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert credential_in(path) == made
    assert path.read_text() == made.assignments()
    assert [file.name for file in tmp_path.iterdir()] == ["operator.env"]


def test_two_lines_a_shell_can_eval() -> None:
    credential = Credential("pbc_a", "pbs_b")
    assert credential.exports() == (
        "export PACKETBOAT_CLIENT_ID=pbc_a\nexport PACKETBOAT_CLIENT_SECRET=pbs_b\n"
    )
    assert Credential.from_exports(credential.exports()) == credential


def test_the_file_is_one_that_systemd_and_containers_read() -> None:
    """Systemd does not know `export`; it would write such a line with its secret to the journal."""
    credential = Credential("pbc_a", "pbs_b")
    lines = credential.assignments()
    assert lines == "PACKETBOAT_CLIENT_ID=pbc_a\nPACKETBOAT_CLIENT_SECRET=pbs_b\n"
    assert Credential.from_exports(lines) == credential


def test_its_secret_is_not_in_what_is_logged_of_it() -> None:
    credential = new_credential()
    assert credential.client_secret not in repr(credential)


@pytest.mark.parametrize("text", ["", "export A=b\n", "export PACKETBOAT_CLIENT_ID=pbc_a\n"])
def test_another_file_is_not_taken_for_one(tmp_path: Path, text: str) -> None:
    path = tmp_path / "operator.env"
    path.write_text(text)
    with pytest.raises(NotMade) as refused:
        credential_in(path)
    assert path.read_text() == text
    assert "pbc_" not in str(refused.value)
