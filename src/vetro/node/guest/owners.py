"""Owners of files: as an instance sees them, and as they are on disk, shifted into its id range."""

#: How many ids an instance has.
ID_COUNT = 65536
_NOBODY = 65534


def inside(number: int, shift: int) -> int:
    """The id that the instance sees; what is outside of its range belongs to nobody."""
    inner = number - shift
    return inner if 0 <= inner < ID_COUNT else _NOBODY


def outside(number: int, shift: int) -> int:
    """The id on disk."""
    return shift + (number if 0 <= number < ID_COUNT else _NOBODY)
