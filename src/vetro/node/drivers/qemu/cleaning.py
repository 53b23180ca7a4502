"""A copy of a VM's disk without what belongs to the VM alone.

The file system is the guest's: this machine's kernel does not mount it. The image's own kernel does, in a
machine that runs one script of the seed and ends.
"""

from __future__ import annotations

from pathlib import Path

from vetro.node.commands import run
from vetro.node.drivers.qemu.accel import EMULATOR
from vetro.node.drivers.qemu.seed import pack_seed
from vetro.node.errors import CommandFailed, DriverError
from vetro.node.guest.former_machine import removing_script
from vetro.node.images.vm_images import VmImage

_SECONDS = 300.0
#: Of the file system. What is trimmed in larger steps keeps removed files that share a step with others.
_BLOCK = 4096
_DONE = "vetro: the disk is nobody's"
_SCRIPT = f"""\
{removing_script()}
fstrim "$ROOT"
umount "$ROOT" && echo "{_DONE}" > /dev/console
poweroff -f
"""


async def without_machine(disk: Path, image: VmImage, work: Path, accelerator: str) -> Path:
    """A disk over ``disk``, in the directory ``work``, for an image. It needs ``disk`` as it is.

    A disk that boots by itself is returned as it is: what starts on it (cloud-init) knows a new instance by
    its id. Errors: ``DriverError``.
    """
    if image.kernel is None or image.initrd is None:
        return disk
    over, seed = work / "over.qcow2", work / "seed.iso"
    script = work / "seed/vetro/start"
    script.parent.mkdir(parents=True)
    script.write_text(_SCRIPT, encoding="utf-8")
    try:
        await run(
            "qemu-img", "create", "-q", "-f", "qcow2", "-o", f"cluster_size={_BLOCK}",
            "-F", "qcow2", "-b", str(disk), str(over),
        )  # fmt: skip
        await pack_seed(script.parent.parent, seed)
        said = await run(
            EMULATOR, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
            "-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny",
            "-machine", f"pc,accel={accelerator}", "-cpu", "max", "-m", "256", "-serial", "stdio",
            "-kernel", str(image.kernel), "-initrd", str(image.initrd), "-append", image.arguments,
            "-drive", f"file={_value(over)},format=qcow2,if=none,id=root,discard=unmap",
            "-device", f"virtio-blk-pci,drive=root,discard_granularity={_BLOCK}",
            "-drive", f"file={_value(seed)},format=raw,if=virtio,readonly=on",
            timeout=_SECONDS, ends_with_us=True,
        )  # fmt: skip
    except CommandFailed as error:
        raise DriverError(
            f"What belongs to the VM alone cannot be removed from its image: {error}"
        ) from error
    if _DONE not in said.output:
        raise DriverError(
            "What belongs to the VM alone cannot be removed from its image: its kernel said"
            f" {said.output.strip()[-500:]!r}"
        )
    return over


def _value(path: Path) -> str:
    """A path as an option's value: a comma ends one, two are one of the path."""
    return str(path).replace(",", ",,")
