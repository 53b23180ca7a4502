"""JSON that another program sent, as a body or as text inside a value.

Such a text can be nested so deeply that the decoder gives up with a ``RecursionError``, or not be UTF-8.
For callers both are the same as bad syntax.
"""

from __future__ import annotations

from typing import Any, TypeVar, overload

import msgspec

T = TypeVar("T")


class NotJson(ValueError):
    """A text is not JSON, or not of the expected type."""


@overload
def decode_json(text: bytes | str) -> Any: ...
@overload
def decode_json(text: bytes | str, kind: type[T]) -> T: ...
def decode_json(text: bytes | str, kind: Any = Any) -> Any:
    """The value of a JSON text, converted to the type ``kind``. Errors: ``NotJson``."""
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise NotJson(str(error)) from error
