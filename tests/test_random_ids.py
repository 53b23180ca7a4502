"""Random ids."""

import uuid

from vetro.random_ids import random_hex, random_uuid

DRAWN = 500
"""So many that each of the four digits of the variant is among them, but for one time in 10^60."""


def test_a_random_uuid_is_one_of_version_4_in_its_usual_form() -> None:
    drawn = [random_uuid() for _ in range(DRAWN)]
    for one in drawn:
        read = uuid.UUID(one)
        assert (str(read), read.version, read.variant) == (one, 4, uuid.RFC_4122)
    assert {one[19] for one in drawn} == set("89ab")
    assert len(set(drawn)) == DRAWN


def test_random_hex_is_such_a_uuid_without_dashes() -> None:
    drawn = [random_hex() for _ in range(DRAWN)]
    for one in drawn:
        read = uuid.UUID(one)
        assert (read.hex, read.version, read.variant) == (one, 4, uuid.RFC_4122)
    assert {one[16] for one in drawn} == set("89ab")
    assert len(set(drawn)) == DRAWN
