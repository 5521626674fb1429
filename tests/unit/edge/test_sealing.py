"""Sealing: what opens, what never does, and that no error quotes a key."""

from __future__ import annotations

import pytest

from edge.sealing import MAX_SEALED_BYTES, SealBroken, Sealer

OLD, NEW = "aa" * 32, "bb" * 32


def test_what_is_sealed_opens_for_its_purpose_only() -> None:
    sealer = Sealer.from_text(f"a:{OLD}")
    sealed = sealer.seal(b"secret", "webhook")
    assert sealer.open(sealed, "webhook") == b"secret"
    assert b"secret" not in sealed
    with pytest.raises(SealBroken, match="another purpose"):
        sealer.open(sealed, "signing key")


def test_the_same_text_is_never_sealed_the_same() -> None:
    sealer = Sealer.from_text(f"a:{OLD}")
    assert sealer.seal(b"", "x") != sealer.seal(b"", "x")
    assert sealer.open(sealer.seal(b"", "x"), "x") == b""


def test_the_first_key_seals_and_all_open() -> None:
    before = Sealer.from_text(f"a:{OLD}").seal(b"kept", "x")
    rotated = Sealer.from_text(f"b:{NEW}, a:{OLD}")
    assert rotated.open(before, "x") == b"kept"
    assert not rotated.is_current(before)
    after = rotated.seal(b"kept", "x")
    assert rotated.is_current(after)
    assert Sealer.from_text(f"b:{NEW}").open(after, "x") == b"kept"
    with pytest.raises(SealBroken, match="not among"):
        Sealer.from_text(f"a:{OLD}").open(after, "x")


def test_one_changed_bit_anywhere_is_noticed() -> None:
    sealer = Sealer.from_text(f"a:{OLD},b:{OLD}")
    sealed = sealer.seal(b"secret", "x")
    for position in range(len(sealed) * 8):
        changed = bytearray(sealed)
        changed[position // 8] ^= 1 << position % 8
        with pytest.raises(SealBroken):
            sealer.open(bytes(changed), "x")


@pytest.mark.parametrize("keep", range(40))
def test_what_is_cut_off_does_not_open(keep: int) -> None:
    sealer = Sealer.from_text(f"a:{OLD}")
    with pytest.raises(SealBroken):
        sealer.open(sealer.seal(b"0123456789", "x")[:keep], "x")


def test_a_giant_text_is_refused() -> None:
    with pytest.raises(SealBroken):
        Sealer.from_text(f"a:{OLD}").open(b"\x01" * (MAX_SEALED_BYTES + 1), "x")


@pytest.mark.parametrize(
    "text",
    [
        "",
        OLD,
        f":{OLD}",
        f"a b:{OLD}",
        f"{'k' * 33}:{OLD}",
        f"a:{OLD[:-2]}",
        f"a:{OLD}00",
        f"a:{OLD[:-1]}x",
        f"a:{OLD},a:{OLD}",
        f"a:{OLD},",
    ],
)
def test_keys_that_are_none_are_refused_without_quoting_them(text: str) -> None:
    with pytest.raises(ValueError, match=r"seal key|at least one") as refused:
        Sealer.from_text(text)
    assert OLD[:8] not in str(refused.value)
