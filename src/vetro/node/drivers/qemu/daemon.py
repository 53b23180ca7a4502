"""The agent's own libvirt daemon: it neither uses nor changes the host's libvirt.

libvirt has its directories compiled in (``/etc/libvirt``, ``/run/libvirt`` and so on). The daemon
therefore runs in a mount namespace of its own, where those are directories below the agent's data
directory. In it ``/dev/kvm`` is missing when KVM does not work: otherwise libvirt's own probe of
QEMU's capabilities would wait for it (45 s on machines where it hangs; 1.6 s without). The user
QEMU runs as exists only there as well, so no package has to create it.

The daemon stops with the agent; VMs keep running, and the next daemon finds them by the state
files. Its mount namespace is a slave of the host's: unmounting on the host also unmounts here.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import uuid as uuids
from collections.abc import Callable, Mapping
from pathlib import Path

import structlog

from vetro.node.commands import run
from vetro.node.errors import CommandFailed, ConfigurationError, DriverError
from vetro.node.files import short_name, write_bytes
from vetro.node.processes import FollowedProcess, processes_by_pid
from vetro.node.storage.mounts import plain

log = structlog.get_logger(__name__)

# The uid that the distribution assigns to this user; the name exists in the namespace only.
QEMU_UID = 64055
_USER = "libvirt-qemu"

_SHARED = Path("/var/lib/libvirt/vetro")

_START_SECONDS = 20.0
_END_SECONDS = 20.0

_DIRECTORIES = {
    "etc": "/etc/libvirt",
    "run": "/run/libvirt",
    "lib": "/var/lib/libvirt",
    "cache": "/var/cache/libvirt",
    "log": "/var/log/libvirt",
}
_DRIVER_DIRECTORIES = (
    "/usr/lib/x86_64-linux-gnu/libvirt/connection-driver",
    "/usr/lib/aarch64-linux-gnu/libvirt/connection-driver",
    "/usr/lib64/libvirt/connection-driver",
    "/usr/lib/libvirt/connection-driver",
)
_QEMU_DRIVER = "libvirt_driver_qemu.so"

_DAEMON_CONFIGURATION = """\
unix_sock_rw_perms = "0700"
auth_unix_ro = "none"
auth_unix_rw = "none"
log_outputs = "3:file:/var/log/libvirt/daemon.log"
max_anonymous_clients = 0
host_uuid = "{host_uuid}"
"""

# - The agent sets the owner of every file itself: libvirt would also make QEMU the owner of the
#   images that many VMs share.
# - Control groups and namespaces of devices need a systemd or a delegated tree; see decision 0045.
_QEMU_CONFIGURATION = f"""\
user = "+{QEMU_UID}"
group = "+{QEMU_UID}"
dynamic_ownership = 0
remember_owner = 0
security_driver = "none"
cgroup_controllers = []
namespaces = []
stdio_handler = "file"
max_core = 0
seccomp_sandbox = 1
vnc_allow_host_audio = 0
"""

# $1: directory, $2: 'kvm' or 'tcg', $3: uuid of the daemon, then pairs of a directory and its
# place below _SHARED.
_SCRIPT = """\
set -e
base=$1 accelerator=$2
# libvirt refuses to migrate between hosts of one name; with a dot it asks no name server for it.
hostname "vetro-$3.node"
shift 3
for pair in etc:/etc/libvirt run:/run/libvirt lib:/var/lib/libvirt cache:/var/cache/libvirt \\
    log:/var/log/libvirt; do
  mount --bind "$base/${pair%%:*}" "${pair#*:}"
done
mount --bind "$base/passwd" /etc/passwd
mount --bind "$base/group" /etc/group
while [ $# -gt 0 ]; do
  mkdir -p "/var/lib/libvirt/vetro/$2"
  mount --rbind "$1" "/var/lib/libvirt/vetro/$2"
  shift 2
done
if [ "$accelerator" != kvm ] && [ -e /dev/kvm ]; then
  mount -t tmpfs -o mode=755 dev "$base/dev"
  mkdir "$base/dev/net" "$base/dev/pts" "$base/dev/shm"
  for name in null zero full random urandom tty net/tun vhost-net; do
    [ ! -e "/dev/$name" ] || cp -a "/dev/$name" "$base/dev/$name"
  done
  ln -s pts/ptmx "$base/dev/ptmx"
  ln -s /proc/self/fd "$base/dev/fd"
  [ ! -d /dev/pts ] || mount --rbind /dev/pts "$base/dev/pts"
  [ ! -d /dev/shm ] || mount --rbind /dev/shm "$base/dev/shm"
  mount --rbind "$base/dev" /dev
fi
export LIBVIRT_DRIVER_DIR="$base/drivers"
exec libvirtd -p "$base/daemon.pid"
"""


class LibvirtDaemon:
    """The daemon that keeps its files in ``directory`` (absolute; created when missing).

    ``shared``: directories that it and QEMU see under a short name, even below a private directory
    (which the user QEMU runs as cannot enter), and under the same name on every node. ``ended()``
    is called when a started daemon ends without having been stopped.
    """

    def __init__(
        self, directory: Path, shared: Mapping[str, Path], ended: Callable[[], None] = lambda: None
    ) -> None:
        self.directory = directory
        self._on_end = ended
        self._shared = dict(shared)
        # Its own identity, not the machine's: one machine may have several nodes.
        self._host_uuid = str(uuids.uuid4())
        self._process: FollowedProcess | None = None

    @property
    def socket(self) -> Path:
        """Where it listens."""
        return self.directory / "run/libvirt-sock"

    def seen(self, path: Path) -> str:
        """The path under which the daemon and QEMU see a file in a shared directory."""
        for place, directory in self._shared.items():
            if path.is_relative_to(directory):
                return str(_SHARED / place / path.relative_to(directory))
        raise ValueError(f"{path} is in none of the shared directories")

    def is_of(self, pid: int) -> bool:
        """Whether a process sees this daemon's directories: other agents may run VMs here too."""
        with contextlib.suppress(OSError):
            for line in Path(f"/proc/{pid}/mountinfo").read_text(errors="replace").splitlines():
                fields = line.split(" ")
                if fields[4] == _DIRECTORIES["lib"]:
                    return str(self.directory / "lib").endswith(plain(fields[3]))
        return False

    def pid_file(self, name: str) -> Path:
        """Where libvirt keeps the process id of a running VM."""
        return self.directory / "run/qemu" / f"{name}.pid"

    @property
    def running(self) -> bool:
        """Whether the daemon's process runs."""
        return self._process is not None and self._process.running

    async def start(self, accelerator: str) -> None:
        """Start the daemon; first end a daemon that a killed agent left.

        Errors: ``ConfigurationError`` when libvirt is not installed, ``DriverError`` when it does
        not come up.
        """
        driver = check_installed()
        await self.stop()
        await self._end_starting()
        await asyncio.to_thread(self._prepare, driver)
        # Not our child: a daemon that forks away from its parent is followed by its pid file.
        log_file = self.directory / "start.log"
        try:
            await run(
                "/bin/sh", "-c",
                'log=$1; shift; setsid "$@" </dev/null >"$log" 2>&1 &', "start", str(log_file),
                "unshare", "--uts", "--mount", "--propagation", "slave", "/bin/sh", "-c", _SCRIPT,
                "daemon", str(self.directory), accelerator, self._host_uuid,
                *(word for place, path in self._shared.items() for word in (str(path), place)),
                timeout=30,
            )  # fmt: skip
            async with asyncio.timeout(_START_SECONDS):
                while not await self._listens():
                    if self._ended():
                        raise DriverError(f"libvirtd ended at its start: {self._last_words()}")
                    await asyncio.sleep(0.02)
        except (CommandFailed, TimeoutError) as error:
            raise DriverError(f"libvirtd did not start: {self._last_words()}") from error

    def _prepare(self, driver: Path) -> None:
        self.directory.mkdir(mode=0o711, parents=True, exist_ok=True)
        for name in (*_DIRECTORIES, "dev", "drivers"):
            (self.directory / name).mkdir(mode=0o711, exist_ok=True)
        for place in _DIRECTORIES.values():
            # Empty mount points; the distribution's own package has them as well.
            Path(place).mkdir(mode=0o755, parents=True, exist_ok=True)
        link = self.directory / "drivers" / driver.name
        link.unlink(missing_ok=True)
        # Only QEMU: the drivers of networks, storage and devices would inspect the host.
        link.symlink_to(driver)
        write_bytes(
            self.directory / "etc/libvirtd.conf",
            _DAEMON_CONFIGURATION.format(host_uuid=self._host_uuid).encode(),
        )
        write_bytes(self.directory / "etc/qemu.conf", _QEMU_CONFIGURATION.encode())
        write_bytes(
            self.directory / "passwd",
            _with_line("/etc/passwd", f"{_USER}:x:{QEMU_UID}:{QEMU_UID}::/:/usr/sbin/nologin"),
            mode=0o644,
        )
        write_bytes(
            self.directory / "group",
            _with_line("/etc/group", f"{_USER}:x:{QEMU_UID}:", f"kvm:x:{QEMU_UID + 1}:"),
            mode=0o644,
        )
        for stale in (self.socket, self.directory / "daemon.pid"):
            stale.unlink(missing_ok=True)

    async def _listens(self) -> bool:
        with contextlib.suppress(OSError):
            with short_name(self.socket) as name:
                _, writer = await asyncio.open_unix_connection(name)
            writer.close()
            self._process = self._follow()
            return self._process is not None
        return False

    def _ended(self) -> bool:
        try:
            pid = int((self.directory / "daemon.pid").read_text())
        except (FileNotFoundError, ValueError):
            return False
        return not Path("/proc", str(pid)).exists()

    def _is_daemon(self, argv: list[str]) -> bool:
        return str(self.directory / "daemon.pid") in argv and "libvirtd" in argv[0]

    def _is_starting(self, argv: list[str]) -> bool:
        # Before it becomes libvirtd, it is the script or the program that starts the script.
        return self._is_daemon(argv) or (_SCRIPT in argv and str(self.directory) in argv)

    async def _end_starting(self) -> None:
        """End a daemon that a killed agent was starting: it has no pid file yet."""
        for pid, argv in await asyncio.to_thread(processes_by_pid):
            if not self._is_starting(argv):
                continue
            process = FollowedProcess.attach(pid, self._is_starting, lambda: None)
            if process is None:
                continue
            process.signal(9)
            if not await process.wait(5):
                process.close()
                raise DriverError(f"libvirtd (process {pid}), half started, does not end")

    def _follow(self) -> FollowedProcess | None:
        try:
            pid = int((self.directory / "daemon.pid").read_text())
        except (FileNotFoundError, ValueError):
            return None
        return FollowedProcess.attach(pid, self._is_daemon, self._end)

    def _end(self) -> None:
        # No callback for a daemon that is being stopped.
        if self._process is not None:
            self._on_end()

    def _last_words(self) -> str:
        said: list[str] = []
        for name in ("start.log", "log/daemon.log"):
            with contextlib.suppress(FileNotFoundError):
                text = (self.directory / name).read_text(encoding="utf-8", errors="replace")
                said += text.splitlines()[-3:]
        return "; ".join(said) or "it said nothing"

    async def stop(self) -> None:
        """Stop the daemon; VMs keep running. Errors: ``DriverError`` when it does not end."""
        process = self._process or self._follow()
        self._process = None
        if process is None or not process.running:
            return
        process.signal()
        if not await process.wait(_END_SECONDS):
            process.signal(9)
            if not await process.wait(5):
                process.close()
                raise DriverError(f"libvirtd (process {process.pid}) does not end")


def check_installed() -> Path:
    """libvirt's QEMU driver. Errors: ``ConfigurationError`` names what is not installed."""
    missing = [
        tool
        for tool in (
            "libvirtd",
            "qemu-system-x86_64",
            "qemu-img",
            "genisoimage",
            "unshare",
            "hostname",
        )
        if shutil.which(tool, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") is None
    ]
    drivers = [Path(place, _QEMU_DRIVER) for place in _DRIVER_DIRECTORIES]
    found = next((path for path in drivers if path.exists()), None)
    if missing or found is None:
        raise ConfigurationError(
            f"Not installed: {', '.join(missing) or _QEMU_DRIVER}; run tools/system-packages.sh vm,"
            " or apt-get install libvirt-daemon qemu-system-x86 qemu-utils genisoimage"
        )
    if os.geteuid() != 0:
        raise ConfigurationError("The qemu driver needs root: it makes interfaces and namespaces")
    if not Path("/dev/net/tun").exists():
        raise ConfigurationError("The qemu driver needs /dev/net/tun: modprobe tun")
    return found


def _with_line(file: str, *lines: str) -> bytes:
    """The machine's own file with these lines added, unless their names are in it already."""
    text = Path(file).read_text(encoding="utf-8", errors="replace")
    known = {line.split(":")[0] for line in text.splitlines()}
    end = "" if not text or text.endswith("\n") else "\n"
    added = "".join(f"{line}\n" for line in lines if line.split(":")[0] not in known)
    return f"{text}{end}{added}".encode()
