"""Volumes in containers: a loop device with ext4, shown with the container's owners.

A running container has a mount namespace of its own. The host's mount is cloned as a detached tree,
and a helper process that has entered the container's namespaces moves it to its place: the guest
cannot redirect it to anything outside, because the helper is inside when it resolves the path.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import fcntl
import os
import struct
import sys
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import structlog

from vetro.node.commands import run
from vetro.node.errors import CommandFailed, DriverError
from vetro.node.storage.idmapped import IdMapping, clone_tree
from vetro.node.storage.mounts import unmount
from vetro.node.storage.room import storage_error

log = structlog.get_logger(__name__)

_FS_IOC_SHUTDOWN = 0x8004587D
_HELPER = r"""
import ctypes, errno, os, sys
action, path = sys.argv[1], sys.argv[2]
mounts, users, tree = (int(one) for one in sys.argv[3:6])
libc = ctypes.CDLL(None, use_errno=True)
def check(status):
    if status:
        code = ctypes.get_errno()
        sys.stderr.write(os.strerror(code))
        sys.exit(code if 0 < code < 126 else 1)
check(libc.setns(mounts, 0x20000))
if users >= 0:
    check(libc.setns(users, 0x10000000))
    os.setgroups([]); os.setgid(0); os.setuid(0)
name = os.fsencode(path)
if action == "attach":
    os.makedirs(path, mode=0o755, exist_ok=True)
    long = ctypes.c_long
    check(libc.syscall(long(429), long(tree), b"", long(-100), name, long(4)))  # move_mount
elif libc.umount2(name, 2 if action == "force" else 0):
    code = ctypes.get_errno()
    if code not in (errno.EINVAL, errno.ENOENT):
        sys.exit(code)
"""


async def mount_on_host(
    data: Path, target: Path, *, read_only: bool, mapping: IdMapping | None
) -> None:
    """Mount the file system in ``data`` at ``target``; ``mapping``: from the guest's owners."""
    if os.path.ismount(target):
        return
    if await loop_of(data):
        raise DriverError(
            f"The file system {data.parent.name} is still held by processes that used it before:"
            " end them, or restart the instance that had it",
            code="EBUSY",
            rest_code="VolumeInUse",
        )
    target.mkdir(mode=0o755, exist_ok=True)
    options = "loop,nodev,ro,noload" if read_only else "loop,nodev"
    try:
        await run("mount", "-t", "ext4", "-o", options, str(data), str(target))
    except CommandFailed as error:
        raise storage_error(f"Volume {data.parent.name} could not be mounted", error) from error
    if mapping is not None:
        mapping.mount(target, target)


async def loop_of(data: Path) -> str:
    """The loop device of a file; '' when it has none."""
    shown = await run("losetup", "--noheadings", "--output", "NAME", "--associated", str(data))
    return shown.output.strip().split("\n")[0].strip()


async def show(target: Path, pid: int, path: str, *, own_users: bool) -> None:
    """Show the mount ``target`` at ``path`` in the container whose init is ``pid``."""
    tree = clone_tree(target)
    try:
        await _inside("attach", pid, path, tree, own_users=own_users)
    finally:
        os.close(tree)


async def taken_off(pid: int, path: str, *, own_users: bool) -> bool:
    """Take a volume off a container where nothing uses it; false where something does."""
    return await _inside("detach", pid, path, -1, own_users=own_users) == 0


async def hide(target: Path, pid: int | None, path: str, *, own_users: bool) -> None:
    """Take a volume from a container, and unmount it on the host.

    Where processes still use it, the file system is shut down first: everything they wrote is on
    disk, and they get errors from then on, as from a disk that was pulled out.
    """
    if pid is not None:
        status = await _inside("detach", pid, path, -1, own_users=own_users)
        if status == errno.EBUSY:
            log.warning("busy_volume_detached", mount=str(target))
            await asyncio.to_thread(_shut_down, target)
            await _inside("force", pid, path, -1, own_users=own_users)
    await asyncio.to_thread(os.sync)
    unmount(target)


def _shut_down(target: Path) -> None:
    descriptor = os.open(target, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.ioctl(descriptor, _FS_IOC_SHUTDOWN, struct.pack("I", 0))
    finally:
        os.close(descriptor)


async def _inside(action: str, pid: int, path: str, tree: int, *, own_users: bool) -> int:
    with contextlib.ExitStack() as opened:

        def namespace(kind: str) -> int:
            descriptor = os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY | os.O_CLOEXEC)
            opened.callback(os.close, descriptor)
            return descriptor

        try:
            numbers = [namespace("mnt"), namespace("user") if own_users else -1, tree]
        except FileNotFoundError:
            return 0  # the container has ended meanwhile, and its mounts with it
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-I", "-S", "-c", _HELPER, action, path, *map(str, numbers),
            pass_fds=[one for one in numbers if one >= 0],
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )  # fmt: skip
        _, errors = await process.communicate()
    status = process.returncode or 0
    if status and not (status == errno.EBUSY and action == "detach"):
        reason = errors.decode(errors="replace").strip()[-300:] or f"status {status}"
        verb = "attached at" if action == "attach" else "taken from"
        raise DriverError(f"A volume could not be {verb} {path}: {reason}")
    return status


async def grow_mounted(data: Path, size_bytes: int) -> bool:
    """Grow a mounted file system; false where this machine does not let us (``CAP_SYS_RESOURCE``).

    The file is as large as asked afterwards in both cases.
    """
    device = await loop_of(data)
    os.truncate(data, size_bytes)
    try:
        await run("losetup", "--set-capacity", device)
        await run("resize2fs", device, timeout=3600)
    except CommandFailed as error:
        if "Permission denied to resize" in error.output:
            return False
        raise storage_error(f"Volume {data.parent.name} could not grow", error) from error
    return True


@contextlib.asynccontextmanager
async def frozen(target: Path) -> AsyncGenerator[None, None]:
    """Hold everything that would write into the file system at ``target``."""
    await run("fsfreeze", "--freeze", str(target))
    try:
        yield
    finally:
        await run("fsfreeze", "--unfreeze", str(target))


def mount_entries(volumes: Sequence[tuple[Path, str]]) -> list[str]:
    """The lines of a container's configuration: what is mounted where."""
    return [
        f"lxc.mount.entry = {_escaped(str(source))} {_escaped(path.lstrip('/'))} none"
        " bind,create=dir 0 0"
        for source, path in volumes
    ]


def _escaped(path: str) -> str:
    return path.replace("\\", "\\134").replace(" ", "\\040").replace("\t", "\\011")
