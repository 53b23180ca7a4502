"""Record the effects of a run, and replay it from the record.

The record is plain JSON: the answers that each green thread received, in the order of its requests,
and the order in which effects completed. With the same program and model a replay takes the same
path and performs no effects; where the record ends, `ReplayingEffects` continues with the port
behind it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

from vetro.muranopl.threads.effects import EffectsPort, Json
from vetro.muranopl.threads.scheduler import current_thread, in_green_thread, wait_turn
from vetro.muranopl.values.errors import MuranoError

Record = dict[str, Any]
"""`{"threads": {key: [entry…]}, "completions": n}`; an entry is `[kind, request, result, turn]`."""


class ReplayMismatch(MuranoError):
    """The program requested a different effect than in the recorded run."""


def _thread() -> str:
    return ".".join(map(str, current_thread())) if in_green_thread() else "host"


class RecordingEffects:
    """A port that records the answers of the port behind it."""

    def __init__(self, port: EffectsPort) -> None:
        self._port = port
        self._threads: dict[str, list[list[Json]]] = {}
        self._completions = 0

    @property
    def record(self) -> Record:
        """What was recorded so far."""
        return {"threads": self._threads, "completions": self._completions}

    def _begin(self, kind: str, request: Json) -> list[Json]:
        entry: list[Json] = [kind, request, None, None]
        self._threads.setdefault(_thread(), []).append(entry)
        return entry

    def _complete(self, entry: list[Json], result: Json) -> None:
        entry[2], entry[3] = result, self._completions
        self._completions += 1

    def perform(self, kind: str, request: Json, execute: Callable[[], Awaitable[Json]]) -> Json:
        """Do an effect and record it; a failure is recorded with its names and message."""
        entry = self._begin(kind, request)
        try:
            result = self._port.perform(kind, request, execute)
        except Exception as error:
            from vetro.muranopl.runtime.throwing import message_of, names_of

            failure = {"names": list(names_of(error)), "message": message_of(error)}
            self._complete(entry, {"failure": failure})
            raise
        self._complete(entry, {"value": result})
        return result

    def sleep(self, seconds: float) -> None:
        """Sleep; the end counts as a completion like any other."""
        entry = self._begin("sleep", seconds)
        self._port.sleep(seconds)
        self._complete(entry, {"value": None})

    def _read(self, kind: str, value: Json) -> Json:
        self._threads.setdefault(_thread(), []).append([kind, None, {"value": value}, None])
        return value

    def now(self) -> datetime:
        """The time, recorded."""
        moment = self._port.now()
        self._read("now", moment.isoformat())
        return moment

    def random(self) -> float:
        """A random number, recorded."""
        return float(self._read("random", self._port.random()))

    def new_id(self) -> str:
        """An id, recorded."""
        return str(self._read("id", self._port.new_id()))


class ReplayingEffects:
    """A port that answers from a record, then from the port behind it.

    Raises ReplayMismatch when the program requests a different effect than in the record.
    """

    def __init__(self, record: Record, port: EffectsPort) -> None:
        self._left = {key: list(entries) for key, entries in record["threads"].items()}
        self._port = port

    def _next(self, kind: str, request: Json) -> list[Json] | None:
        entries = self._left.get(_thread())
        if not entries:
            return None
        entry = entries.pop(0)
        if entry[0] != kind or entry[1] != request:
            raise ReplayMismatch(
                f"thread {_thread()} asks for {kind} {request!r}; "
                f"in the recorded run it asked for {entry[0]} {entry[1]!r}"
            )
        return entry

    def perform(self, kind: str, request: Json, execute: Callable[[], Awaitable[Json]]) -> Json:
        """The recorded answer, in the recorded order of completion."""
        entry = self._next(kind, request)
        if entry is None or entry[3] is None:
            return self._port.perform(kind, request, execute)
        wait_turn(entry[3])
        outcome = entry[2]
        if "failure" in outcome:
            failure = outcome["failure"]
            raise MuranoError(failure["message"], names=failure["names"])
        return outcome["value"]

    def sleep(self, seconds: float) -> None:
        """No time passes; the order of completions is kept."""
        entry = self._next("sleep", seconds)
        if entry is None or entry[3] is None:
            self._port.sleep(seconds)
        else:
            wait_turn(entry[3])

    def now(self) -> datetime:
        """The recorded time."""
        entry = self._next("now", None)
        return self._port.now() if entry is None else datetime.fromisoformat(entry[2]["value"])

    def random(self) -> float:
        """The recorded number."""
        entry = self._next("random", None)
        return self._port.random() if entry is None else float(entry[2]["value"])

    def new_id(self) -> str:
        """The recorded id."""
        entry = self._next("id", None)
        return self._port.new_id() if entry is None else str(entry[2]["value"])
