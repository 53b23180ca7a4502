"""The seed disk of a VM: its identity, addresses and user data, on a small read-only disk.

It is a NoCloud disk of cloud-init (label ``cidata``: ``meta-data``, ``user-data``, ``vendor-data``,
``network-config``), so any image with cloud-init can read it. It also has a directory ``vetro`` for
Vetro's own images: ``start``, a shell script that their initial file system runs before the guest's
init, and ``files.tar``, which is unpacked over the root. The seed is written again at each start
from the VM's record.
"""

from __future__ import annotations

import contextlib
import io
import ipaddress
import json
import shlex
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vetro.node.commands import run
from vetro.node.errors import CommandFailed, DriverError
from vetro.node.guest import instance_files
from vetro.node.guest.former_machine import forgetting_script
from vetro.node.guest.root import GuestRoot
from vetro.node.images.vm_kernel import SEED_LABEL
from vetro.node.vm_records import Nic, Vm


class FileBundle(GuestRoot):
    """Files for a root file system that the host cannot access: collected, then packed."""

    def __init__(self) -> None:
        super().__init__(Path("/nonexistent"))
        self.files: dict[str, tuple[bytes, int]] = {}

    def write(self, name: str, data: bytes, mode: int = 0o644) -> None:
        """Add a file with the absolute ``name``."""
        self.files[name.lstrip("/")] = (data, mode)

    def pack(self) -> bytes:
        """A tar of all files, owned by root."""
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as tar:
            for name, (data, mode) in sorted(self.files.items()):
                member = tarfile.TarInfo(name)
                member.size, member.mode = len(data), mode
                tar.addfile(member, io.BytesIO(data))
        return buffer.getvalue()


async def write_seed(
    target: Path,
    vm: Vm,
    *,
    guest_archive: Path | None,
    resolvers: Sequence[str] = (),
) -> None:
    """Replace the seed disk ``target`` by one for ``vm``. ``resolvers``: if the VM names none.

    Errors: ``DriverError`` when it cannot be created.
    """
    with tempfile.TemporaryDirectory(prefix=".seed-", dir=target.parent) as scratch:
        work = Path(scratch)
        for name, data in seed_files(vm, guest_archive, resolvers).items():
            path = work / "disk" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
        image = work / "seed.iso"
        try:
            await pack_seed(work / "disk", image)
        except CommandFailed as error:
            raise DriverError(f"The seed of VM {vm['uuid']} cannot be created: {error}") from error
        image.chmod(0o600)
        image.replace(target)


async def pack_seed(directory: Path, image: Path) -> None:
    """Make a seed disk of a directory. Errors: ``CommandFailed``."""
    await run(
        "genisoimage", "-quiet", "-output", str(image), "-volid", SEED_LABEL,
        "-joliet", "-rock", str(directory),
    )  # fmt: skip


def seed_files(
    vm: Vm, guest_archive: Path | None, resolvers: Sequence[str] = ()
) -> dict[str, bytes]:
    """The files of the seed disk, by name."""
    metadata: Mapping[str, Any] = vm.get("customer_metadata", {})
    # cloud-init has its own key, for metadata that has both.
    user_data = metadata.get("cloud-init:user-data", metadata.get("user-data")) or ""
    bundle = FileBundle()
    instance_files.write_identity(bundle, vm, list(resolvers))
    # The script alone: what runs it is up to the image, or to the seed's script.
    instance_files.write_first_start(bundle, instance_files.Init.NONE)
    with_agent = instance_files.write_guest_agent(bundle, vm, guest_archive)
    keys = authorized_keys(vm)
    if keys:
        bundle.write("/root/.ssh/authorized_keys", "".join(f"{k}\n" for k in keys).encode(), 0o600)
    files = {
        "meta-data": _json(_meta_data(vm, keys)),
        "user-data": str(user_data).encode(),
        "network-config": _json(network_config(vm, resolvers)),
        "vetro/start": start_script(vm).encode(),
        "vetro/files.tar": bundle.pack(),
        "vetro/dhcp": _DHCP_SCRIPT.encode(),
    }
    if with_agent and guest_archive is not None:
        files["vendor-data"] = _VENDOR_SCRIPT.encode()
        files["vetro/vetro-guest.pyz"] = guest_archive.read_bytes()
    else:
        files["vendor-data"] = b"#cloud-config\n{}\n"
    return files


def _json(value: object) -> bytes:
    """JSON is valid YAML, and needs no quoting rules."""
    return json.dumps(value, indent=1).encode() + b"\n"


def authorized_keys(vm: Vm) -> list[str]:
    """The lines of ``customer_metadata.root_authorized_keys``."""
    text = str(vm.get("customer_metadata", {}).get("root_authorized_keys") or "")
    return [line.strip() for line in text.splitlines() if line.strip()]


def _meta_data(vm: Vm, keys: Sequence[str]) -> dict[str, object]:
    hostname = str(vm["hostname"])
    domain = str(vm.get("dns_domain") or "local")
    return {
        "instance-id": vm["uuid"],
        "local-hostname": hostname if "." in hostname else f"{hostname}.{domain}",
        **({"public-keys": list(keys)} if keys else {}),
    }


def network_config(vm: Vm, resolvers: Sequence[str] = ()) -> dict[str, object]:
    """The interfaces in cloud-init's format, matched by MAC address and named eth0, eth1 …

    Uses version 1 of the format, which every distribution's cloud-init turns into its own files
    with the default route in the right place. With version 2, Debian's ``/etc/network/interfaces``
    gets a command that small images lack, and systemd-networkd a name that no interface has.
    """
    config: list[dict[str, object]] = []
    for number, nic in enumerate(vm.get("nics", [])):
        entry: dict[str, Any] = {
            "type": "physical", "name": f"eth{number}", "mac_address": str(nic["mac"]).lower(),
        }  # fmt: skip
        if mtu := nic.get("mtu"):
            entry["mtu"] = int(mtu)
        entry["subnets"] = _subnets(vm, nic, resolvers)
        config.append(entry)
    return {"version": 1, "config": config}


def _subnets(vm: Vm, nic: Nic, resolvers: Sequence[str]) -> list[dict[str, object]]:
    addresses = nic_addresses(nic)
    if not addresses:
        # 'addrconf' is IPv6 autoconfiguration, anything else is DHCP.
        return [{"type": "ipv6_slaac" if nic.get("ip") == "addrconf" else "dhcp4"}]
    gateway = primary_gateway(nic)
    subnets: list[dict[str, object]] = []
    for address in addresses:
        kind = "static" if address.version == 4 else "static6"
        subnet: dict[str, object] = {"type": kind, "address": str(address)}
        if gateway is not None and gateway.version == address.version:
            subnet["gateway"] = str(gateway)
            gateway = None
        subnets.append(subnet)
    if not nic.get("primary"):
        return subnets
    names = [*(vm.get("resolvers") or nic.get("dns") or resolvers)]
    if names:
        subnets[0]["dns_nameservers"] = names
        subnets[0]["dns_search"] = [str(vm.get("dns_domain") or "local")]
    routes = _routes(vm)
    if routes:
        subnets[0]["routes"] = routes
    return subnets


def _routes(vm: Vm) -> list[dict[str, object]]:
    """The record's routes whose ends are addresses; others have names of another system."""
    found: list[dict[str, object]] = []
    given: Mapping[str, object] = vm.get("routes") or {}
    for target, via in sorted(given.items()):
        with contextlib.suppress(ValueError):
            network = ipaddress.ip_network(str(target))
            gateway = ipaddress.ip_address(str(via))
            found.append(
                {
                    "network": str(network.network_address),
                    "prefix": network.prefixlen,
                    "gateway": str(gateway),
                }
            )
    return found


def nic_addresses(
    nic: Nic,
) -> list[ipaddress.IPv4Interface | ipaddress.IPv6Interface]:
    """The static addresses of an interface with their prefixes. Errors: ``DriverError``."""
    given = [str(ip) for ip in (nic.get("ips") or [nic.get("ip")]) if ip]
    found: list[ipaddress.IPv4Interface | ipaddress.IPv6Interface] = []
    for text in given:
        if text in ("dhcp", "addrconf"):
            continue
        try:
            if "/" not in text:
                mask = str(nic.get("netmask") or "") or ("64" if ":" in text else "24")
                text = f"{text}/{64 if ':' in text and '.' in mask else mask}"
            found.append(ipaddress.ip_interface(text))
        except ValueError as error:
            raise _unusable(nic, "address", error) from error
    return found


def primary_gateway(
    nic: Nic,
) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """The default route through an interface; only the primary one has it."""
    given = nic.get("gateway")
    if not given or not nic.get("primary"):
        return None
    try:
        return ipaddress.ip_address(str(given))
    except ValueError as error:
        raise _unusable(nic, "gateway", error) from error


def _unusable(nic: Nic, what: str, error: ValueError) -> DriverError:
    return DriverError(
        f"Interface {nic['mac']} has no usable {what}: {error}",
        code="EINVAL",
        rest_code="InvalidPayload",
    )


def start_script(vm: Vm) -> str:
    """The script for Vetro's initial file system (busybox' shell; ``$ROOT``: the guest's root)."""
    lines = [
        "# Made by the compute node's agent for this start.",
        *forgetting_script(str(vm["uuid"])).splitlines(),
        'tar -xf /seed/vetro/files.tar -C "$ROOT"',
        'chmod 700 "$ROOT/root/.ssh" 2>/dev/null',
        *instance_files.first_start_lines().splitlines(),
        "ip link set lo up",
        "device_of() {",
        "  for path in /sys/class/net/*; do",
        '    [ "$(cat "$path/address")" = "$1" ] && echo "${path##*/}"',
        "  done",
        "}",
    ]
    for nic in vm.get("nics", []):
        lines.append(f"device=$(device_of {shlex.quote(str(nic['mac']))})")
        addresses = nic_addresses(nic)
        commands: list[str] = []
        if mtu := nic.get("mtu"):
            commands.append(f'ip link set "$device" mtu {int(mtu)}')
        commands.append('ip link set "$device" up')
        commands += [f'ip address add {address} dev "$device"' for address in addresses]
        gateway = primary_gateway(nic)
        if gateway is not None and addresses:
            inside = any(gateway in address.network for address in addresses)
            if not inside:
                commands.append(f'ip route add {gateway} dev "$device"')
            commands.append(f'ip route add default via {gateway} dev "$device"')
        if not addresses and nic.get("ip") != "addrconf":
            # An ISO created without owners may lack execute permission: the copy has it.
            commands.append("cp /seed/vetro/dhcp /bin/dhcp && chmod 755 /bin/dhcp")
            commands.append('udhcpc -q -n -t 5 -i "$device" -s /bin/dhcp 2>/dev/null')
        lines.append('if [ -n "$device" ]; then')
        lines += [f"  {command}" for command in commands]
        lines.append("fi")
    routes: Mapping[str, object] = vm.get("routes") or {}
    lines += [
        f"ip route add {shlex.quote(target)} via {shlex.quote(str(via))}"
        for target, via in sorted(routes.items())
    ]
    return "".join(f"{line}\n" for line in lines)


# busybox' DHCP client calls it with the values it received.
_DHCP_SCRIPT = """\
#!/bin/busybox sh
[ "$1" = bound ] || [ "$1" = renew ] || exit 0
ip address flush dev "$interface"
ip address add "$ip/${mask:-24}" dev "$interface"
[ -z "$router" ] || ip route replace default via "${router%% *}" dev "$interface"
[ -z "$dns" ] || for server in $dns; do echo "nameserver $server"; done > /root/etc/resolv.conf
"""

AGENT_UNIT = f"""\
[Unit]
Description=Vetro guest agent
After=network.target

[Service]
ExecStartPre=/bin/sh -c 'while [ ! -s {instance_files.CONFIG} ]; do sleep 1; done'
ExecStart=/usr/bin/env python3 {instance_files.ARCHIVE} --config-file {instance_files.CONFIG}
TimeoutStartSec=infinity
Restart=always
RestartSec=2
# A plan that runs outlives the agent: the next one finds it and sends its result.
KillMode=process

[Install]
WantedBy=multi-user.target
"""

# For images with cloud-init, which applies the user data itself: the agent starts after the user
# data has written its configuration.
_VENDOR_SCRIPT = f"""\
#!/bin/sh
set -e
seed=$(mktemp -d)
mount -o ro LABEL={SEED_LABEL} "$seed" || mount -o ro /dev/disk/by-label/{SEED_LABEL} "$seed"
install -D -m 755 "$seed/vetro/vetro-guest.pyz" {instance_files.ARCHIVE}
umount "$seed"
rmdir "$seed"
cat > /etc/systemd/system/vetro-guest.service <<'UNIT'
{AGENT_UNIT}UNIT
systemctl daemon-reload
systemctl enable vetro-guest.service
systemctl start --no-block vetro-guest.service
"""
