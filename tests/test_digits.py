"""Which texts from outside count as numbers."""

import pytest

from vetro.digits import MOST_DIGITS, is_number


@pytest.mark.parametrize("text", ["0", "7", "007", "9" * MOST_DIGITS])
def test_a_number_is_one_that_int_reads(text: str) -> None:
    """Digits, up to as many as fit into 64 bits."""
    assert is_number(text)
    assert int(text) < 2**63


@pytest.mark.parametrize(
    "text",
    ["", "²", "٣", "1²", "-1", "+1", " 1", "1_0", "1.0", "9" * (MOST_DIGITS + 1), "9" * 5_000],
)
def test_other_texts_are_not_numbers(text: str) -> None:
    """Other scripts, superscripts, signs, spaces, and texts that are too long."""
    assert not is_number(text)
