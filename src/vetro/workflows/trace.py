"""What happened in a task and why, for `explain` and for the trace of a deployment; and the masking of
secrets in what people and logs see (§13.4)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from vetro.workflows.paths import Cursor
from vetro.workflows.scopes import RuleMark
from vetro.workflows.values import Json

MASK = "*** SANITIZED ***"
SHORTEST = 4
"""Shorter texts under a secret key are not searched for: they occur everywhere."""


def is_secret(key: object) -> bool:
    """Whether values under a key are secret."""
    lowered = str(key).lower()
    return "token" in lowered or "pass" in lowered


def sanitised(value: Json, secret: bool = False) -> Json:
    """A copy with the texts under secret keys masked."""
    if isinstance(value, dict):
        return {
            key: sanitised(item, is_secret(key))
            for key, item in cast("dict[str, Json]", value).items()
        }
    if isinstance(value, list):
        return [sanitised(item, secret) for item in cast("list[Json]", value)]
    return MASK if secret and isinstance(value, str) and value else value


def secret_texts(value: Json, secret: bool = False) -> Iterator[str]:
    """The texts under secret keys."""
    if isinstance(value, dict):
        for key, item in cast("dict[str, Json]", value).items():
            yield from secret_texts(item, is_secret(key))
    elif isinstance(value, list):
        for item in cast("list[Json]", value):
            yield from secret_texts(item, secret)
    elif secret and isinstance(value, str) and len(value) >= SHORTEST:
        yield value


def scrubbed(text: str, secrets: set[str]) -> str:
    """A text without the secrets, longest first."""
    for secret in sorted(secrets, key=len, reverse=True):
        if secret in text:
            text = text.replace(secret, MASK)
    return text


LONGEST, BEGINNING = 300, 100
"""Characters of a text that is shown whole, and what is shown of longer ones."""


@dataclass(frozen=True, slots=True)
class Event:
    """``kind``: ``rule``, ``set``, ``command``, ``warning``. ``at``: file:line."""

    round: int
    kind: str
    at: str
    subject: str
    details: dict[str, Json]


class Trace:
    """Events in order, at most ``most``; what came after is only counted."""

    def __init__(self, most: int = 100_000) -> None:
        self.events: list[Event] = []
        self.left_out = 0
        self._most = most

    def take(self) -> list[dict[str, Json]]:
        """The events since the last call, as JSON; how many were left out stands in a last one."""
        taken, self.events = self.events, []
        self._most -= len(taken)
        shown = [
            {"kind": one.kind, "at": one.at, "subject": one.subject, "details": one.details}
            for one in taken
        ]
        if self.left_out:
            text = f"{self.left_out} more events are not kept"
            shown.append({"kind": "warning", "at": "", "subject": text, "details": {}})
            self.left_out = 0
        return shown

    def _add(self, event: Event) -> None:
        if len(self.events) < self._most:
            self.events.append(event)
        else:
            self.left_out += 1

    def fired(
        self, round_number: int, mark: RuleMark, cursor: Cursor, object_id: str | None
    ) -> None:
        """A rule's body begins for an object."""
        details = {"match": mark.description, "object": object_id, "cursor": _path(cursor)}
        self._add(Event(round_number, "rule", str(mark.place), mark.id, details))

    def changed(self, round_number: int, mark: RuleMark | None, path: str, value: Json) -> None:
        """The model changed."""
        name = path.rpartition(".")[2]
        shown = sanitised({name: value})[name]
        self._add(
            Event(
                round_number,
                "set",
                "" if mark is None else str(mark.place),
                path,
                {"rule": mark and mark.id, "value": shown},
            )
        )

    def queued(self, round_number: int, at: str, kind: str, details: dict[str, Json]) -> None:
        """A command was queued, with what will be sent; user data and scripts are only begun."""
        self._add(Event(round_number, "command", at, kind, _begun(sanitised(details))))

    def warned(self, round_number: int, at: str, message: str) -> None:
        """Something looks wrong but does not stop the task."""
        self._add(Event(round_number, "warning", at, message, {}))


def _begun(value: Json) -> Json:
    """A copy in which long texts end early."""
    if isinstance(value, dict):
        return {key: _begun(item) for key, item in cast("dict[str, Json]", value).items()}
    if isinstance(value, list):
        return [_begun(item) for item in cast("list[Json]", value)]
    if isinstance(value, str) and len(value) > LONGEST:
        return f"{value[:BEGINNING]}… ({len(value)} characters)"
    return value


def _path(cursor: Cursor) -> str:
    return ".".join(map(str, cursor)) or "/"
