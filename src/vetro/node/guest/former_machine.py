"""What belongs to one machine alone, and does not go into an image that is made of it.

An image of a machine would have its agent's token, its host keys, its logs. A second machine of such an
image took the first one's plans, let in its owner's key and never applied user data of its own.
"""

from __future__ import annotations

from vetro.node.guest.root import GuestRoot

INSTANCE = "/var/lib/vetro/instance"
"""Its text is the uuid of the VM that the root file system belongs to."""

OF_ONE_MACHINE = (
    # The state of the first start, the agent's token and its plans.
    "var/lib/vetro/*", "etc/murano/agent.conf", "var/murano/plans",
    # Who may log in, and what the machine shows to those who do.
    "root/.ssh/authorized_keys", "etc/ssh/ssh_host_*",
    "etc/ssl/private/ssl-cert-snakeoil.key", "etc/ssl/certs/ssl-cert-snakeoil.pem",
    "etc/machine-id", "var/lib/dbus/machine-id",
    "var/lib/systemd/random-seed", "var/lib/urandom/random-seed",
    "var/lib/dhcp/*", "var/lib/dhcpcd/*", "root/.bash_history",
    # Files of logs. Their directories stay: services do not make them.
    "var/log/*.log*", "var/log/*/*.log*", "var/log/journal/*", "var/log/syslog*", "var/log/messages*",
    "var/log/wtmp*", "var/log/btmp*", "var/log/lastlog", "var/log/dmesg*",
)  # fmt: skip
"""Patterns below the root, as a shell expands them."""

_MARKS = (INSTANCE, "/var/lib/vetro/bootstrap.json", "/var/lib/vetro/user-data")


def forget_former(root: GuestRoot) -> None:
    """Remove what belongs to another machine from a root that was just made of an image.

    Does nothing where no machine of ours has left a mark: an image may bring what looks the same.
    """
    if any(root.exists(mark) for mark in _MARKS):
        for pattern in OF_ONE_MACHINE:
            root.remove_matching("/" + pattern)


def forgetting_script(uuid: str) -> str:
    """The same in the initial file system of a VM (busybox' shell; ``$ROOT``), before its files are written.

    A root without a mark is left alone: it is new, or of a machine that is older than the marks.
    """
    return (
        f'former=$(cat "$ROOT{INSTANCE}" 2>/dev/null)\n'
        f'if [ -n "$former" ] && [ "$former" != {uuid} ]; then\n{removing_script()}fi\n'
    )


def removing_script() -> str:
    """Shell lines that remove it below ``$ROOT``; files are overwritten first."""
    names = " ".join(f'"$ROOT"/{pattern}' for pattern in OF_ONE_MACHINE)
    return (
        f"for name in {names}; do\n"
        '  if [ -f "$name" ] && [ ! -L "$name" ]; then\n'
        '    dd if=/dev/zero of="$name" bs=4096 conv=notrunc'
        ' count=$((($(stat -c %s "$name") + 4095) / 4096)) 2>/dev/null\n'
        "  fi\n"
        '  rm -rf "$name"\n'
        "done\n"
        '[ ! -d "$ROOT/etc/systemd" ] || : > "$ROOT/etc/machine-id"\n'
        "sync\n"
    )
