"""Whether KVM works is found out by a guest with a deadline, once for each start of the machine."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from vetro.node.drivers.qemu import accel
from vetro.node.errors import ConfigurationError

KVM = accel.Accelerator("kvm")


def emulator(fake_path: Path, script: str) -> Path:
    """A QEMU that does this; the file it writes its arguments to."""
    told = fake_path / "told"
    path = fake_path / accel.EMULATOR
    path.write_text(f'#!/bin/sh\necho "$$ $*" >> {told}\n{script}\n')
    path.chmod(0o755)
    return told


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("exit 85", None),
        # The guest's own 'wrong', QEMU's failures, and an end without a word.
        ("exit 3", "a wrong answer (3)"),
        (
            "echo 'Could not access KVM kernel module' >&2; exit 1",
            "Could not access KVM kernel module",
        ),
        ("exit 0", "a wrong answer (0)"),
        ("kill -9 $$", "a wrong answer (-9)"),
    ],
)
async def test_only_the_right_answer_counts(
    tmp_path: Path, fake_path: Path, script: str, reason: str | None
) -> None:
    """The guest's result is QEMU's exit status; what QEMU says is the reason."""
    emulator(fake_path, script)
    assert await accel.failure("kvm", tmp_path) == reason


async def test_an_emulator_that_hangs_is_ended(tmp_path: Path, fake_path: Path) -> None:
    """No answer in time means that it does not work, and its process is killed."""
    told = emulator(fake_path, "exec sleep 1000")
    assert await accel.failure("kvm", tmp_path, deadline=1) == "no answer within 1 s"
    pid = told.read_text().split()[0]
    assert not Path("/proc", pid).exists()


async def test_a_lost_guest_is_not_waited_for(tmp_path: Path, fake_path: Path) -> None:
    """QEMU that stops with 'internal error' is ended at once."""
    told = emulator(fake_path, "echo 'KVM internal error. Suberror: 1' >&2; exec sleep 1000")
    async with asyncio.timeout(240):
        reason = await accel.failure("kvm", tmp_path, deadline=600)
    assert reason == "KVM internal error. Suberror: 1"
    assert not Path("/proc", told.read_text().split()[0]).exists()


async def test_without_qemu_the_packages_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says what to install."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigurationError, match="apt-get install qemu-system-x86"):
        await accel.failure("kvm", tmp_path)


async def test_the_answer_is_kept_until_the_machine_starts_anew(
    tmp_path: Path, fake_path: Path
) -> None:
    """Asked once; an answer of another start of the machine, or half a file, is asked for again."""
    told = emulator(fake_path, "exit 85")
    device = tmp_path / "kvm"
    device.touch()
    for _ in range(2):
        assert await accel.choose(tmp_path, device) == KVM
    assert len(told.read_text().splitlines()) == 1
    kept = tmp_path / "accelerator.json"
    other = {"boot": "another", "accelerator": "tcg", "reason": ""}
    # The third is of an agent that kept no reason.
    for text in (json.dumps(other), "{", kept.read_text().replace('"reason"', '"x"')):
        kept.write_text(text)
        assert await accel.choose(tmp_path, device) == KVM
    assert len(told.read_text().splitlines()) == 4


async def test_a_machine_without_the_device_is_not_probed(tmp_path: Path, fake_path: Path) -> None:
    """No /dev/kvm: emulation, without a question; the reason is kept with the answer."""
    told = emulator(fake_path, "exit 85")
    for _ in range(2):
        chosen = await accel.choose(tmp_path, tmp_path / "kvm")
        assert chosen == accel.Accelerator("tcg", f"there is no {tmp_path / 'kvm'}")
    assert not told.exists()


@pytest.mark.root
async def test_the_guest_works_under_emulation(tmp_path: Path) -> None:
    """The sector itself is right: QEMU's own emulation gives the answer."""
    assert await accel.failure("tcg", tmp_path, deadline=60) is None


async def test_a_comma_in_the_path_of_the_sector_is_no_option(
    tmp_path: Path, fake_path: Path
) -> None:
    """QEMU takes a comma that is written twice as one of the path."""
    told = emulator(fake_path, "exit 85")
    directory = tmp_path / "a, b"
    directory.mkdir()
    assert await accel.failure("kvm", directory) is None
    assert f"file={tmp_path}/a,, b/probe.img,format=raw" in told.read_text()
