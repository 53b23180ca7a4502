"""What was typed and is secret (docs/secrets.md): errors and remarks do without it.

A command is given secrets as ``NAME=VALUE``, in JSON, or by mistake beside their name. Who types one
does not want to read it again: it would stay in the window, in the records of a build, in a report.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast
from urllib.parse import quote

_PAIR = re.compile(r"-*(?P<name>[\w.-]+)\s*[=:]\s*(?P<value>.+)", re.DOTALL)
_MASK = "***"
_noted: set[str] = set()


def begin(arguments: Sequence[str]) -> None:
    """A command begins: what is secret of its arguments is hidden from now on."""
    if _noted:
        from vetro.secrecy import hide_in_logs

        _noted.clear()
        hide_in_logs(None)
    if len(arguments) > 1:  # help needs no rule
        _add(found for number, one in enumerate(arguments) for found in _of(arguments, number, one))


def note(value: object) -> None:
    """A document was read: what stands in it under secret names is hidden too."""
    from vetro.secrecy import secrets_in

    _add(iter(secrets_in(value)))


def covered(text: str) -> str:
    """A text for people without the secrets that were typed."""
    if not _noted:
        return text
    from vetro.secrecy import Cover

    return Cover(_noted)(text)


def without(value: object) -> Any:
    """``value`` (JSON) without the secrets that were typed, under whatever name they stand."""
    if isinstance(value, str):
        return _MASK if value in _noted else value
    if isinstance(value, dict):
        return {key: without(one) for key, one in cast("dict[str, object]", value).items()}
    if isinstance(value, (list, tuple)):
        return [without(one) for one in cast("Iterable[object]", value)]
    return value


def _add(secrets: Iterator[str]) -> None:
    from vetro.secrecy import Cover, hide_in_logs

    for one in secrets:
        # As it is, and as messages and addresses quote it.
        _noted.update(
            (one, repr(one)[1:-1], json.dumps(one)[1:-1], quote(one), quote(one, safe=""))
        )
    if _noted:
        hide_in_logs(Cover(_noted))  # of what runs in this process, too


def _of(arguments: Sequence[str], number: int, one: str) -> Iterator[str]:
    from vetro.secrecy import is_secret, secrets_in

    name, value = "", one
    while (pair := _PAIR.fullmatch(value)) is not None:  # --set=db.password=VALUE
        name, value = pair["name"].rpartition(".")[2], pair["value"]
        yield from secrets_in({name: value})
    if value[:1] in ("{", "[", '"'):
        from vetro.json_texts import decode_json

        # Else it is no JSON, and was taken as a text.
        with contextlib.suppress(ValueError):
            yield from secrets_in({name: decode_json(value)})
    before = arguments[max(number - 2, 0) : number]
    if len(before) == 2 and before[0].startswith("-") and is_secret(before[1].rpartition(".")[2]):
        # ``--set password VALUE``: a blank in the place of the sign.
        yield from secrets_in({"password": one})
