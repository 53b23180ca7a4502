"""Apply user data to a fresh instance, once (the part of cloud-init that Vetro needs).

Accepted: a multipart MIME text, or a single part. A part is a script (`#!`) or a
`#cloud-config` whose body is JSON with `write_files`, `runcmd`, `hostname`,
`ssh_authorized_keys`. Parts run in order; a failing part is logged and the next one runs, because
an unreachable instance is worse than one that is half set up. Completed parts are recorded in
`/var/lib/vetro/bootstrap.json`, so a restarted instance continues where it was.
"""

import base64
import binascii
import gzip
import json
import os
import re
import signal
import subprocess
import zlib

from . import log
from .documents import is_list, is_map, read_json
from .spool import hold, write_file

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_SAFE = re.compile(rb"^#\s*Isolation: optional\s*$", re.M)
_STATE = "/var/lib/vetro/bootstrap.json"
_SERVED = ("write_files", "runcmd", "hostname", "ssh_authorized_keys", "isolation")


def apply(path: str, root: str = "") -> None:
    """Apply the user data in the file `path`. Errors in the user data are logged, not raised.

    Raises `StorageInUse` while another agent does the same. `root` is put before every absolute path of the
    agent and of `write_files`, and scripts get it as `VETRO_GUEST_ROOT` (empty in an instance with a file
    system of its own).
    """
    try:
        with open(path, "rb") as stream:
            data = stream.read()
    except FileNotFoundError:
        log.info("There is no user data at %s" % path)
        return
    state_path = root + _STATE
    os.makedirs(os.path.dirname(state_path), exist_ok=True)
    with hold(state_path + ".lock", "The state %s" % state_path):
        _apply(data, root, state_path)


def _apply(data: bytes, root: str, state_path: str) -> None:
    done = _parts_done(state_path)
    if done is None:
        log.info("The user data was applied before")
        return
    try:
        parts = _split(data)
    except Exception as error:  # noqa: BLE001 see the module: the agent is needed all the more
        log.error("The user data cannot be read: %s: %s" % (type(error).__name__, error))
        return
    for number, (name, part) in enumerate(parts):
        if number < done:
            continue
        log.info("User data part %d of %d: %s" % (number + 1, len(parts), name))
        try:
            _apply_part(part, root, os.path.dirname(state_path))
        except Exception as error:  # noqa: BLE001 see the module: the next part still runs
            log.error(
                "User data part %d failed: %s: %s" % (number + 1, type(error).__name__, error)
            )
        _remember(state_path, {"parts": number + 1, "complete": False})
    _remember(state_path, {"parts": len(parts), "complete": True})


def _parts_done(state_path: str) -> "int | None":
    """How many parts were applied; None if all of them."""
    try:
        with open(state_path, "rb") as stream:
            state = read_json(stream.read())
        return None if state.get("complete") else int(state.get("parts", 0))
    except FileNotFoundError:
        return 0
    except (ValueError, TypeError, AttributeError) as error:
        log.error("%s is damaged (%s); applying the user data again" % (state_path, error))
        return 0


def _remember(state_path: str, state: "dict[str, Any]") -> None:
    write_file(state_path, json.dumps(state).encode("utf-8"))


def _split(data: bytes) -> "list[tuple[str, bytes]]":
    """The parts of user data in order, each with a name for the log."""
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    head = data[:4096].lower()
    if data[:2] == b"#!" or data.startswith(b"#cloud-config") or b"content-type:" not in head:
        return [("user data", data)] if data.strip() else []
    import email  # only needed for user data with parts

    message = email.message_from_bytes(data)
    parts: "list[tuple[str, bytes]]" = []
    for part in message.walk():
        if part.is_multipart():
            continue
        payload = part.get_payload(decode=True)
        if isinstance(payload, bytes) and payload.strip():
            name = part.get_filename() or part.get_content_type()
            parts.append((name, payload))
    return parts


def _apply_part(part: bytes, root: str, work_folder: str) -> None:
    if part[:2] == b"\x1f\x8b":
        part = gzip.decompress(part)
    text = part.lstrip()
    if root and not _is_safe(text):
        raise ValueError(
            "it was not applied: this instance has no isolation (driver 'process'), and scripts and"
            " commands would change the machine that it shares. A script that is safe there has the line"
            " '# Isolation: optional', and commands are beside 'isolation': 'optional'"
        )
    if text.startswith(b"#!"):
        _run_script(text, root, work_folder)
    elif text.startswith(b"#cloud-config"):
        _apply_cloud_config(text.partition(b"\n")[2], root)
    elif text.startswith(b"{"):
        _apply_cloud_config(text, root)
    else:
        log.warning("Neither a script (#!) nor #cloud-config: left alone")


def _is_safe(text: bytes) -> bool:
    """Whether user data may be applied on a shared machine: it says so, or runs nothing."""
    if _SAFE.search(text):
        return True
    if text.startswith(b"#!"):
        return False
    try:
        value = read_json(text.partition(b"\n")[2] if text.startswith(b"#") else text)
    except ValueError:
        return True  # invalid JSON: refused later for that reason
    return not (is_map(value) and value.get("runcmd")) or value.get("isolation") == "optional"


def _run_script(text: bytes, root: str, work_folder: str) -> None:
    os.makedirs(work_folder, exist_ok=True)
    path = os.path.join(work_folder, "user-data-script")
    # A script written on Windows has an interpreter name that ends in a carriage return.
    first, newline, rest = text.partition(b"\n")
    write_file(path, first.rstrip(b"\r") + newline + rest, 0o700)
    try:
        run_program([path], root)
    finally:
        os.unlink(path)


def _apply_cloud_config(text: bytes, root: str) -> None:
    try:
        value = read_json(text)
    except ValueError as error:
        raise ValueError("the #cloud-config is not JSON: %s" % error) from error
    if not is_map(value):
        raise ValueError("the #cloud-config is not a map")
    config: "dict[str, Any]" = value
    left_out = [key for key in config if key not in _SERVED]
    if left_out:
        log.info("Keys of the #cloud-config that are not served: %s" % ", ".join(left_out))
    if config.get("hostname") and not root:
        _set_hostname(str(config["hostname"]))
    keys: "list[Any]" = config.get("ssh_authorized_keys") or []
    if keys:
        _authorize([str(key) for key in keys], root)
    entries: "list[Any]" = config.get("write_files") or []
    for entry in entries:
        _write_entry(entry, root)
    commands: "list[Any]" = config.get("runcmd") or []
    for command in commands:
        if is_list(command):
            run_program([str(word) for word in command], root)
        else:
            run_program(["/bin/sh", "-c", str(command)], root)


def _set_hostname(name: str) -> None:
    write_file("/etc/hostname", (name + "\n").encode("utf-8"), 0o644)
    try:
        import socket

        socket.sethostname(name)
    except OSError as error:
        log.warning("The host name cannot be set: %s" % error)


def _authorize(keys: "list[str]", root: str) -> None:
    """Let the owners of these keys log in as root."""
    folder = (root or os.path.expanduser("~root")) + ("/root/.ssh" if root else "/.ssh")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    path = os.path.join(folder, "authorized_keys")
    try:
        with open(path, encoding="utf-8") as stream:
            known = stream.read().splitlines()
    except FileNotFoundError:
        known = []
    known.extend(key for key in keys if key not in known)
    write_file(path, ("\n".join(known) + "\n").encode("utf-8"))


def _write_entry(entry: "dict[str, Any]", root: str) -> None:
    path = root + str(entry["path"])
    data = _decode(entry.get("content", ""), str(entry.get("encoding") or ""))
    mode = entry.get("permissions", "0644")
    mode = int(mode, 8) if isinstance(mode, str) else int(mode)
    log.make_folder(os.path.dirname(path) or "/")
    if entry.get("append"):
        with open(path, "ab") as stream:
            stream.write(data)
    else:
        write_file(path, data, mode)
    os.chmod(path, mode)
    owner = str(entry.get("owner") or "")
    if owner and not root:
        import shutil

        user, _, group = owner.partition(":")
        if user:
            shutil.chown(path, user=user)
        if group:
            shutil.chown(path, group=group)


def _decode(content: str, encoding: str) -> bytes:
    data = content.encode("utf-8")
    steps = encoding.lower().replace("gzip", "gz").replace("base64", "b64").split("+")
    try:
        if "b64" in steps:
            data = base64.b64decode(b"".join(data.split()), validate=True)
        if "gz" in steps:
            data = zlib.decompress(data, 31)
    except (binascii.Error, zlib.error) as error:
        raise ValueError("the content is not %s: %s" % (encoding, error)) from error
    return data


def run_program(command: "list[str]", root: str) -> None:
    """Run a program to its end. An agent that is stopped meanwhile kills it: the next agent runs it
    again and must not find it still running."""
    environment = dict(os.environ, VETRO_GUEST_ROOT=root)
    running: "subprocess.Popen[bytes] | None" = None
    stopped: "list[int]" = []

    def stop(number: int, _frame: object) -> None:
        stopped.append(number)
        if running is not None:
            raise SystemExit(0)
        # It is being started: raised in there, the exit would leave the program running.

    former = signal.signal(signal.SIGTERM, stop)
    try:
        running = subprocess.Popen(
            command,
            cwd="/",
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=log.descriptor(),
            stderr=log.descriptor(),
            preexec_fn=_usual_umask,  # safe: there are no threads here
            start_new_session=True,
        )
        if stopped:
            raise SystemExit(0)
        code = running.wait()
    except SystemExit:
        if running is not None:
            os.killpg(running.pid, signal.SIGKILL)
            running.wait()
        raise
    finally:
        signal.signal(signal.SIGTERM, former)
    if code != 0:
        log.error("%s exited with code %d" % (command[0], code))


def _usual_umask() -> None:
    os.umask(0o022)
