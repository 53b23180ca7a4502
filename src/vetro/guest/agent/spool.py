"""The local queue of plans and results (guest-agent.md §7.2).

::

    <storage>/lock                            held by the agent that owns this directory
    <storage>/plans/<timestamp>/plan.json     a received plan
    <storage>/plans/<timestamp>/running       its execution has begun
    <storage>/plans/<timestamp>/cancelled     its sender does not wait: it is not begun
    <storage>/plans/<timestamp>/result.json   its result, not yet taken by the engine
    <storage>/plans/<timestamp>/answered      the sent result of a cancelled plan
    <storage>/plans/stamp                     the highest stamp that was run
    <storage>/plans/unacknowledged            the plan whose acknowledgement is not confirmed
    <storage>/files/<plan id>/                files of the plan being run

Every step is a rename of a file that was written and synced before, so that after a kill or a
power cut the directory shows either the old state or the new one. A new plan is written to
`.incoming-<timestamp>`, named in `unacknowledged`, then renamed: when the mailbox hands the same
plan out again because the acknowledgement was lost, the marker shows that it is stored already.

A plan is begun in this order: `running`, then its stamp, then its process. So after a crash in
between, the plan is still there to be reported, and is never taken for a replay of itself.
"""

import base64
import fcntl
import json
import os
import re
import time

from . import log
from .documents import is_map, read_json
from .errors import StorageInUse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import IO, Any

_FOLDER = re.compile(r"[0-9]{1,30}\Z")


class Message:
    """A plan as it came from the transport."""

    def __init__(
        self,
        body: bytes,
        signature: "bytes | None" = None,
        message_id: "str | None" = None,
        reply_to: "str | None" = None,
        redelivered: bool = True,
        result_limit: "int | None" = None,
    ) -> None:
        self.body = body
        self.signature = signature
        self.message_id = message_id
        self.reply_to = reply_to
        self.redelivered = redelivered
        """False only where the transport knows that it hands this message out for the first time."""
        self.result_limit = result_limit
        """The limit of the plan's result in bytes, if the other side gave one."""
        self.received: "dict[str, Any] | None" = None
        """When it arrived: see `_moment`; None until it is stored."""


def hold(path: str, subject: str) -> "IO[bytes]":
    """Hold a lock file for as long as this process lives. Raises `StorageInUse`.

    A record lock, which a forked child does not inherit: a plan's process outlives its agent, and
    must not block the next agent.
    """
    stream = open(path, "a+b")  # noqa: SIM115 held, not used
    try:
        fcntl.lockf(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        stream.seek(0)
        owner = stream.read(20).decode("ascii", "replace").strip() or "unknown"
        stream.close()
        raise StorageInUse(
            "%s is in use by another agent (process %s): stop that one, or give this one a storage "
            "of its own" % (subject, owner)
        ) from error
    try:
        os.ftruncate(stream.fileno(), 0)
        os.write(stream.fileno(), b"%d\n" % os.getpid())
    except OSError as error:
        log.warning("%s cannot be written: %s" % (path, error))  # the lock is held all the same
    return stream


class Spool:
    """The stored plans and results of this machine. One agent process owns them.

    Raises `StorageInUse` if another agent does.
    """

    def __init__(self, storage: str) -> None:
        self.plans = os.path.join(storage, "plans")
        self.files = os.path.join(storage, "files")
        for directory in (self.plans, self.files):
            os.makedirs(directory, mode=0o700, exist_ok=True)
            os.chmod(directory, 0o700)
        self._lock = hold(os.path.join(storage, "lock"), "The storage %s" % storage)
        self._recover()

    def put(self, message: Message) -> "str | None":
        """Store a received plan; returns its folder name, or None if it was stored before."""
        marker = self._marker() or {}
        known = message.message_id and marker.get("ID") == message.message_id
        if known and message.redelivered:
            return None
        # Behind the other plans even if the clock was set back meanwhile.
        newest = max([0, *(int(name) for name in self._folders())])
        name = str(max(newest + 1, int(time.time() * 10000)))
        incoming = os.path.join(self.plans, ".incoming-" + name)
        os.mkdir(incoming, 0o700)
        try:
            plan = {
                "Data": base64.b64encode(message.body).decode("ascii"),
                "Signature": base64.b64encode(message.signature or b"").decode("ascii"),
                "ID": message.message_id,
                "ReplyTo": message.reply_to,
                "ResultLimit": message.result_limit,
                "Received": _moment(),
            }
            write_file(os.path.join(incoming, "plan.json"), json.dumps(plan).encode("utf-8"))
            marker = {"ID": message.message_id, "Folder": name}
            write_file(self._path("unacknowledged"), json.dumps(marker).encode("utf-8"))
            os.rename(incoming, os.path.join(self.plans, name))
        except OSError:
            # Usually the disk is full. The plan is not acknowledged, so it comes again, and must
            # not be taken for a stored one.
            _remove_file(self._path("unacknowledged"))
            _remove_tree(incoming)
            raise
        sync_directory(self.plans)
        return name

    def acknowledged(self) -> None:
        """Record that the acknowledgement of the last plan was confirmed."""
        _remove_file(self._path("unacknowledged"))

    def oldest_result(self) -> "str | None":
        """The folder of the oldest result to send."""
        return next((name for name in self._folders() if self.has_result(name)), None)

    def oldest_plan(self) -> "str | None":
        """The folder of the oldest plan without a result."""
        return next((name for name in self._folders() if not self.has_result(name)), None)

    def waiting(self) -> "list[str]":
        """The folders of all plans without a result, oldest first."""
        return [name for name in self._folders() if not self.has_result(name)]

    def read_plan(self, name: str) -> Message:
        """The plan of a folder, byte for byte as received. Raises ValueError or OSError."""
        with open(os.path.join(self.plans, name, "plan.json"), "rb") as stream:
            plan = read_json(stream.read())
        try:
            message = Message(
                base64.b64decode(plan["Data"]),
                base64.b64decode(plan.get("Signature") or "") or None,
                plan.get("ID"),
                plan.get("ReplyTo"),
                True,
                plan.get("ResultLimit"),
            )
            received = plan.get("Received")
            message.received = received if is_map(received) else None
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError("it is not a stored plan: %s" % error) from error
        return message

    def was_running(self, name: str) -> bool:
        """True if an execution of this plan had begun before."""
        return os.path.exists(os.path.join(self.plans, name, "running"))

    def cancel(self, name: str) -> None:
        """Mark a plan that is not begun as cancelled, so that it never is."""
        write_file(os.path.join(self.plans, name, "cancelled"), b"")

    def was_cancelled(self, name: str) -> bool:
        """True if the plan must not be begun."""
        return os.path.exists(os.path.join(self.plans, name, "cancelled"))

    def was_answered(self, name: str) -> bool:
        """True if the result of a cancelled plan was sent."""
        return os.path.exists(os.path.join(self.plans, name, "answered"))

    def write_result(self, name: str, result: bytes) -> None:
        """Store the result of a plan until it is sent."""
        write_file(os.path.join(self.plans, name, "result.json"), result)

    def has_result(self, name: str) -> bool:
        """True once the plan has a result."""
        return os.path.exists(os.path.join(self.plans, name, "result.json"))

    def read_result(self, name: str) -> "dict[str, Any]":
        """The result of a folder. Raises ValueError for an invalid one."""
        with open(os.path.join(self.plans, name, "result.json"), "rb") as stream:
            result = read_json(stream.read())
        if not is_map(result) or not isinstance(result.get("SourceID"), str):
            raise ValueError("it does not say whose result it is")
        return result

    def sent(self, name: str) -> None:
        """Forget a plan whose result was sent.

        A cancelled plan stays until its turn: its stamp may be stored only after those of the plans
        before it, and until then the folder distinguishes it from a replay.
        """
        if not self.was_cancelled(name) or self.was_running(name):
            self.remove(name)
            return
        folder = os.path.join(self.plans, name)
        os.rename(os.path.join(folder, "result.json"), os.path.join(folder, "answered"))
        sync_directory(folder)

    def count_refusal(self, name: str) -> int:
        """Count one more refusal of the result; returns how many there were."""
        marker = os.path.join(self.plans, name, "refused")
        descriptor = os.open(marker, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.write(descriptor, b".")
            return os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)

    def remove(self, name: str) -> None:
        """Forget a plan and its result."""
        _remove_tree(os.path.join(self.plans, name))
        sync_directory(self.plans)

    def stamp(self) -> int:
        """The highest stamp that was run; 0 if none."""
        try:
            with open(self._path("stamp"), "rb") as stream:
                return int(stream.read(30).strip() or 0)
        except FileNotFoundError:
            return 0
        except ValueError as error:
            log.error("%s is damaged (%s); beginning anew" % (self._path("stamp"), error))
            return 0

    def store_stamp(self, stamp: int) -> None:
        """Record that plans up to this stamp were run."""
        write_file(self._path("stamp"), str(stamp).encode("ascii"))

    def _path(self, name: str) -> str:
        return os.path.join(self.plans, name)

    def _folders(self) -> "list[str]":
        names = [name for name in os.listdir(self.plans) if _FOLDER.match(name)]
        return sorted(names, key=int)

    def _marker(self) -> "dict[str, Any] | None":
        try:
            with open(self._path("unacknowledged"), "rb") as stream:
                marker = read_json(stream.read())
        except FileNotFoundError:
            return None
        except ValueError as error:
            log.error("%s is damaged (%s)" % (self._path("unacknowledged"), error))
            return None
        return marker if is_map(marker) else None

    def _recover(self) -> None:
        """Drop plans that were being written when the agent was killed; they are sent again."""
        marker = self._marker()
        for name in os.listdir(self.plans):
            if name.startswith(".incoming-"):
                if marker and name == ".incoming-%s" % marker.get("Folder"):
                    _remove_file(self._path("unacknowledged"))
                log.warning("Removing the half-written plan %s" % name)
                _remove_tree(os.path.join(self.plans, name))
            elif name.endswith(".new"):
                _remove_file(self._path(name))


def seconds_since(moment: "dict[str, Any] | None") -> float:
    """Seconds since a moment, by the monotonic clock; by the wall clock after a restart."""
    now = _moment()
    if moment is None:
        return 0.0
    try:
        if moment["boot"] == now["boot"]:
            return max(0.0, now["monotonic"] - float(moment["monotonic"]))
        return max(0.0, now["time"] - float(moment["time"]))
    except (KeyError, TypeError, ValueError):
        return 0.0


def _moment() -> "dict[str, Any]":
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as stream:
            boot = stream.read().strip()
    except OSError:
        boot = ""
    return {"boot": boot, "monotonic": time.monotonic(), "time": time.time()}


def write_file(path: str, data: bytes, mode: int = 0o600) -> None:
    """Replace a file in one step: after a crash it holds either the old or the new content.

    It has exactly the given mode, whatever the umask.
    """
    temporary = path + ".new"
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        os.fchmod(descriptor, mode)
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())
    os.rename(temporary, path)
    sync_directory(os.path.dirname(path))


def _remove_file(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass  # it is gone already


def _remove_tree(path: str) -> None:
    import shutil  # imports four compression modules; most starts remove nothing

    shutil.rmtree(path)


def sync_directory(path: str) -> None:
    """Make changes of a directory's entries survive a power cut."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
