"""JSON of columns, encoded and decoded so that the event loop keeps running.

A model of ten megabytes takes a fifth of a second to decode. Large values are therefore coded in a
thread; since one call of the decoder blocks all other threads until it returns, a large text is
first split, and its parts are decoded one by one.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from sqlalchemy.util.concurrency import await_only, in_greenlet

LARGE = 64 * 1024
"""From this number of characters on, JSON is coded in a thread and split."""
T = TypeVar("T")
_MAPPING = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LIST = msgspec.json.Decoder(list[msgspec.Raw])


def encode(value: object) -> bytes:
    """A value as JSON; key order is kept."""
    return msgspec.json.encode(value)


def decode(text: bytes | str) -> Any:
    """The value of a JSON text. Errors: ``msgspec.DecodeError``."""
    data = text.encode() if isinstance(text, str) else text
    if len(data) < LARGE:
        return msgspec.json.decode(data)
    # Python's collector would repeatedly scan all new objects and block every other thread.
    was_on = gc.isenabled()
    gc.disable()
    try:
        return _decoded(data)
    finally:
        if was_on:
            gc.enable()


def _decoded(text: bytes | msgspec.Raw) -> object:
    view = memoryview(text)
    if view.nbytes >= LARGE:
        first = bytes(view[:1])
        if first == b"{":
            return {key: _decoded(part) for key, part in _MAPPING.decode(text).items()}
        if first == b"[":
            return [_decoded(part) for part in _LIST.decode(text)]
    return msgspec.json.decode(text)


def is_large(value: object) -> bool:
    """Whether JSON of a value surely has more than ``LARGE`` characters. Stops at that number."""
    # Every value that is stored comes here: types are compared, because that is the fastest.
    left = LARGE
    pending: list[object] = [value]
    take, more = pending.pop, pending.extend
    while pending:
        one: Any = take()
        kind = one.__class__
        if kind is str:
            left -= len(one) + 2
        elif kind is dict:
            left -= 2 + 4 * len(one)
            more(one)
            more(one.values())
        elif kind is list or kind is tuple:
            left -= 1 + len(one)
            more(one)
        else:
            left -= 1
        if left < 0:
            return True
    return False


def beside_the_loop(work: Callable[[], T]) -> T:
    """Run ``work`` in a thread while the loop runs on: in statements of ``Transaction.execute``.

    Elsewhere (synchronous tools) it runs at once.
    """
    if not in_greenlet():
        return work()
    return await_only(asyncio.to_thread(work))
