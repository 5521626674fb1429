"""Mutants of the handshake between processes: each takes out one thing that it guarantees."""

from __future__ import annotations

from tests.mutants.mutant import Edit, Mutant

HANDSHAKE = "peering/rpc/handshake.py"
TEST = "tests/unit/peering/test_handshake.py"

MUTANTS: tuple[Mutant, ...] = (
    Mutant(
        "whoever dials is let in",
        (Edit(HANDSHAKE, "        if not self._proves(DIALER, proof):", "        if False:"),),
        breaks="P18",
        killed_by=f"{TEST}::test_only_who_knows_the_secret_is_let_in",
    ),
    Mutant(
        "whoever answers is spoken to",
        (Edit(HANDSHAKE, "        if not self._proves(LISTENER, proof):", "        if False:"),),
        breaks="P18",
        killed_by=f"{TEST}::test_only_who_knows_the_secret_is_spoken_to",
    ),
    Mutant(
        "the proof of a listener is good for a dialer",
        (
            Edit(
                HANDSHAKE,
                "        parts = (side, hello, challenge)",
                '        parts = (b"", hello, challenge)',
            ),
        ),
        breaks="P18",
        killed_by=f"{TEST}::test_a_proof_fits_one_handshake_and_one_side_of_it",
    ),
    Mutant(
        "a listener draws no nonce",
        (
            Edit(
                HANDSHAKE,
                "self._party.claim, os.urandom(NONCE_BYTES))\n            self._claim",
                "self._party.claim, bytes(NONCE_BYTES))\n            self._claim",
            ),
        ),
        breaks="P18",
        killed_by=f"{TEST}::test_a_proof_fits_one_handshake_and_one_side_of_it",
    ),
    Mutant(
        "what a dialer claims is not under the proofs",
        (
            Edit(
                HANDSHAKE,
                "        parts = (side, hello, challenge)",
                "        parts = (side, hello[-NONCE_BYTES:], challenge)",
            ),
        ),
        breaks="P18",
        killed_by=f"{TEST}::test_nobody_between_changes_a_claim",
    ),
    Mutant(
        "two that speak the present form are talked into the older one",
        (
            Edit(
                HANDSHAKE,
                "        elif form is self._protocol.legacy and hello.newest > form.newest:",
                "        elif False:",
            ),
        ),
        breaks="P18",
        killed_by=f"{TEST}::test_nobody_between_talks_two_into_what_is_older",
    ),
    Mutant(
        "one key for all protocols",
        (
            Edit(
                HANDSHAKE,
                'return secret.derived(b"handshake of " + self._name)',
                'return secret.derived(b"handshake of ")',
            ),
        ),
        breaks="P18",
        killed_by=f"{TEST}::test_a_proof_is_good_for_one_protocol",
    ),
    Mutant(
        "a stranger says goodbye for good",
        (Edit(HANDSHAKE, "message.code if self._challenge else 0", "message.code"),),
        breaks="P18",
        killed_by=f"{TEST}::test_a_stranger_cannot_say_goodbye_for_good",
    ),
    Mutant(
        "a dialer that says nothing is waited for",
        (
            Edit(
                HANDSHAKE,
                '            HANDSHAKE_TIMEOUT_S, connection.abort, "no handshake in time"',
                '            3600.0, connection.abort, "no handshake in time"',
            ),
        ),
        breaks="P18",
        killed_by=f"{TEST}::test_who_says_nothing_is_not_waited_for",
        fails_with="TimeoutError",
    ),
    Mutant(
        "whoever has proved nothing may send frames of full size",
        (
            Edit(
                "peering/rpc/connection.py",
                "            bytes,\n            HANDSHAKE_FRAME_BYTES,\n",
                "            bytes,\n            self._wire.max_frame_bytes,\n",
            ),
        ),
        breaks="P18",
        killed_by=f"{TEST}::test_what_is_unproven_is_small",
    ),
)
