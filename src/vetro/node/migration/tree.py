"""Making one tree equal to another over a connection: only differences are sent.

The sender lists its tree; the receiver removes entries that are not listed, creates directories and
links, and requests the files whose size or time differ; the sender sends those. Owners are sent as
the guest sees them, so the two nodes may use different id ranges. Names are never followed through
links.
"""

from __future__ import annotations

import base64
import contextlib
import os
import shutil
import stat
from collections.abc import Callable, Generator, Iterator
from typing import Any, Protocol

import msgspec

from vetro.json_texts import NotJson, decode_json
from vetro.node.guest.root import inside, outside

_CHUNK = 1 << 20
_CAPABILITY = "security.capability"
# These belong to the underlying storage or to the machine, not to the guest.
_SKIPPED_ATTRIBUTES = ("trusted.overlay.", "security.selinux", "system.", "btrfs.")


class Stream(Protocol):
    """A buffered connection."""

    def read(self, size: int = ..., /) -> bytes: ...
    def readline(self, size: int = ..., /) -> bytes: ...
    def write(self, data: bytes, /) -> Any: ...
    def flush(self) -> None: ...


Entry = dict[str, Any]
Progress = Callable[[int, int], None]


class TreeError(Exception):
    """The connection was lost, or the other side sent invalid data."""


def write_line(stream: Stream, value: object) -> None:
    """Send one message."""
    stream.write(msgspec.json.encode(value) + b"\n")


def read_line(stream: Stream) -> Any:
    """The next message. Errors: ``TreeError`` at the end of the stream, or for a line that is not JSON."""
    line = stream.readline()
    if not line.endswith(b"\n"):
        raise TreeError("the connection to the other node was lost")
    try:
        return decode_json(line)
    except NotJson as error:
        raise TreeError(f"the other node sent a line that is not JSON: {error}") from error


# Sending


def entries(root: str, shift: int) -> Iterator[Entry]:
    """Every entry below ``root``, parents before children. Sockets and devices are omitted."""
    seen: dict[tuple[int, int], str] = {}
    yield _describe(root, "", os.lstat(root), shift)
    pending = [""]
    while pending:
        directory = pending.pop()
        path = os.path.join(root, directory)
        try:
            names = sorted(os.listdir(path))
        except (FileNotFoundError, NotADirectoryError):
            continue
        for name in names:
            relative = os.path.join(directory, name)
            full = os.path.join(root, relative)
            try:
                status = os.lstat(full)
                entry = _describe(full, relative, status, shift)
            except FileNotFoundError:
                continue
            if not entry["t"]:
                continue
            if entry["t"] == "d":
                pending.append(relative)
            elif entry["t"] == "f" and status.st_nlink > 1:
                first = seen.setdefault((status.st_dev, status.st_ino), relative)
                if first != relative:
                    entry["h"] = _encode(first)
            yield entry


def _describe(full: str, relative: str, status: os.stat_result, shift: int) -> Entry:
    mode = status.st_mode
    kind = (
        "d" if stat.S_ISDIR(mode) else "f" if stat.S_ISREG(mode) else
        "l" if stat.S_ISLNK(mode) else "p" if stat.S_ISFIFO(mode) else ""
    )  # fmt: skip
    entry: Entry = {
        "p": _encode(relative),
        "t": kind,
        "m": stat.S_IMODE(mode),
        "u": inside(status.st_uid, shift),
        "g": inside(status.st_gid, shift),
    }
    if kind == "l":
        entry["l"] = _encode(os.readlink(full))
    if kind == "f":
        entry["s"] = status.st_size
    entry["n"] = status.st_mtime_ns
    if kind in ("d", "f"):
        found: dict[str, str] = {}
        with contextlib.suppress(OSError):
            for name in os.listxattr(full, follow_symlinks=False):
                if not name.startswith(_SKIPPED_ATTRIBUTES):
                    value = os.getxattr(full, name, follow_symlinks=False)
                    value = _moved_capability(value, -shift) if name == _CAPABILITY else value
                    found[name] = base64.b64encode(value).decode()
        if found:
            entry["x"] = found
    return entry


def _encode(path: str) -> str:
    return base64.b64encode(os.fsencode(path)).decode()


def _decode(text: str) -> str:
    return os.fsdecode(base64.b64decode(text))


def _moved_capability(value: bytes, by: int) -> bytes:
    """Shift the root id by which a file capability (version 3) names its user namespace."""
    if len(value) != 24:
        return value
    owner = int.from_bytes(value[20:24], "little") + by
    return value[:20] + max(0, owner).to_bytes(4, "little")


def send(root: str, shift: int, stream: Stream, progress: Progress) -> int:
    """Send the tree at ``root``; returns the bytes sent. Errors: ``TreeError``, ``OSError``."""
    sizes: dict[str, int] = {}
    for entry in entries(root, shift):
        if entry["t"] == "f" and "h" not in entry:
            sizes[entry["p"]] = entry["s"]
        write_line(stream, entry)
    write_line(stream, {"end": True})
    stream.flush()
    wanted: list[str] = []
    while not (message := read_line(stream)).get("end"):
        if "error" in message:
            raise TreeError(f"the other node failed: {message['error']}")
        wanted.append(str(message["need"]))
    total = sum(sizes.get(path, 0) for path in wanted)
    sent = 0
    for path in wanted:
        if path not in sizes:
            raise TreeError("the other node asks for a file that was not offered")
        sent += _send_file(os.path.join(root, _decode(path)), path, sizes[path], stream)
        progress(sent, total)
    write_line(stream, {"end": True})
    stream.flush()
    answer = read_line(stream)
    if not answer.get("done"):
        raise TreeError(f"the other node failed: {answer.get('error')}")
    return sent


def _send_file(full: str, path: str, size: int, stream: Stream) -> int:
    write_line(stream, {"p": path, "s": size})
    left = size
    with contextlib.suppress(FileNotFoundError):
        descriptor = os.open(full, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            while left and (data := file.read(min(_CHUNK, left))):
                stream.write(data)
                left -= len(data)
    # A file that shrank while it was read: the next transfer corrects it.
    while left:
        stream.write(b"\0" * min(_CHUNK, left))
        left -= min(_CHUNK, left)
    return size


# Receiving


def receive(root: str, shift: int, stream: Stream) -> int:
    """Make the tree at ``root`` equal to the sender's; returns the bytes received.

    After a failure, the next transfer completes the tree. Errors: ``TreeError``, ``OSError``.
    """
    target = _Target(root, shift)
    try:
        listed: list[Entry] = []
        while not (entry := read_line(stream)).get("end"):
            listed.append(entry)
        target.prepare(listed)
        for entry in listed:
            if target.needs(entry):
                write_line(stream, {"need": entry["p"]})
        write_line(stream, {"end": True})
        stream.flush()
        by_path = {entry["p"]: entry for entry in listed}
        received = 0
        while not (message := read_line(stream)).get("end"):
            entry = by_path.get(str(message["p"]))
            if entry is None or entry["t"] != "f":
                raise TreeError("a file arrived that was not listed")
            target.store(entry, int(message["s"]), stream)
            received += int(message["s"])
        target.finish(listed)
        write_line(stream, {"done": True, "received": received})
        stream.flush()
    except OSError as error:
        with contextlib.suppress(OSError):
            write_line(stream, {"error": str(error)})
            stream.flush()
        raise
    return received


class _Target:
    """The receiving tree; every name is opened below its root without following links."""

    def __init__(self, root: str, shift: int) -> None:
        self.root = root
        self.shift = shift

    def prepare(self, listed: list[Entry]) -> None:
        """Remove entries not listed or of another type; create directories, links, pipes."""
        kinds: dict[str, Entry] = {}
        for entry in listed:
            path = _decode(str(entry["p"]))
            _check(path)
            kinds[path] = entry
        for present in entries(self.root, self.shift):
            path = _decode(present["p"])
            wanted = kinds.get(path)
            if wanted is None or wanted["t"] != present["t"]:
                if not path:
                    raise TreeError("the root is not a directory")
                with self._parent(path) as (directory, base):
                    _remove(directory, base)
        for path, entry in sorted(kinds.items()):
            if not path or entry["t"] == "f":
                continue
            with self._parent(path) as (directory, base):
                if entry["t"] == "l":
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(base, dir_fd=directory)
                    os.symlink(_decode(entry["l"]), base, dir_fd=directory)
                    self._own(entry, directory, base)
                else:
                    with contextlib.suppress(FileExistsError):
                        if entry["t"] == "d":
                            os.mkdir(base, 0o700, dir_fd=directory)
                        else:
                            os.mkfifo(base, 0o600, dir_fd=directory)

    def needs(self, entry: Entry) -> bool:
        """Whether a file's contents must be sent."""
        if entry["t"] != "f" or "h" in entry:
            return False
        try:
            with self._parent(_decode(entry["p"])) as (directory, base):
                status = os.stat(base, dir_fd=directory, follow_symlinks=False)
        except FileNotFoundError:
            return True
        return (status.st_size, status.st_mtime_ns) != (entry["s"], entry["n"])

    def store(self, entry: Entry, size: int, stream: Stream) -> None:
        """Receive a file and rename it into place once it is complete."""
        with self._parent(_decode(entry["p"])) as (directory, base):
            temporary = f".{base[:200]}.vetro"
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary, dir_fd=directory)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(temporary, flags, 0o600, dir_fd=directory), "wb") as file:
                while size:
                    data = stream.read(min(_CHUNK, size))
                    if not data:
                        raise TreeError("the connection to the other node was lost")
                    file.write(data)
                    size -= len(data)
            os.rename(temporary, base, src_dir_fd=directory, dst_dir_fd=directory)

    def finish(self, listed: list[Entry]) -> None:
        """Set hard links, owners, modes, attributes and times; directories last, deepest first."""
        for entry in listed:
            if "h" in entry:
                self._link(entry)
        for entry in listed:
            if entry["t"] in ("f", "p"):
                self._dress(entry)
        for entry in reversed(listed):
            if entry["t"] == "d":
                self._dress(entry)

    def _link(self, entry: Entry) -> None:
        source = _decode(entry["h"])
        _check(source)
        with (
            self._parent(source) as (from_directory, name),
            self._parent(_decode(entry["p"])) as (directory, base),
        ):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(base, dir_fd=directory)
            os.link(
                name, base, src_dir_fd=from_directory, dst_dir_fd=directory, follow_symlinks=False
            )

    def _own(self, entry: Entry, directory: int, base: str) -> None:
        owner, group = (outside(int(entry[one]), self.shift) for one in ("u", "g"))
        os.chown(base, owner, group, dir_fd=directory, follow_symlinks=False)

    def _dress(self, entry: Entry) -> None:
        path = _decode(entry["p"])
        with self._parent(path or ".") as (directory, base):
            self._own(entry, directory, base)
            os.chmod(base, int(entry["m"]) & 0o7777, dir_fd=directory)
            if entry["t"] in ("d", "f"):
                self._attributes(entry, directory, base)
            times = (int(entry["n"]), int(entry["n"]))
            os.utime(base, ns=times, dir_fd=directory, follow_symlinks=False)

    def _attributes(self, entry: Entry, directory: int, base: str) -> None:
        wanted: dict[str, str] = entry.get("x") or {}
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        descriptor = os.open(base, flags, dir_fd=directory)
        try:
            for name in os.listxattr(descriptor):
                if name not in wanted and not name.startswith(_SKIPPED_ATTRIBUTES):
                    os.removexattr(descriptor, name)
            for name, value in wanted.items():
                if not name.startswith(_SKIPPED_ATTRIBUTES):
                    raw = base64.b64decode(value)
                    raw = _moved_capability(raw, self.shift) if name == _CAPABILITY else raw
                    os.setxattr(descriptor, name, raw)
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def _parent(self, path: str) -> Generator[tuple[int, str], None, None]:
        """The opened directory of ``path`` and its last component."""
        *parts, base = path.split("/")
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        descriptor = os.open(self.root, flags)
        try:
            for part in parts:
                deeper = os.open(part, flags | os.O_NOFOLLOW, dir_fd=descriptor)
                os.close(descriptor)
                descriptor = deeper
            yield descriptor, base
        finally:
            os.close(descriptor)


def _check(path: str) -> None:
    if path.startswith("/") or any(part in ("", ".", "..") for part in path.split("/") if path):
        raise TreeError(f"the other node names '{path}', which leads out of the tree")


def _remove(directory: int, base: str) -> None:
    try:
        status = os.stat(base, dir_fd=directory, follow_symlinks=False)
    except FileNotFoundError:
        # Removed with its directory.
        return
    if stat.S_ISDIR(status.st_mode):
        shutil.rmtree(base, dir_fd=directory)
    else:
        os.unlink(base, dir_fd=directory)
