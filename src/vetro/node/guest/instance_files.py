"""The files that are written into an instance's root file system before its first start.

Host name, name servers, the user data, the guest agent, and the scripts that start the agent
(docs/architecture.md, "vetro.guest and how it gets into an instance").
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any, cast

from vetro.node.guest.former_machine import INSTANCE
from vetro.node.guest.root import GuestRoot

ARCHIVE = "/opt/vetro/vetro-guest.pyz"
USER_DATA = "/var/lib/vetro/user-data"
CONFIG = "/etc/murano/agent.conf"

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
START = "/opt/vetro/start-agent"
BOOT = "/opt/vetro/boot"
SHUTDOWN = "/opt/vetro/shutdown"
FIRST_START = "/opt/vetro/first-start"
INIT = "/opt/vetro/init"
#: Where the distribution's service scripts read overrides of their functions.
SERVICE_HOOKS = "/lib/lsb/init-functions.d"
_UNITS = "/etc/systemd/system"
_WANTED = "multi-user.target.wants"
_FIRST_START_NAME = "vetro-first-start.service"


class Init(Enum):
    """The program that starts the image's services."""

    SYSTEMD = "systemd"
    SYSVINIT = "sysvinit"
    BUSYBOX = "busybox"
    NONE = "none"


def detect_init(root: GuestRoot) -> Init:
    """The init system of an image."""
    name = "/sbin/init"
    for _ in range(8):
        target = root.resolve(name)
        if target is None:
            return Init.NONE
        if "systemd" in target:
            return Init.SYSTEMD
        if target.rsplit("/", 1)[-1] == "busybox":
            return Init.BUSYBOX
        if target == name:
            break
        name = target
    return Init.SYSVINIT if root.exists("/etc/init.d/rc") else Init.NONE


def init_command(init: Init) -> str:
    """The program that the container runs as process 1."""
    return INIT if init is Init.NONE else "/sbin/init"


def write_identity(
    root: GuestRoot, vm: Mapping[str, Any], fallback_resolvers: list[str] | None = None
) -> None:
    """Write whose root it is, host name, hosts, name servers. Names that do not resolve make starts slow."""
    hostname = str(vm["hostname"])
    domain = str(vm.get("dns_domain") or "local")
    short = hostname.split(".")[0]
    full = hostname if "." in hostname else f"{hostname}.{domain}"
    primary = next((nic for nic in vm["nics"] if nic.get("primary")), None)
    address = address_of(primary) or "127.0.1.1"
    root.write(INSTANCE, f"{vm['uuid']}\n".encode())
    root.write("/etc/hostname", f"{hostname}\n".encode())
    root.write(
        "/etc/hosts",
        (
            "127.0.0.1\tlocalhost\n"
            "::1\tlocalhost ip6-localhost ip6-loopback\n"
            f"{address}\t{' '.join(dict.fromkeys([full, hostname, short]))}\n"
        ).encode(),
    )
    given = cast("list[str]", vm.get("resolvers") or (primary or {}).get("dns") or [])
    resolvers = given or fallback_resolvers or []
    if resolvers:
        text = f"search {domain}\n" + "".join(f"nameserver {address}\n" for address in resolvers)
        root.write("/etc/resolv.conf", text.encode())


def host_resolvers() -> list[str]:
    """The machine's name servers that an instance can reach: none on its loopback."""
    for name in ("/etc/resolv.conf", "/run/systemd/resolve/resolv.conf"):
        try:
            text = Path(name).read_text(encoding="utf-8", errors="replace")
        except FileNotFoundError:
            continue
        found: list[str] = re.findall(r"^\s*nameserver\s+([0-9.]+)\s*$", text, re.MULTILINE)
        reachable = [address for address in found if not address.startswith("127.")]
        if reachable:
            return reachable
    return []


def address_of(nic: Mapping[str, object] | None) -> str | None:
    """The static address of an interface; ``None`` for ``dhcp``, ``addrconf`` or no address."""
    ip = str((nic or {}).get("ip") or "").split("/")[0]
    try:
        return str(ipaddress.ip_address(ip))
    except ValueError:
        return None


def write_guest_agent(root: GuestRoot, vm: Mapping[str, Any], archive: Path | None) -> bool:
    """Write the user data and the agent; returns whether the agent must be started."""
    user_data = vm.get("customer_metadata", {}).get("user-data")
    if user_data is None:
        return False
    root.write(USER_DATA, str(user_data).encode(), 0o600)
    if archive is None:
        return False
    root.write(ARCHIVE, archive.read_bytes(), 0o755)
    return True


def agent_command(prefix: str = "") -> list[str]:
    """The agent's command line, with ``prefix`` before its paths."""
    return [
        f"{prefix}{ARCHIVE}",
        "--bootstrap",
        f"{prefix}{USER_DATA}",
        "--config-file",
        f"{prefix}{CONFIG}",
    ]


def write_init(root: GuestRoot, init: Init, *, with_agent: bool) -> None:
    """Set up the start of a container's instance: services, then the guest agent.

    sysvinit and busybox get their own inittab: no terminals, no file system checks, no udev, so
    that a container runs its first service within milliseconds.
    """
    if with_agent:
        root.write(START, start_script().encode(), 0o755)
    write_first_start(root, init)
    if init is Init.SYSTEMD:
        if with_agent:
            write_unit(root)
    elif init is Init.SYSVINIT:
        root.write(BOOT, _SYSVINIT_BOOT.encode(), 0o755)
        root.write(SHUTDOWN, shutdown_script("", _HALT).encode(), 0o755)
        agent = f"vg:2345:respawn:{START}\n" if with_agent else ""
        root.write("/etc/inittab", (_INITTAB + agent).encode())
        quicken_services(root)
    elif init is Init.BUSYBOX:
        agent = f"::respawn:{START}\n" if with_agent else ""
        services = "::sysinit:/etc/init.d/rcS\n" if root.exists("/etc/init.d/rcS") else ""
        services = f"::sysinit:{FIRST_START}\n{services}"
        root.write("/etc/inittab", (services + agent + "::shutdown:/bin/true\n").encode())
    else:
        start = f"while :; do {START}; done &\n" if with_agent else ""
        body = f"trap 'exit 0' TERM INT PWR\n{start}while :; do sleep 86400 & wait $!; done\n"
        root.write(INIT, plain_init(body).encode(), 0o755)


def quicken_services(root: GuestRoot) -> None:
    """Make the service scripts of a sysvinit image notice at once that their process runs.

    They check, sleep a whole second and check again. Apache's process writes its pid file a moment
    after its command returns, so in about every second instance the guest agent, which starts after
    the services, would begin a second later.
    """
    if root.exists(SERVICE_HOOKS):
        root.write(f"{SERVICE_HOOKS}/60-vetro-start", _EARLY_LOOKS.encode())


def start_script(before: str = "") -> str:
    """The script that starts the guest agent, after the shell lines ``before``."""
    command = " ".join(agent_command())
    # The pause keeps init from giving up on an agent that fails at once. When told to stop, the
    # script stops the agent: an init may end only this process and leave a running plan alone.
    return f"""\
#!/bin/sh
export PATH={PATH} HOME=/root
{before}stopped=
trap 'stopped=1; kill -TERM "$agent" 2> /dev/null' TERM
run_agent() {{
  exec python3 {command}
}}
run_agent &
agent=$!
wait "$agent"
status=$?
while kill -0 "$agent" 2> /dev/null; do
  wait "$agent"
  status=$?
done
echo "vetro guest agent ended with status $status"
[ -n "$stopped" ] || sleep 2
"""


def write_unit(root: GuestRoot) -> None:
    """Let systemd run ``start_script``."""
    _enable(root, "vetro-guest.service", _UNIT)


def write_first_start(root: GuestRoot, init: Init) -> None:
    """What a machine makes for itself when it starts for the first time, before its services."""
    root.write(FIRST_START, _FIRST_START.encode(), 0o755)
    if init is Init.SYSTEMD:
        # systemd makes an id of its own for an empty file.
        if not root.read("/etc/machine-id"):
            root.write("/etc/machine-id", b"", 0o444)
        _enable(root, _FIRST_START_NAME, _FIRST_START_UNIT)


def first_start_lines() -> str:
    """Shell lines in the initial file system of a VM (``$ROOT``): its init runs ``FIRST_START``.

    Images that were built before there was such a script do not run it. Others are left alone.
    """
    return f"""\
boot="$ROOT{BOOT}" units="$ROOT{_UNITS}" name={_FIRST_START_NAME}
if [ -f "$boot" ] && ! grep -q {FIRST_START} "$boot"; then
  echo {FIRST_START} >> "$boot"
fi
# A link is a unit that somebody has masked.
if [ -d "$ROOT/etc/systemd" ] && [ ! -e "$units/$name" ] && [ ! -L "$units/$name" ]; then
  mkdir -p "$units/{_WANTED}"
  cat > "$units/$name" <<'UNIT'
{_FIRST_START_UNIT}UNIT
  ln -sf "{_UNITS}/$name" "$units/{_WANTED}/$name"
fi
"""


def _enable(root: GuestRoot, name: str, unit: str) -> None:
    root.write(f"{_UNITS}/{name}", unit.encode())
    root.link(f"{_UNITS}/{_WANTED}/{name}", f"{_UNITS}/{name}")


def shutdown_script(before: str, halt: str) -> str:
    """Script for sysvinit: stop services, run the lines ``before``, then ``halt`` (-r: reboot)."""
    return f"""\
#!/bin/sh
# Stops the services, then the instance (with -r: starts it again).
export PATH={PATH}
level=0
[ "$1" = -r ] && level=6
for script in /etc/rc$level.d/K*; do
  case "$script" in
    *sendsigs|*umount*|*hwclock*|*urandom|*halt|*reboot|*brightness|*networking) ;;
    *) [ -x "$script" ] && "$script" stop ;;
  esac
done
{before}[ "$1" = -r ] && exec /sbin/reboot -d -f
exec {halt}
"""


def plain_init(body: str) -> str:
    """Process 1 of an image that has none."""
    return f"""\
#!/bin/sh
# The image has no init: this is process 1.
export PATH={PATH} HOME=/root
{body}"""


_HALT = "/sbin/halt -d -f"

_INITTAB = f"""\
# Written by the compute node's agent: services of runlevel 2, then the guest agent.
id:2:initdefault:
si::sysinit:{BOOT}
l0:0:wait:{SHUTDOWN}
l2:2345:wait:/etc/init.d/rc 2
l6:6:wait:{SHUTDOWN} -r
pf::powerwait:/sbin/shutdown -h now
"""

_SYSVINIT_BOOT = f"""\
#!/bin/sh
# What a container still needs of /etc/rcS.d.
mkdir -p /run/lock /run/sendsigs.omit.d
chmod 1777 /run/lock
: > /run/utmp
{FIRST_START}
"""

_FIRST_START = f"""\
#!/bin/sh
# Keys that belong to one machine: no image has them, each machine makes its own before its services start.
export PATH={PATH}
if [ -x /usr/sbin/sshd ] && [ -x /usr/bin/ssh-keygen ]; then
  set -- /etc/ssh/ssh_host_*_key
  [ -e "$1" ] || ssh-keygen -A > /dev/null
fi
if [ -x /usr/sbin/make-ssl-cert ] && [ ! -e /etc/ssl/private/ssl-cert-snakeoil.key ]; then
  make-ssl-cert generate-default-snakeoil --force-overwrite
fi
exit 0
"""

_FIRST_START_UNIT = f"""\
[Unit]
Description=Keys that belong to this machine alone
DefaultDependencies=no
After=local-fs.target
Before=basic.target shutdown.target
Conflicts=shutdown.target

[Service]
Type=oneshot
ExecStart={FIRST_START}

[Install]
WantedBy=multi-user.target
"""

_EARLY_LOOKS = """\
# Written by the compute node's agent, read by every service script. When the instance starts, a
# script that waits for its process in steps of a second takes shorter steps first and longer ones
# then: ten steps are ten seconds, as before.
if [ "${1:-}" = start ] && [ -n "${RUNLEVEL:-}" ]; then
  vetro_steps=0
  sleep() {
    if [ "$*" != 1 ]; then
      command sleep "$@"
      return
    fi
    vetro_steps=$((vetro_steps + 1))
    case $vetro_steps in
      1) command sleep 0.05 ;;
      2) command sleep 0.1 ;;
      3) command sleep 0.2 ;;
      4) command sleep 0.4 ;;
      5 | 6 | 7 | 8 | 9) command sleep 1.6 ;;
      10) command sleep 1.25 ;;
      *) command sleep 1 ;;
    esac
  }
fi
"""

_UNIT = f"""\
[Unit]
Description=Vetro guest agent
After=network.target multi-user.target

[Service]
ExecStart={START}
Restart=always
RestartSec=1
# A plan that runs outlives the agent: the next one finds it and sends its result.
KillMode=process

[Install]
WantedBy=multi-user.target
"""
