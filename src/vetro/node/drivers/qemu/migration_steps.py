"""Both ends of a migration, as ``machine_migrate`` requests them (``migration`` does the work)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Protocol

from vetro.node.drivers.qemu.daemon import LibvirtDaemon
from vetro.node.drivers.qemu.libvirt import Libvirt
from vetro.node.drivers.qemu.migration import Receiver, Sender
from vetro.node.errors import DriverError
from vetro.node.vm_objects import MachineStore
from vetro.node.vm_records import Vm


class Node(Protocol):
    """What a migration needs from the hypervisor."""

    async def connection(self) -> Libvirt:
        """libvirt, as soon as it can be used."""
        ...

    async def prepare(self, vm: Vm) -> None:
        """Prepare everything a VM needs to start here."""
        ...

    def running(self, uuid: str) -> bool:
        """Whether a VM runs here."""
        ...

    def arrive(self, vm: Vm) -> None:
        """Announce in the networks that a VM now runs here."""
        ...


class Moves:
    """The migrations from and to one agent."""

    def __init__(
        self, store: MachineStore, daemon: LibvirtDaemon, node: Node, *, prefix: str, vnc_host: str
    ) -> None:
        self._store = store
        self._daemon = daemon
        self._node = node
        self._prefix = prefix
        self._vnc_host = vnc_host
        self._receivers: dict[str, Receiver] = {}

    async def close(self) -> None:
        """Stop waiting for VMs."""
        for receiver in self._receivers.values():
            await receiver.close()
        self._receivers.clear()

    async def receive(self, vm: Vm) -> dict[str, object]:
        """Listen for a VM that is stopped here; ``{pid, host, port, token}``."""
        uuid = vm["uuid"]
        if self._node.running(uuid):
            raise DriverError(
                f"VM {uuid} runs on this node: only a stopped one can be received",
                rest_code="VmAlreadyRunning",
            )
        await self._node.connection()
        await self._node.prepare(vm)
        old = self._receivers.pop(uuid, None)
        if old is not None:
            await old.close()

        def arrived(record: Mapping[str, Any]) -> None:
            kept = self._store.get(uuid)
            if kept is not None:
                self._store.save({**kept, "snapshots": list(record.get("snapshots", []))})

        def landed() -> bool:
            if not self._node.running(uuid):
                return False
            self._node.arrive(vm)
            return True

        receiver = Receiver(
            vm, self._store.path(uuid), self._daemon,
            {"prefix": self._prefix, "vnc_host": self._vnc_host}, arrived, landed,
        )  # fmt: skip
        port = await receiver.start(self._vnc_host)
        self._receivers[uuid] = receiver
        return {"pid": os.getpid(), "host": self._vnc_host, "port": port, "token": receiver.token}

    async def send(self, vm: Vm, params: Mapping[str, object]) -> dict[str, object]:
        """Move a VM to a node that listens for it; ``{pid, host, port, transferred}``."""
        uuid = vm["uuid"]
        running = self._node.running(uuid)
        if running and vm.get("snapshots"):
            raise DriverError(
                f"VM {uuid} has snapshots, which do not move with a running VM: delete them, or"
                " stop it first",
                rest_code="VmHasSnapshots",
            )
        sender = Sender(
            vm, self._store.path(uuid), self._daemon, await self._node.connection(),
            str(params.get("host")), int(str(params.get("port") or 0)),
            str(params.get("token") or ""),
        )  # fmt: skip
        where = {"pid": os.getpid(), "host": self._vnc_host, "port": 0}
        if not running:
            return {**where, "transferred": await sender.send_stopped()}
        transferred = await sender.send_running()
        # The other node has it: it must not start here again, however the migration ends.
        record = self._store.get(uuid)
        if record is not None:
            self._store.save({**record, "autoboot": False, "do_not_inventory": True})
        return {**where, "transferred": transferred}
