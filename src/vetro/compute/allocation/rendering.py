"""Steps as JSON bytes: megabytes of uuids and scores, assembled column by column.

With 5,000 servers an explanation has 38 lists of remaining servers and five of scores: 7.6 MB.
Building it from Python strings and encoding it takes 8.5 ms; here, where a list is a selection of
rows from a table of bytes, 1 ms. Values that do not fit a table (names that are not uuids, scores
of three digits) are encoded the usual way.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from vetro.compute.allocation.steps import Step

Bytes = NDArray[np.bytes_]
NAME_LENGTH = 36
_NAME, _SCORE = f"S{NAME_LENGTH}", "S4"
#: The texts of 0.00 to 9.99.
_CENTS: Bytes = np.array([b"%d.%02d" % divmod(cents, 100) for cents in range(1000)], _SCORE)
#: The text of ``Increases`` for a score with one digit before the point.
_LINE = (b'"', _NAME, b'":"increased score by ', _SCORE, b" to ", _SCORE, b'",')
_ROW = np.dtype(
    [
        (f"f{at}", part if isinstance(part, str) else f"S{len(part)}")
        for at, part in enumerate(_LINE)
    ]
)
_encode = msgspec.json.Encoder().encode


class Names:
    """The servers' names, by position; immutable (a fleet that grows gets another table)."""

    def __init__(self, uuids: NDArray[np.object_]) -> None:
        self.uuids = uuids
        self._table: Bytes | None = None
        self._plain = True

    def table(self) -> Bytes | None:
        """One row of bytes per name; ``None`` when some name is not as plain as a uuid."""
        if self._table is None and self._plain:
            texts: list[str] = self.uuids.tolist()
            self._plain = all(
                len(text) == NAME_LENGTH and text.isascii() and text.replace("-", "").isalnum()
                for text in texts
            )
            if self._plain:
                self._table = np.array([f'"{text}",'.encode() for text in texts], "S39")
        return self._table

    def listed(self, at: NDArray[np.int64]) -> bytes:
        """The JSON list of the names at some positions."""
        table = self.table()
        if table is None:
            return _encode(self.uuids[at].tolist())
        return b"[" + table.take(at).tobytes()[:-1] + b"]"

    def keys(self, at: NDArray[np.int64]) -> Bytes | None:
        """The names at some positions without their quotes."""
        table = self.table()
        if table is None:
            return None
        quoted = np.dtype([("quote", "S1"), ("name", _NAME), ("rest", "S2")])
        return table.take(at).view(quoted)["name"]


def score_lines(
    names: Names,
    at: NDArray[np.int64],
    added: NDArray[np.int64] | None,
    totals: NDArray[np.int64] | None,
) -> bytes | None:
    """The JSON object of a scorer's increases (in cents); ``None`` if it does not fit the table."""
    if added is None or totals is None or not len(at):
        return None
    keys = names.keys(at)
    if keys is None or max(int(added.max()), int(totals.max())) >= len(_CENTS):
        return None
    rows = np.empty(len(at), _ROW)
    values = iter((keys, _CENTS.take(added), _CENTS.take(totals)))
    for name, part in zip(_ROW.names or (), _LINE, strict=True):
        rows[name] = next(values) if isinstance(part, str) else part
    return b"{" + rows.tobytes()[:-1] + b"}"


def steps_as_bytes(steps: Sequence[Step]) -> list[bytes]:
    """The JSON list of the steps, like ``Outcome.steps_json``; in pieces, to be joined once."""
    parts: list[bytes] = []
    last: Step | None = None
    remaining = b""
    for step in steps:
        if last is None or last.alive is not step.alive or last.order is not step.order:
            remaining = step.names.listed(step.left())
        parts += (
            b"[{" if last is None else b",{",
            b'"step":',
            _encode(step.title),
            b',"remaining":',
            remaining,
        )
        reasons = step.reasons_as_bytes()
        if reasons != b"{}":
            parts += (b',"reasons":', reasons)
        parts.append(b"}")
        last = step
    parts.append(b"]" if steps else b"[]")
    return parts
