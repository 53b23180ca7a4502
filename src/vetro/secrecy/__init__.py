"""What is secret: one rule for models, parameters, reports, logs and what commands show (docs/secrets.md).

A value is secret by the name it stands under. The name is read as words (``adminPassword``,
``admin_password`` and ``admin-password`` are two words each), so ``passive`` and ``tokenizer`` are none.
Inside texts (a report that quotes a password) a value is known by having stood under such a name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from heapq import heapify, heappop, heappush
from typing import Any, cast

MASK = "***"
SHORTEST = 4
"""Characters of the shortest value that is hidden inside texts: shorter ones are parts of words."""

_WORDS = {
    "password", "passwords", "passwd", "passphrase", "passphrases", "pass", "pw", "pwd", "secret",
    "secrets", "token", "tokens", "pivtoken", "credential", "credentials",
}  # fmt: skip
_KINDS_OF_KEYS = {
    "access", "account", "api", "encryption", "engine", "master", "node", "private", "root", "secret",
    "service", "shared", "signing",
}  # fmt: skip
_WHOLE = frozenset({"user data"})
_ENDS = ("password", "passwd", "passphrase", "secret")
_COMPOUNDS = frozenset({"apikey", "privatekey", "secretkey", "accesskey", "rootpw", "userdata"})
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")


def is_secret(name: str) -> bool:
    """Whether what stands under ``name`` is secret."""
    # Names come from models and requests too: long ones must not fill the memory.
    return _is_secret(name) if len(name) <= 100 else _is_secret.__wrapped__(name)


@lru_cache(4096)
def _is_secret(name: str) -> bool:
    words = [word.lower() for word in _WORD.findall(name)]
    if " ".join(words) in _WHOLE:
        return True
    for at, word in enumerate(words):
        if word in _WORDS or word in _COMPOUNDS or (word.endswith(_ENDS) and len(words) == 1):
            return True
        if word in ("key", "keys") and at and words[at - 1] in _KINDS_OF_KEYS:
            return True
    return False


class Public(dict[str, Any]):
    """An object whose names its maker chose, none of them secret: it is logged without being looked at."""


def masked(value: object, name: str = "") -> Any:
    """``value`` (JSON) with ``***`` for what is secret in it; nothing, true and false stay as they are."""
    if name and is_secret(name) and value not in (None, "", {}, []) and not isinstance(value, bool):
        return MASK
    if isinstance(value, Public):
        return value
    if isinstance(value, dict):
        return {
            key: masked(item, str(key)) for key, item in cast("dict[str, object]", value).items()
        }
    if isinstance(value, (list, tuple)):
        return [masked(item) for item in cast("Iterable[object]", value)]
    return value


def secrets_in(value: object) -> set[str]:
    """The texts in ``value`` (JSON) that stand under secret names, long enough to be known again."""
    return {text for text in _secret_texts(value, hidden=False) if len(text) >= SHORTEST}


def _secret_texts(value: object, *, hidden: bool) -> Iterator[str]:
    if isinstance(value, str):
        if hidden:
            yield value
    elif isinstance(value, dict):
        for key, item in cast("dict[str, object]", value).items():
            # An object below a secret name is an object of its own: its id and type are known to all.
            below = hidden or is_secret(str(key))
            yield from _secret_texts(item, hidden=below and key not in ("?", "id", "type"))
    elif isinstance(value, list):
        for item in cast("list[object]", value):
            yield from _secret_texts(item, hidden=hidden)


_USER_OF_ADDRESS = re.compile(r"(://[^\s/?#:@'\"]*:)[^\s/?#'\"]*@")
_PART_OF_QUERY = re.compile(r"([?&;#])([\w.-]+)=([^\s&;#'\"]+)")


def without_credentials(text: str) -> str:
    """A text without what addresses in it carry: ``//user:***@host``, ``?token=***``."""
    if "://" in text:
        text = _USER_OF_ADDRESS.sub(rf"\1{MASK}@", text)
    if "=" in text:
        text = _PART_OF_QUERY.sub(
            lambda part: f"{part[1]}{part[2]}={MASK}" if is_secret(part[2]) else part[0], text
        )
    return text


class Cover:
    """Takes known secrets out of texts."""

    def __init__(self, secrets: Iterable[str]) -> None:
        self._secrets = set(secrets) - {""}

    def __call__(self, text: str) -> str:
        """``text`` with ``***`` for every secret."""
        # Found one by one: a pattern of all would look at the text again for each of its characters.
        # At one place the longest comes first: another may be its beginning.
        ahead = [(at, -len(one), one) for one in self._secrets if (at := text.find(one)) >= 0]
        heapify(ahead)
        parts: list[str] = []
        done = 0
        while ahead:
            at, _, one = heappop(ahead)
            if at >= done:
                parts += text[done:at], MASK
                done = at + len(one)
            if (at := text.find(one, done)) >= 0:
                heappush(ahead, (at, -len(one), one))
        return "".join((*parts, text[done:]))


_in_logs: Cover | None = None


def hide_in_logs(cover: Cover | None) -> None:
    """Let the logs of this process (a worker has one task) hide what ``cover`` knows; ``None``: nothing."""
    global _in_logs
    _in_logs = cover


def cover_of_logs() -> Cover | None:
    """What takes the running task's secrets out of the texts of the log; ``None``: there are none."""
    return _in_logs
