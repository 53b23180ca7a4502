"""Whether a text from outside is a number that `int` reads.

`str.isdigit` is true of "²" and of texts of any length: `int` refuses the first, and more than 4,300 digits.
"""

MOST_DIGITS = 18
"""Every such number fits into the 64 bits that databases and wires have."""


def is_number(text: str) -> bool:
    """Whether the text is 1 to 18 of the digits 0 to 9, and nothing else."""
    return len(text) <= MOST_DIGITS and text.isascii() and text.isdigit()
