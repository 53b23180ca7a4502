"""What was typed and is secret (docs/secrets.md): errors and remarks do without it.

A command is given secrets as ``NAME=VALUE``, in JSON, in addresses, in variables, or by mistake beside their
name. Who types one does not want to read it again: it would stay in the window, in the records of a build, in
a report. So what is printed is looked through once, here, and not where it is made.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast
from urllib.parse import quote, unquote

# Arguments may be long (programs, keys): each pattern reads a run of characters once, from its start.
_SIGN = re.compile(r"(?<![\w.-])(?P<name>[\w.-]*\w)[\"'\\\]]*\s*[=:]+\s*(?=\S)")
_QUOTED = re.compile(r"\\?([\"'])(?P<value>.*?)\\?(?:\1|\Z)", re.DOTALL)
_TOKEN = re.compile(r"(?P<value>[^\s,;&}\])\"']+)")
#: A secret name, and something beside it that is no part of a path: ``password VALUE``.
_BESIDE = re.compile(r"\W*+(?P<name>[\w.-]*\w)[.-]*[^\w/.-]+(?P<value>.+)", re.DOTALL)
_TO_AT = re.compile(r"(?<!\S)\S+@")
_USER_OF_ADDRESS = re.compile(r"://[^\s/:@]*:(?P<value>\S+)@")
_NAME = re.compile(r"-*+([\w.-]*\w)[\s=:]*")
_OF_SERVICES = ("VETRO_", "OS_", "AWS_", "MURANO_")
_SHORTEST_VARIABLE = 8
"""Characters of a variable that is hidden: every text would lose the word ``admin`` by a password like it."""
_ENOUGH = 1_000_000
"""Characters that are taken of one argument as values that reach to its end: those of many names in a long
argument are hidden with the first ones."""
_MASK = "***"
_noted: set[str] = set()
_guessed: set[str] = set()


def begin(arguments: Sequence[str]) -> None:
    """A command begins: what is secret of its arguments is hidden from now on."""
    _guessed.clear()
    if _noted:
        from vetro.secrecy import hide_in_logs

        _noted.clear()
        hide_in_logs(None)
    if len(arguments) > 1:  # help needs no rule
        _add(found for number, one in enumerate(arguments) for found in _of(arguments, number, one))
        _guessed.update(
            form
            for number, one in enumerate(arguments)
            for found in _guesses(arguments, number, one)
            for form in _forms(found)
        )


def note(value: object) -> None:
    """A document was read: what stands in it under secret names is hidden too."""
    from vetro.secrecy import secrets_in

    _add(iter(secrets_in(value)))


def covered(text: str, *, guesses: bool = False) -> str:
    """A text for people without the secrets that were typed, or that addresses and variables have.

    ``guesses``: also without what only may be one, as in a message about wrong usage.
    """
    from vetro.secrecy import Cover, secrets_in, without_credentials

    variables = {name: value for name, value in os.environ.items() if name.startswith(_OF_SERVICES)}
    known = [one for one in secrets_in(variables) if len(one) >= _SHORTEST_VARIABLE]
    hidden = {form for one in known for form in _forms(one)} | _noted
    return without_credentials(Cover(hidden | _guessed if guesses else hidden)(text))


def without(value: object) -> Any:
    """``value`` (JSON) without the secrets that were typed, under whatever name they stand."""
    if isinstance(value, str):
        return _MASK if value in _noted else value
    if isinstance(value, dict):
        return {key: without(one) for key, one in cast("dict[str, object]", value).items()}
    if isinstance(value, (list, tuple)):
        return [without(one) for one in cast("Iterable[object]", value)]
    return value


def _forms(one: str) -> tuple[str, ...]:
    """A secret as it is, and as messages and addresses quote it."""
    return one, repr(one)[1:-1], json.dumps(one)[1:-1], quote(one), quote(one, safe="")


def _add(secrets: Iterator[str]) -> None:
    from vetro.secrecy import Cover, hide_in_logs

    for one in secrets:
        _noted.update(_forms(one))
    if _noted:
        hide_in_logs(Cover(_noted))  # of what runs in this process, too


def _of(arguments: Sequence[str], number: int, one: str) -> Iterator[str]:
    """The secrets of an argument."""
    from vetro.secrecy import is_secret, secrets_in

    left = left_json = _ENOUGH
    for sign in _SIGN.finditer(one):  # --set=db.password=VALUE, {"password": "VALUE"
        name, at = sign["name"].rpartition(".")[2], sign.end()
        if is_secret(name) and (value := _QUOTED.match(one, at)) is not None:
            yield from secrets_in({name: value["value"]})
        if is_secret(name) and (left := left - len(one) + at) > 0:
            yield from secrets_in({name: one[at:]})
            if one[at] == '"':
                yield from _in_json(name, one[at:])
        if one[at] in "{[" and (left_json := left_json - len(one) + at) > 0:
            yield from _in_json(name, one[at:])
    if one[:1] in ("{", "[", '"'):
        yield from _in_json("", one)
    for run in _TO_AT.finditer(one):
        if (address := _USER_OF_ADDRESS.search(run[0])) is None:
            continue
        yield from secrets_in({"password": address["value"]})
        yield from secrets_in({"password": unquote(address["value"])})
    if number > 1 and arguments[number - 2].startswith("-") and _is_beside(arguments, number):
        # ``--set password VALUE``: a blank in the place of the sign.
        yield from secrets_in({"password": one})


def _in_json(name: str, text: str) -> Iterator[str]:
    from vetro.json_texts import decode_json
    from vetro.secrecy import secrets_in

    # Else it is no JSON, and was taken as a text.
    with contextlib.suppress(ValueError):
        yield from secrets_in({name: decode_json(text)})


def _guesses(arguments: Sequence[str], number: int, one: str) -> Iterator[str]:
    """What may be a secret in an argument: too much is hidden in a message rather than too little."""
    from vetro.secrecy import is_secret, secrets_in

    left = _ENOUGH
    for sign in _SIGN.finditer(one):
        name = sign["name"].rpartition(".")[2]
        if left > 0 and is_secret(name) and (value := _TOKEN.match(one, sign.end())) is not None:
            left -= len(value["value"])
            yield from secrets_in({name: value["value"]})
    beside = _BESIDE.fullmatch(one)
    if beside is not None and is_secret(beside["name"].rpartition(".")[2]):
        yield from secrets_in({"password": beside["value"]})
    if number > 1 and _is_beside(arguments, number):
        yield from secrets_in({"password": one})


def _is_beside(arguments: Sequence[str], number: int) -> bool:
    """Whether an argument stands after one that is a secret name, signs between them apart."""
    from vetro.secrecy import is_secret

    places = range(number - 1, 0, -1)
    before = next((arguments[at] for at in places if arguments[at].strip(" =:")), "")
    if before == "--show-secrets" or arguments[number].startswith("--"):
        return False
    name = _NAME.fullmatch(before)
    return name is not None and is_secret(name[1].rpartition(".")[2])
