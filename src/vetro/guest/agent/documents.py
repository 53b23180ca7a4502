"""What kind of JSON value something is, without claiming to know what is in it."""


def is_map(value: object) -> bool:
    """True for a JSON object."""
    return isinstance(value, dict)


def is_list(value: object) -> bool:
    """True for a JSON array."""
    return isinstance(value, list)
