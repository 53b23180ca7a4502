"""Task entries: parameters, events and results, kept on disk across restarts of the agent."""

from __future__ import annotations

import hashlib
import itertools
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import structlog

from vetro.node.files import read_json, write_json
from vetro.node.vm_objects import timestamp
from vetro.secrecy import masked

log = structlog.get_logger(__name__)

SHOWN = 16
KEPT = 256
RESTARTED = "failed: agent restarted"


def implied_key(request_id: str, task: str, params: Mapping[str, object]) -> str:
    """The idempotency key of a request that has an id but no key of its own."""
    digest = hashlib.sha256(msgspec.json.encode(params, order="deterministic")).hexdigest()
    return f"{request_id}:{task}:{digest[:24]}"


@dataclass
class Entry:
    """One task. ``outcome`` is ``(HTTP status, body)`` once it ended; ``key`` its idempotency key."""

    number: int
    task: str
    params: Any
    key: str = ""
    persistent: bool = True
    started_at: str = field(default_factory=timestamp)
    finished_at: str | None = None
    status: str = "active"
    error_count: int = 0
    messages: list[dict[str, object]] = field(default_factory=list[dict[str, object]])
    outcome: tuple[int, Any] | None = None
    pid: int = field(default_factory=os.getpid)

    def event(self, name: str, event: Mapping[str, object] | None = None) -> None:
        """Add an event of a task (``start``, ``progress``, ``error``, ``finish`` …)."""
        self.messages.append(
            {"type": "event", "name": name, "event": dict(event or {}), "timestamp": timestamp()}
        )

    def fail(self, status: int, error: str, details: Mapping[str, object], *, died: bool) -> None:
        """End with an error; ``died``: the task was interrupted."""
        self.error_count += 1
        self.event("error", {"error": {"message": error}, "details": dict(details)})
        self._end("failed" if died else "finished")
        body: dict[str, object] = {"error": error}
        if details:
            body["details"] = dict(details)
        self.outcome = (status, body)

    def finish(self, value: object) -> None:
        """End successfully, with an object or (lists of datasets) an array."""
        self.event("finish")
        self._end("finished")
        self.outcome = (200, value)

    def _end(self, status: str) -> None:
        self.status = status
        self.finished_at = timestamp()

    def shown(self) -> dict[str, object]:
        """The entry as ``GET /history`` gives it."""
        entry: dict[str, object] = {
            "started_at": self.started_at,
            "task": self.task,
            "pid": self.pid,
            "params": self.params,
            "status": self.status,
            "errorCount": self.error_count,
            "messages": self.messages,
            "log": [],
        }
        if self.finished_at is not None:
            entry["finished_at"] = self.finished_at
        return entry


class History:
    """The entries of one agent, oldest first; active ones are never dropped."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._entries: list[Entry] = []
        self._numbers = itertools.count(1)

    def open(self) -> None:
        """Read the entries of an earlier agent; its active tasks have failed."""
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        entries: list[Entry] = []
        for path in sorted(self._directory.glob("*.json")):
            raw = read_json(path)
            if raw is None:
                path.unlink(missing_ok=True)
                continue
            entries.append(msgspec.convert(raw, Entry))
        self._entries = sorted(entries, key=lambda entry: entry.number)
        self._numbers = itertools.count(max([0, *(e.number for e in entries)]) + 1)
        for entry in self._entries:
            if entry.status == "active":
                entry.fail(500, RESTARTED, {"restCode": "AgentRestarted"}, died=True)
                self.save(entry)
        self._trim()

    def add(self, task: str, params: Mapping[str, object], key: str, *, persistent: bool) -> Entry:
        """A new active entry."""
        entry = Entry(next(self._numbers), task, masked(dict(params)), key, persistent)
        entry.event("task_validated")
        self._entries.append(entry)
        self.save(entry)
        return entry

    def save(self, entry: Entry) -> None:
        """Save the entry's current state. A full disk must not refuse the task that frees space."""
        if entry.persistent:
            try:
                write_json(self._path(entry), entry)
            except OSError as error:
                log.error("task_not_in_history", task=entry.task, error=str(error))
        if entry.status != "active":
            self._trim()

    def find(self, key: str) -> Entry | None:
        """The newest entry with an idempotency key that has not failed."""
        if not key:
            return None
        for entry in reversed(self._entries):
            if entry.key == key and entry.status != "failed":
                return entry
        return None

    def active(self) -> int:
        """The number of tasks that have not ended."""
        return sum(entry.status == "active" for entry in self._entries)

    def shown(self) -> list[dict[str, object]]:
        """Every active entry and the last ended ones: at least 16 in all, if there are so many."""
        spare = max(0, SHOWN - self.active())
        ended = [entry for entry in self._entries if entry.status != "active"]
        recent = {entry.number for entry in ended[-spare:]} if spare else set[int]()
        return [e.shown() for e in self._entries if e.status == "active" or e.number in recent]

    def _trim(self) -> None:
        ended = [entry for entry in self._entries if entry.status != "active"]
        for entry in ended[: max(0, len(ended) - KEPT)]:
            self._entries.remove(entry)
            if entry.persistent:
                self._path(entry).unlink(missing_ok=True)

    def _path(self, entry: Entry) -> Path:
        return self._directory / f"{entry.number:012d}.json"
