"""Whether KVM works on this machine, tested by a child process with a deadline.

``/dev/kvm`` alone proves little: on some machines it opens, answers and then hangs; on others KVM
is an emulation that lacks instructions every kernel uses. So the test runs a guest of one sector:
it enters 64-bit mode, uses ``cmpxchg16b``, ``xadd`` and SSE, computes for a while without and with
exits, and reports its result through an I/O port. Only a correct result in time counts. TCG gives
it in 0.15 s.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import tempfile
from dataclasses import dataclass
from pathlib import Path

import structlog

from vetro.node.errors import ConfigurationError
from vetro.node.files import read_json, write_json
from vetro.node.processes import boot_id

log = structlog.get_logger(__name__)

DEADLINE_SECONDS = 5.0
EMULATOR = "qemu-system-x86_64"
DEVICE = Path("/dev/kvm")

# The sector, in GNU assembler:
#   cli; xor %ax,%ax; mov %ax,%ds/%es/%ss; mov $0x7c00,%sp
#   page tables at 0x1000, 0x2000, 0x3000: one identity-mapped page of 2 MiB
#   cr3 = 0x1000; cr4 = PAE|OSFXSR|OSXMMEXCPT; EFER.LME; lgdt; cr0 = PG|ET|PE; ljmp $8,$long
# long: lock cmpxchg16b on 16 zero bytes with rcx:rbx = 9:7, must set ZF and store 7
#   lock xadd; movq, paddq, movq: 7 + 7 must be 14
#   20,000,000 times dec/jnz; 2,000 times cpuid; al = 0x2a (or 1 after a wrong result)
#   out %al,$0x501; hlt
_SECTOR = bytes.fromhex(
    "fa31c08ed88ec08ed0bc007cbf0010b90018f3abc70600100320c70600200330c7060030830066b8001000000f"
    "22d866b8200600000f22e066b9800000c00f320d00010f30660f0116d87c66b8110000800f22c066ea5c7c0000"
    "0800be0080000031c031d248890648894608bb07000000b909000000f0480fc70e753e48833e077538b8010000"
    "00f0480fc10666480f6ec3660fd4c066480f7ec04883f80e751ab9002d3101ffc975fcbfd007000031c00fa2ff"
    "cf75f8b02aeb02b00166ba0105eef4ebfd0f1f00000000000000000000000000009a20000f00c87c0000"
)
# The debug port turns a value v into the exit status 2v + 1.
_RIGHT = 2 * 0x2A + 1


@dataclass(frozen=True)
class Accelerator:
    """``kvm`` or ``tcg``, and for ``tcg`` why KVM was not chosen."""

    name: str
    reason: str = ""


async def failure(
    accelerator: str, directory: Path, *, deadline: float = DEADLINE_SECONDS
) -> str | None:
    """``None``: a guest works with ``kvm`` or ``tcg`` within ``deadline`` seconds; else why not.

    ``directory`` holds the sector. Errors: ``ConfigurationError`` when QEMU is not installed.
    """
    sector = directory / "probe.img"
    sector.write_bytes(_SECTOR.ljust(510, b"\0") + b"\x55\xaa")
    try:
        process = await asyncio.create_subprocess_exec(
            EMULATOR, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
            "-machine", f"pc,accel={accelerator}", "-cpu", "max", "-m", "16",
            "-device", "isa-debug-exit,iobase=0x501,iosize=1",
            # A comma ends a value, two are one of the path.
            "-drive", f"file={str(sector).replace(',', ',,')},format=raw,if=ide",
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE, start_new_session=True,
        )  # fmt: skip
    except FileNotFoundError as error:
        raise ConfigurationError(
            f"{EMULATOR} is not installed; run tools/system-packages.sh,"
            " or apt-get install qemu-system-x86 qemu-utils libvirt-daemon"
        ) from error
    try:
        async with asyncio.timeout(deadline):
            reason = await _reason(process)
            status = await process.wait()
    except TimeoutError:
        reason, status = f"no answer within {deadline:g} s", None
    finally:
        await _end(process)
    if status == _RIGHT:
        return None
    return reason or f"a wrong answer ({status})"


async def _reason(process: asyncio.subprocess.Process) -> str:
    """What the process prints until it ends or reports that the guest is lost."""
    assert process.stderr is not None
    said: list[str] = []
    async for line in process.stderr:
        said.append(line.decode("utf-8", "replace").strip())
        if "internal error" in said[-1]:
            # QEMU stops such a guest and waits for commands.
            with contextlib.suppress(ProcessLookupError):
                process.kill()
    return "; ".join(said[:2])


async def _end(process: asyncio.subprocess.Process) -> None:
    if process.returncode is not None:
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    # A process that hangs inside KVM cannot even be killed: it is left to the kernel.
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(2):
            await process.wait()


async def choose(directory: Path, device: Path = DEVICE) -> Accelerator:
    """The accelerator for VMs. The result is kept in ``directory`` until the machine reboots."""
    kept = _kept(directory)
    if kept is not None:
        return kept
    chosen = await _tested(directory, device)
    if chosen.reason:
        log.warning(
            "kvm_unavailable",
            effect="VMs are emulated, which is several times slower",
            reason=chosen.reason,
        )
    write_json(
        directory / "accelerator.json",
        {"boot": boot_id(), "accelerator": chosen.name, "reason": chosen.reason},
    )
    return chosen


def accelerator_of(directory: Path) -> Accelerator:
    """What ``choose`` has kept in a driver's directory, or would find; nothing is kept."""
    kept = _kept(directory)
    if kept is not None:
        return kept
    with tempfile.TemporaryDirectory(prefix="vetro-kvm-") as scratch:
        return asyncio.run(_tested(Path(scratch), DEVICE))


def _kept(directory: Path) -> Accelerator | None:
    kept = read_json(directory / "accelerator.json")
    if kept is None or kept.get("boot") != boot_id() or "reason" not in kept:
        return None
    return Accelerator(str(kept["accelerator"]), str(kept["reason"]))


async def _tested(directory: Path, device: Path) -> Accelerator:
    if not device.exists():
        reason: str | None = f"there is no {device}"
    elif not os.access(device, os.R_OK | os.W_OK):
        reason = f"{device} cannot be opened"
    else:
        reason = await failure("kvm", directory)
    return Accelerator("kvm") if reason is None else Accelerator("tcg", reason)
