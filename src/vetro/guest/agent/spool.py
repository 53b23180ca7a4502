"""The local queue of plans and results (guest-agent.md §7.2).

::

    <storage>/plans/<timestamp>/plan.json     a received plan
    <storage>/plans/<timestamp>/running       its execution has begun
    <storage>/plans/<timestamp>/result.json   its result, not yet taken by the engine
    <storage>/plans/stamp                     the highest stamp that was run
    <storage>/plans/unacknowledged            the plan whose acknowledgement is not confirmed
    <storage>/files/<plan id>/                files of the plan being run

Every step is a rename of something written and synced before, so that after a kill or a
power cut the directory shows either the old state or the new one. A new plan is written to
`.incoming-<timestamp>`, named in `unacknowledged`, then renamed: when the mailbox hands the
same plan out again because the acknowledgement was lost, the marker tells that we have it.
"""

import base64
import json
import os
import time

from . import log

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Message:
    """A plan as it came from the transport."""

    def __init__(
        self,
        body: bytes,
        signature: "bytes | None" = None,
        message_id: "str | None" = None,
        reply_to: "str | None" = None,
        redelivered: bool = True,
    ) -> None:
        self.body = body
        self.signature = signature
        self.message_id = message_id
        self.reply_to = reply_to
        self.redelivered = redelivered
        """False only where the transport knows that it hands this message out for the first time."""


class Spool:
    """The plans and results on this machine's disk. One agent process owns it."""

    def __init__(self, storage: str) -> None:
        self.plans = os.path.join(storage, "plans")
        self.files = os.path.join(storage, "files")
        for directory in (self.plans, self.files):
            os.makedirs(directory, mode=0o700, exist_ok=True)
            os.chmod(directory, 0o700)
        self._recover()

    def put(self, message: Message) -> "str | None":
        """Keep a received plan; returns its folder name, or None if it was kept before."""
        known = message.message_id and self._unacknowledged() == message.message_id
        if known and message.redelivered:
            return None
        stamp = int(time.time() * 10000)
        while os.path.exists(os.path.join(self.plans, str(stamp))):
            stamp += 1
        name = str(stamp)
        incoming = os.path.join(self.plans, ".incoming-" + name)
        os.mkdir(incoming, 0o700)
        plan = {
            "Data": base64.b64encode(message.body).decode("ascii"),
            "Signature": base64.b64encode(message.signature or b"").decode("ascii"),
            "ID": message.message_id,
            "ReplyTo": message.reply_to,
        }
        write_file(os.path.join(incoming, "plan.json"), json.dumps(plan).encode("utf-8"))
        marker = {"ID": message.message_id, "Folder": name}
        write_file(self._path("unacknowledged"), json.dumps(marker).encode("utf-8"))
        os.rename(incoming, os.path.join(self.plans, name))
        _sync_directory(self.plans)
        return name

    def acknowledged(self) -> None:
        """The acknowledgement of the last plan has been confirmed."""
        _remove_file(self._path("unacknowledged"))

    def oldest_result(self) -> "str | None":
        """The folder of the oldest result to send."""
        for name in self._folders():
            if os.path.exists(os.path.join(self.plans, name, "result.json")):
                return name
        return None

    def oldest_plan(self) -> "str | None":
        """The folder of the oldest plan without a result."""
        for name in self._folders():
            folder = os.path.join(self.plans, name)
            if not os.path.exists(os.path.join(folder, "result.json")):
                return name
        return None

    def waiting(self) -> "list[str]":
        """The folders of all plans without a result, oldest first."""
        return [
            name
            for name in self._folders()
            if not os.path.exists(os.path.join(self.plans, name, "result.json"))
        ]

    def read_plan(self, name: str) -> Message:
        """The plan of a folder, byte for byte as received. Raises ValueError or OSError."""
        with open(os.path.join(self.plans, name, "plan.json"), "rb") as stream:
            plan = json.loads(stream.read().decode("utf-8"))
        return Message(
            base64.b64decode(plan["Data"]),
            base64.b64decode(plan.get("Signature") or "") or None,
            plan.get("ID"),
            plan.get("ReplyTo"),
        )

    def mark_running(self, name: str) -> None:
        """The execution of this plan begins."""
        write_file(os.path.join(self.plans, name, "running"), b"")

    def was_running(self, name: str) -> bool:
        """True if an execution of this plan had begun before."""
        return os.path.exists(os.path.join(self.plans, name, "running"))

    def write_result(self, name: str, result: "dict[str, Any]") -> None:
        """Keep the result of a plan until it has been sent."""
        data = json.dumps(result, allow_nan=False).encode("utf-8")
        write_file(os.path.join(self.plans, name, "result.json"), data)

    def has_result(self, name: str) -> bool:
        """True once the plan has a result."""
        return os.path.exists(os.path.join(self.plans, name, "result.json"))

    def read_result(self, name: str) -> "dict[str, Any]":
        """The result of a folder."""
        with open(os.path.join(self.plans, name, "result.json"), "rb") as stream:
            return json.loads(stream.read().decode("utf-8"))

    def remove(self, name: str) -> None:
        """Forget a plan and its result."""
        _remove_tree(os.path.join(self.plans, name))
        _sync_directory(self.plans)

    def stamp(self) -> int:
        """The highest stamp that was run; 0 if none."""
        try:
            with open(self._path("stamp"), encoding="ascii") as stream:
                return int(stream.read().strip() or 0)
        except FileNotFoundError:
            return 0

    def store_stamp(self, stamp: int) -> None:
        """Remember that plans up to this stamp were run."""
        write_file(self._path("stamp"), str(stamp).encode("ascii"))

    def _path(self, name: str) -> str:
        return os.path.join(self.plans, name)

    def _folders(self) -> "list[str]":
        names = [name for name in os.listdir(self.plans) if name.isdigit()]
        return sorted(names, key=int)

    def _unacknowledged(self) -> "str | None":
        marker = self._marker()
        return marker.get("ID") if marker else None

    def _marker(self) -> "dict[str, Any] | None":
        try:
            with open(self._path("unacknowledged"), "rb") as stream:
                return json.loads(stream.read().decode("utf-8"))
        except FileNotFoundError:
            return None

    def _recover(self) -> None:
        """Drop plans that were being written when the agent was killed; they come again."""
        marker = self._marker()
        for name in os.listdir(self.plans):
            if name.startswith(".incoming-"):
                if marker and name == ".incoming-%s" % marker.get("Folder"):
                    _remove_file(self._path("unacknowledged"))
                log.warning("Removing the half-written plan %s" % name)
                _remove_tree(os.path.join(self.plans, name))
            elif name.endswith(".new"):
                _remove_file(self._path(name))


def write_file(path: str, data: bytes, mode: int = 0o600) -> None:
    """Replace a file in one step: after a crash it holds either the old or the new content."""
    temporary = path + ".new"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
    os.rename(temporary, path)
    _sync_directory(os.path.dirname(path))


def _remove_file(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass  # the goal is reached


def _remove_tree(path: str) -> None:
    import shutil  # reads four compression modules; most starts have nothing to remove

    shutil.rmtree(path)


def _sync_directory(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
