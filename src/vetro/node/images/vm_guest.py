"""What a built VM image contains besides its packages: how it boots, stops and is reached.

The init of container images is sysvinit (docs/decisions/0004), as is that of VM images. A VM needs
more than a container: it mounts the kernel's file systems, reacts to the power button, has a
terminal on the serial line, and powers itself off. The interfaces are up before init starts
(``qemu_seed``).
"""

from __future__ import annotations

from vetro.node.guest.instance_files import (
    BOOT,
    CONFIG,
    FIRST_START,
    INIT,
    PATH,
    SHUTDOWN,
    START,
    Init,
    detect_init,
    plain_init,
    quicken_services,
    shutdown_script,
    start_script,
    write_first_start,
    write_unit,
)
from vetro.node.guest.root import GuestRoot

_BUTTON = "/opt/vetro/power-button"
_QGA = "/opt/vetro/qemu-agent"


def prepare_root(root: GuestRoot) -> Init:
    """Write these files into the root file system of an image that is being built."""
    init = detect_init(root)
    root.write(START, start_script(_NOTHING_TO_DO).encode(), 0o755)
    write_first_start(root, init)
    if init is Init.SYSTEMD:
        write_unit(root)
        return init
    root.write(BOOT, _BOOT_SCRIPT.encode(), 0o755)
    root.write(SHUTDOWN, shutdown_script(_END_ALL, _HALT).encode(), 0o755)
    root.write(_BUTTON, _BUTTON_SCRIPT.encode(), 0o755)
    root.write(_QGA, _QGA_SCRIPT.encode(), 0o755)
    if init is Init.SYSVINIT:
        root.write("/etc/inittab", _SYSVINIT_TABLE.encode())
        quicken_services(root)
    elif init is Init.BUSYBOX:
        services = "::sysinit:/etc/init.d/rcS\n" if root.exists("/etc/init.d/rcS") else ""
        root.write("/etc/inittab", _BUSYBOX_TABLE.replace("@SERVICES@", services).encode())
    else:
        root.write(INIT, plain_init(_PLAIN_INIT).encode(), 0o755)
    return init


# Without user data the agent has no work: it waits for the next start.
_NOTHING_TO_DO = f"""\
if [ ! -s /var/lib/vetro/user-data ] || [ ! -s /opt/vetro/vetro-guest.pyz ]; then
  [ -s {CONFIG} ] || exec sleep 2147483
fi
"""

_BOOT_SCRIPT = f"""\
#!/bin/sh
# What a virtual machine needs of /etc/rcS.d: the root is mounted, the interfaces are up.
export PATH={PATH}
[ -d /proc/1 ] || mount -t proc proc /proc
[ -d /sys/class ] || mount -t sysfs sys /sys
mount -t tmpfs -o nosuid,nodev,mode=755 tmpfs /run
mkdir -p /run/lock /run/sendsigs.omit.d /dev/pts /dev/shm
chmod 1777 /run/lock
: > /run/utmp
mount -t devpts -o gid=5,mode=620,ptmxmode=666 devpts /dev/pts
mount -t tmpfs -o nosuid,nodev tmpfs /dev/shm
ln -sf /proc/self/fd /dev/fd
hostname "$(cat /etc/hostname)"
root=$(awk '$2 == "/" {{ print $1 }}' /proc/mounts | tail -n 1)
# The disk may have grown since the image was built.
[ ! -x /sbin/resize2fs ] || resize2fs "$root" > /run/resize.log 2>&1
{FIRST_START}
"""

# A machine must end every process itself and unmount its disk cleanly.
_END_ALL = """\
killall5 -15
for round in 1 2 3 4 5; do
  sleep 0.2
done
killall5 -9
sync
mount -o remount,ro /
"""
_HALT = "/sbin/halt -d -f -p"

_BUTTON_SCRIPT = f"""\
#!/bin/sh
# The machine is asked to stop by its power button.
export PATH={PATH}
for event in /sys/class/input/event*; do
  [ "$(cat "$event/device/name" 2>/dev/null)" = "Power Button" ] || continue
  # An event is read whole or not at all.
  dd "if=/dev/input/${{event##*/}}" of=/dev/null bs=1024 count=1 2> /dev/null || continue
  if [ -x /sbin/shutdown ]; then
    shutdown -h now
  else
    poweroff
  fi
  break
done
sleep 5
"""

_QGA_SCRIPT = f"""\
#!/bin/sh
# The agent through which the node runs commands. Its port has a name only where udev gives it one.
export PATH={PATH} HOME=/root
if [ -x /usr/sbin/qemu-ga ]; then
  for port in /sys/class/virtio-ports/*; do
    [ "$(cat "$port/name" 2>/dev/null)" = org.qemu.guest_agent.0 ] || continue
    exec qemu-ga -m virtio-serial -p "/dev/${{port##*/}}" -t /run
  done
fi
exec sleep 2147483
"""

_SYSVINIT_TABLE = f"""\
# Written when the image was built: services of runlevel 2, then the guest agent.
id:2:initdefault:
si::sysinit:{BOOT}
l0:0:wait:{SHUTDOWN}
l2:2345:wait:/etc/init.d/rc 2
l6:6:wait:{SHUTDOWN} -r
pb:2345:respawn:{_BUTTON}
vg:2345:respawn:{START}
qa:2345:respawn:{_QGA}
t0:2345:respawn:/sbin/getty -L ttyS0 115200 vt100
"""

_BUSYBOX_TABLE = f"""\
::sysinit:{BOOT}
@SERVICES@::respawn:{_BUTTON}
::respawn:{START}
::respawn:{_QGA}
ttyS0::respawn:/bin/getty -L ttyS0 115200 vt100
::shutdown:/bin/sync
::shutdown:/bin/mount -o remount,ro /
"""

_PLAIN_INIT = f"""\
{BOOT}
while :; do {START}; done &
{_QGA} &
{_BUTTON}
sync
mount -o remount,ro /
poweroff -f
"""
