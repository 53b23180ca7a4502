"""The host's ends of a virtual machine's network interfaces."""

from __future__ import annotations

import contextlib
from pathlib import Path

from vetro.node.errors import DriverError
from vetro.node.guest.instance_files import address_of
from vetro.node.network.announce import announce
from vetro.node.network.names import bridge_name, host_interface_name
from vetro.node.vm_records import Vm


def check_networks(vm: Vm, prefix: str) -> None:
    """Check that the networks of a VM are on this node. Errors: ``NetworkNotFound``."""
    for nic in vm["nics"]:
        bridge = bridge_name(prefix, str(nic.get("network_uuid")))
        if not Path("/sys/class/net", bridge).exists():
            raise DriverError(
                f"Network {nic.get('network_uuid')} is not on this node: apply the networks"
                f" (network_apply) before VM {vm['uuid']} is started",
                rest_code="NetworkNotFound",
            )


def introduce(vm: Vm, prefix: str) -> None:
    """Let the networks know a VM that now runs here."""
    for nic in vm["nics"]:
        # An instance that contacts its own floating address receives its packets back.
        hairpin = Path(
            "/sys/class/net", host_interface_name(prefix, str(nic["mac"])), "brport/hairpin_mode"
        )
        with contextlib.suppress(FileNotFoundError):
            hairpin.write_text("1")
        address = address_of(nic)
        if address is not None:
            announce(bridge_name(prefix, str(nic.get("network_uuid"))), nic["mac"], address)
