"""Instances without containers: the guest agent as a child process with a directory of its own.

For machines without root or LXC. An instance is a directory that stands for its root file system
and a process that runs the guest agent with that directory before its paths. It shares the
machine's network, so its address is the loopback address, and every file that its user may read.
That user is one of its project where the agent runs as root (``own_users``); else the agent's own,
which separates nothing. For development only.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal as signals
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path

import structlog

from vetro.node.commands import run
from vetro.node.drivers.hypervisor import (
    Changed,
    DiskUse,
    ExecRequest,
    ExecResult,
    HostCommand,
    Hypervisor,
    RunState,
)
from vetro.node.drivers.own_users import OwnUsers, own_tree, user_of_process
from vetro.node.drivers.stats import process_stats
from vetro.node.errors import ConfigurationError, DriverError, no_process
from vetro.node.files import copy_tree, remove_tree, tree_bytes, write_bytes
from vetro.node.guest import instance_files
from vetro.node.guest.root import GuestRoot
from vetro.node.processes import (
    FollowedProcess,
    FollowedVms,
    command_line,
    end_all,
    processes_by_pid,
)
from vetro.node.storage.room import snapshot_path
from vetro.node.vm_objects import CONTAINER_BRANDS, MachineStore
from vetro.node.vm_records import Nic, Vm

log = structlog.get_logger(__name__)

ADDRESS = "127.0.0.1"
# The shell above an instance's agent; an instance is identified by its command line.
_KEEPER = 'while :; do "$@"; sleep 2; done'
_START_SECONDS = 10.0


class ProcessHypervisor(Hypervisor):
    """Guest agents as processes of their project's user, or of this one."""

    name = "process"
    brands: Sequence[str] = CONTAINER_BRANDS
    features: Sequence[str] = ("exec", "files", "reprovision", "snapshots", "stats")

    def __init__(
        self,
        store: MachineStore,
        guest_archive: Path | None,
        python: str = sys.executable,
        *,
        hidden: Sequence[Path] = (),
    ) -> None:
        """``hidden``: what instances with a user of their own do not see, beside the agent's data."""
        self._store = store
        self._guest_archive = guest_archive
        # The machine's own: a virtual environment may be where the instances' users cannot come.
        self._python = os.path.realpath(python)
        self._users = OwnUsers(store, hidden) if os.geteuid() == 0 else None
        self._agents = FollowedVms(self._pid_file, self._is_agent)
        self._ended: Changed = lambda _uuid: None

    async def open(self, vms: Sequence[Vm], ended: Changed, changed: Changed) -> None:
        """Warn of what is not isolated, and follow the running instances.

        Those that an earlier version started as root are ended: they start again as their own user.
        """
        user = "a user of their project" if self._users is not None else "this user"
        log.warning("no_isolation", effect=f"instances run as {user} on this host")
        if self._guest_archive is not None and not self._guest_archive.is_file():
            raise ConfigurationError(
                f"The guest agent {self._guest_archive} is missing: make guest builds it"
            )
        self._ended = ended
        self._agents.ended = self._on_end
        if self._users is not None:
            await self._users.open(self._python)
        for vm in vms:
            process = self._agents.follow(vm["uuid"])
            if process is None or self._users is None:
                continue
            if user_of_process(process.pid) != self._users.of(vm):
                log.warning("instance_ended", uuid=vm["uuid"], reason="it did not run as its user")
                await self.stop(vm["uuid"], force=True, timeout=0)

    def about(self) -> dict[str, object]:
        """What keeps its instances apart."""
        return {"isolation": "user" if self._users is not None else "none"}

    async def close(self) -> None:
        """Stop following; processes keep running."""
        self._agents.close()

    def describe(self, vm: Vm) -> Vm:
        """Every interface has the loopback address; ``network_ip`` is the requested address."""
        nics: list[Nic] = [
            {**nic, "network_ip": nic.get("network_ip", nic.get("ip")), "ip": ADDRESS}
            for nic in vm["nics"]
        ]
        described: Vm = {**vm, "nics": nics, "zonepath": str(self._root(vm["uuid"]))}
        return described

    def _root(self, uuid: str) -> Path:
        return self._store.path(uuid) / "root"

    def _guest_root(self, path: Path, vm: Vm) -> GuestRoot:
        return GuestRoot(path, self._users.of(vm) if self._users is not None else 0)

    def _inside(self, uuid: str, argv: Sequence[str], directory: Path | None = None) -> list[str]:
        """The command that runs ``argv`` with the rights of an instance."""
        if self._users is None:
            return list(argv)
        return self._users.command(self._store.get(uuid), self._root(uuid), argv, directory)

    def _pid_file(self, uuid: str) -> Path:
        return self._store.path(uuid) / "agent.pid"

    def _is_agent(self, uuid: str, argv: list[str]) -> bool:
        # Not the programs that lead to it (a shell, setsid): between two of them, inside exec, a
        # process has no command line at all, and would look dead to a reader at that instant.
        return argv[1:4] == ["-c", _KEEPER, str(self._root(uuid))]

    def _on_end(self, uuid: str) -> None:
        self._pid_file(uuid).unlink(missing_ok=True)
        self._ended(uuid)

    async def make(self, vm: Vm) -> None:
        """Create the directory with the instance's files."""
        root_path = self._root(vm["uuid"])
        root_path.mkdir(mode=0o700, parents=True, exist_ok=True)
        for name in ("etc", "tmp", "var/log", "var/lib/vetro"):
            (root_path / name).mkdir(mode=0o700, parents=True, exist_ok=True)
        root = self._guest_root(root_path, vm)
        instance_files.write_identity(root, vm)
        instance_files.write_guest_agent(root, vm, self._guest_archive)
        if root.shift:
            await asyncio.to_thread(own_tree, root_path, root.shift)

    def _former(self, uuid: str) -> Path:
        return self._store.path(uuid) / "former"

    async def _put_aside(self, vm: Vm) -> None:
        await self.drop_former_root(vm)
        self._root(vm["uuid"]).rename(self._former(vm["uuid"]))

    async def remake_root(self, vm: Vm) -> None:
        """Put the directory aside, and make another one."""
        await self._put_aside(vm)
        await self.make(vm)

    async def restore_root(self, vm: Vm) -> None:
        """End the agent; what was put aside is the directory again."""
        await self.stop(vm["uuid"], force=True, timeout=0)
        # One that was started right before this agent's predecessor was killed has no pid file yet.
        await self._end_rest(vm["uuid"], -1)
        former = self._former(vm["uuid"])
        if former.is_dir():
            await asyncio.to_thread(remove_tree, self._root(vm["uuid"]))
            former.rename(self._root(vm["uuid"]))

    async def drop_former_root(self, vm: Vm) -> None:
        """Remove the directory that was put aside."""
        await asyncio.to_thread(remove_tree, self._former(vm["uuid"]))

    async def configure(self, before: Vm, vm: Vm) -> bool:
        """No limits are enforced; names are files."""
        instance_files.write_identity(self._guest_root(self._root(vm["uuid"]), vm), vm)
        return False

    async def files(self, vm: Vm) -> GuestRoot:
        """The directory."""
        return self._guest_root(self._root(vm["uuid"]), vm)

    def _kept(self, uuid: str, name: str) -> Path:
        return snapshot_path(self._store.path(uuid), name)

    async def snapshot(self, vm: Vm, name: str) -> None:
        """Copy the directory, sharing blocks where the file system can."""
        kept = self._kept(vm["uuid"], name)
        kept.parent.mkdir(mode=0o700, exist_ok=True)
        await copy_tree(self._root(vm["uuid"]), kept)

    async def rollback(self, vm: Vm, name: str) -> None:
        """Put the directory aside, and copy the snapshot in its place."""
        await self._put_aside(vm)
        await copy_tree(self._kept(vm["uuid"], name), self._root(vm["uuid"]))

    async def drop_snapshot(self, vm: Vm, name: str) -> None:
        """Remove the copy."""
        await asyncio.to_thread(remove_tree, self._kept(vm["uuid"], name))

    @contextlib.asynccontextmanager
    async def snapshot_files(self, vm: Vm, name: str) -> AsyncGenerator[GuestRoot, None]:
        """The copy."""
        yield self._guest_root(self._kept(vm["uuid"], name), vm)

    async def exec_command(self, uuid: str, request: ExecRequest) -> HostCommand:
        """The command itself, in the instance's directory."""
        root = self._root(uuid)
        directory = root / request.directory.lstrip("/") if request.directory else root
        argv = self._inside(uuid, request.command, directory)
        return HostCommand(argv, dict(request.environment), directory)

    async def stats(self, uuid: str) -> dict[str, object]:
        """Processor time and memory of the instance's processes."""
        process = self._agents.follow(uuid)
        pids = await asyncio.to_thread(_members, process.pid, self._root(uuid)) if process else []
        return process_stats(pids)

    async def start(self, vm: Vm) -> None:
        """Start the agent under a shell that starts it again when it ends, as an init does.

        The instance is not a child of this process: it outlives this agent, as a container does.
        """
        uuid = vm["uuid"]
        root = self._root(uuid)
        if not root.is_dir():
            raise DriverError(f"VM {uuid} has lost its files: {root} is gone", code="ENOENT")
        if self._users is not None:
            # Of an earlier version, or of another machine, whose ids were others.
            await asyncio.to_thread(own_tree, root, self._users.of(vm))
        archive = root / instance_files.ARCHIVE.lstrip("/")
        command = ["sleep", "86400"]
        if archive.exists():
            command = [
                self._python,
                *instance_files.agent_command(str(root)),
                "--root",
                str(root),
            ]
        console = self._store.path(uuid) / "console.log"
        started = await run(
            "/bin/sh",
            "-c",
            'log=$1; shift; (umask 077; : >>"$log"); setsid "$@" </dev/null >>"$log" 2>&1 & echo $!',
            "start",
            str(console),
            *self._inside(uuid, ["/bin/sh", "-c", _KEEPER, str(root), *command]),
            cwd=root,
            environment={
                "PATH": os.environ.get("PATH", "/usr/bin:/bin"),
                "HOME": str(root),
                # Scripts that would change a machine of their own must know that this one is
                # shared.
                "VETRO_DRIVER": "process",
                "TMPDIR": str(root / "tmp"),
                "VETRO_GUEST_ROOT": str(root),
            },
        )
        write_bytes(self._pid_file(uuid), started.output.strip().encode())
        # It becomes the shell that keeps the agent in a few steps: look until it has.
        followed = self._agents.follow(uuid)
        proc = Path(f"/proc/{started.output.strip()}")
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_START_SECONDS):
                while followed is None and proc.exists():
                    await asyncio.sleep(0.01)
                    followed = self._agents.follow(uuid)
        if followed is None:
            raise DriverError(
                f"VM {uuid} ended right after its start; see {console}", code="EFAILED"
            )

    async def stop(self, uuid: str, *, force: bool, timeout: float) -> None:
        """End the agent and everything it started in its session."""
        process = self._agents.follow(uuid)
        if process is None:
            return
        if not force and timeout > 0:
            # The agent may end gracefully; the shell above it is killed at once.
            for pid in await asyncio.to_thread(_members, process.pid, self._root(uuid)):
                _signal(pid, signals.SIGTERM)
            await process.wait(timeout)
        process.signal(signals.SIGKILL)
        if not await process.wait(10):
            raise DriverError(f"VM {uuid}: process {process.pid} does not end")
        await self._end_rest(uuid, process.pid)

    async def _end_rest(self, uuid: str, session: int) -> None:
        """End what the instance's plans left running: same session, or working in its directory."""
        rest = [
            FollowedProcess.attach(pid, lambda _argv: True, lambda: None)
            for pid in await asyncio.to_thread(_members, session, self._root(uuid))
        ]
        await end_all(uuid, rest)

    async def kill(self, uuid: str, signal: int) -> None:
        """Signal the agent."""
        process = self._agents.follow(uuid)
        if process is None:
            raise no_process(uuid)
        process.signal(signal)

    async def state(self, uuid: str) -> RunState:
        """Whether the agent's process lives."""
        process = self._agents.follow(uuid)
        if process is None:
            return RunState("installed")
        return RunState.now("running", process.pid)

    async def remove(self, uuid: str) -> None:
        """End the process and remove the directory."""
        await self.stop(uuid, force=True, timeout=0)
        self._agents.forget(uuid)
        await self._end_rest(uuid, -1)
        await asyncio.to_thread(remove_tree, self._root(uuid))

    async def processes(self, uuid: str) -> dict[str, object]:
        """The agent and what it started."""
        process = self._agents.follow(uuid)
        if process is None:
            return {}
        pids = await asyncio.to_thread(_members, process.pid, self._root(uuid))
        return {str(pid): {"pid": pid, "command": command_line(pid)} for pid in pids}

    async def execute(
        self, uuid: str, command: Sequence[str], environment: Mapping[str, str], timeout: float
    ) -> ExecResult:
        """Run a command in the instance's directory."""
        finished = await run(
            *self._inside(uuid, command),
            check=False,
            timeout=timeout,
            cwd=self._root(uuid),
            environment=environment,
        )
        return ExecResult(finished.status, finished.output, finished.errors)

    async def usage(self, uuid: str) -> DiskUse:
        """Bytes in the directory."""
        return DiskUse(await tree_bytes(self._root(uuid)))


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError) as error:
        log.info("process_gone", pid=pid, error=str(error))


def _members(session: int, root: Path) -> list[int]:
    """Processes of a session, and processes whose working directory is below ``root``."""
    found: list[int] = []
    for pid, _argv in processes_by_pid():
        try:
            in_session = os.getsid(pid) == session
            directory = os.readlink(f"/proc/{pid}/cwd")
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        if in_session or Path(directory).is_relative_to(root):
            found.append(pid)
    return sorted(found)
