"""Quotas of directories by project id, as ext4 and XFS count them (``prjquota``)."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct
import zlib
from pathlib import Path

from vetro.node.errors import NodeError

_LIBC = ctypes.CDLL(None, use_errno=True)
_PRJQUOTA = 2
_Q_GETFMT, _Q_SETQUOTA, _Q_XGETQSTAT = 0x800004, 0x800008, (ord("X") << 8) + 5
_QIF_BLIMITS = 1
_FS_IOC_FSGETXATTR, _FS_IOC_FSSETXATTR = 0x801C581F, 0x401C5820
_FS_XFLAG_PROJINHERIT = 0x200
# struct fsxattr: xflags, extsize, nextents, projid, cowextsize, padding.
_FSXATTR = struct.Struct("=IIIII8s")
# struct if_dqblk: hard and soft block limits (KiB), space, inode limits and use, times, valid.
_DQBLK = struct.Struct("=QQQQQQQQI4x")


def project_id(path: Path) -> int:
    """The project id of a directory: derived from its path, so it is the same after a restart."""
    return zlib.crc32(os.fsencode(path)) | 0x40000000


def encode_limit(limit_bytes: int) -> bytes:
    """The kernel's ``struct if_dqblk`` for a limit in bytes; 0 is none."""
    blocks = -(-limit_bytes // 1024)
    return _DQBLK.pack(blocks, blocks, 0, 0, 0, 0, 0, 0, _QIF_BLIMITS)


def encode_project(old: bytes, project: int) -> bytes:
    """``struct fsxattr`` with this project id, which new entries below inherit."""
    flags, extent, extents, _project, copy, rest = _FSXATTR.unpack(old)
    return _FSXATTR.pack(flags | _FS_XFLAG_PROJINHERIT, extent, extents, project, copy, rest)


class ProjectQuota:
    """Project quotas of the file system that holds ``directory``."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def device(self) -> str:
        """The block device of the file system; '' when it has none."""
        wanted = os.stat(self._directory).st_dev
        number = f"{os.major(wanted)}:{os.minor(wanted)}"
        text = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="surrogateescape")
        for line in text.splitlines():
            left, _, right = line.partition(" - ")
            if left.split(" ")[2] == number and right.split(" ")[1].startswith("/"):
                return right.split(" ")[1]
        return ""

    def available(self) -> bool:
        """Whether the kernel counts projects on this file system."""
        device = self.device()
        if not device:
            return False
        answer = ctypes.create_string_buffer(256)
        return any(
            self._control(command, device, 0, answer) == 0 for command in (_Q_GETFMT, _Q_XGETQSTAT)
        )

    def limit(self, path: Path, limit_bytes: int) -> None:
        """Make ``path`` a project of its own and limit it. Errors: ``NodeError``."""
        project = project_id(path)
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            attributes = bytearray(_FSXATTR.size)
            fcntl.ioctl(descriptor, _FS_IOC_FSGETXATTR, attributes)
            fcntl.ioctl(descriptor, _FS_IOC_FSSETXATTR, encode_project(bytes(attributes), project))
        except OSError as error:
            raise NodeError(f"{path} cannot be given a project: {error.strerror}") from error
        finally:
            os.close(descriptor)
        limits = ctypes.create_string_buffer(encode_limit(limit_bytes))
        code = self._control(_Q_SETQUOTA, self.device(), project, limits)
        if code:
            raise NodeError(f"{path} cannot be limited: {errno.errorcode.get(code, code)}")

    @staticmethod
    def _control(command: int, device: str, number: int, data: ctypes.Array[ctypes.c_char]) -> int:
        status = _LIBC.quotactl(
            ctypes.c_int((command << 8) | _PRJQUOTA),
            os.fsencode(device),
            ctypes.c_int(number),
            data,
        )
        return 0 if status == 0 else ctypes.get_errno()
