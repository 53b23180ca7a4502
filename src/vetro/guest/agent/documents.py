"""Reading JSON from other parties, whose content is not known."""

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def is_map(value: object) -> bool:
    """True for a JSON object."""
    return isinstance(value, dict)


def is_list(value: object) -> bool:
    """True for a JSON array."""
    return isinstance(value, list)


def becomes_list(value: object) -> bool:
    """True for a value that JSON encodes as an array."""
    return isinstance(value, (list, tuple))


def read_json(data: bytes) -> "Any":
    """The value of a JSON text. Raises ValueError for any text that has no value.

    This includes, beside bad syntax, nesting that exhausts the interpreter's stack and numbers that
    it does not convert.
    """
    try:
        return json.loads(data.decode("utf-8"))
    except ValueError:
        raise
    except (RecursionError, OverflowError, MemoryError) as error:
        raise ValueError("it cannot be read: %s" % (str(error) or type(error).__name__)) from error
