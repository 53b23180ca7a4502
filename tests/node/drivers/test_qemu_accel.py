"""Whether KVM works is found out by a guest with a deadline, once for each start of the machine."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from vetro.node.drivers import qemu_accel
from vetro.node.errors import ConfigurationError


def emulator(fake_path: Path, script: str) -> Path:
    """A QEMU that does this; the file it writes its arguments to."""
    told = fake_path / "told"
    path = fake_path / qemu_accel.EMULATOR
    path.write_text(f'#!/bin/sh\necho "$$ $*" >> {told}\n{script}\n')
    path.chmod(0o755)
    return told


@pytest.mark.parametrize(
    ("script", "works"),
    [
        ("exit 85", True),
        # The guest's own 'wrong', QEMU's failures, and an end without a word.
        ("exit 3", False),
        ("echo 'Could not access KVM kernel module' >&2; exit 1", False),
        ("exit 0", False),
        ("kill -9 $$", False),
    ],
)
async def test_only_the_right_answer_counts(
    tmp_path: Path, fake_path: Path, script: str, works: bool
) -> None:
    """The guest's result is QEMU's exit status."""
    emulator(fake_path, script)
    assert await qemu_accel.runs("kvm", tmp_path) is works


async def test_an_emulator_that_hangs_is_ended(tmp_path: Path, fake_path: Path) -> None:
    """No answer in time means that it does not work, and nothing of it goes on."""
    told = emulator(fake_path, "exec sleep 1000")
    assert await qemu_accel.runs("kvm", tmp_path, deadline=1) is False
    pid = told.read_text().split()[0]
    assert not Path("/proc", pid).exists()


async def test_a_lost_guest_is_not_waited_for(tmp_path: Path, fake_path: Path) -> None:
    """QEMU says 'internal error' and would wait for somebody to look at it."""
    told = emulator(fake_path, "echo 'KVM internal error. Suberror: 1' >&2; exec sleep 1000")
    async with asyncio.timeout(60):
        assert await qemu_accel.runs("kvm", tmp_path, deadline=600) is False
    assert not Path("/proc", told.read_text().split()[0]).exists()


async def test_without_qemu_the_packages_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error says what to install."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigurationError, match="apt-get install qemu-system-x86"):
        await qemu_accel.runs("kvm", tmp_path)


async def test_the_answer_is_kept_until_the_machine_starts_anew(
    tmp_path: Path, fake_path: Path
) -> None:
    """Asked once; an answer of another start of the machine, or half a file, is asked for again."""
    told = emulator(fake_path, "exit 85")
    device = tmp_path / "kvm"
    device.touch()
    for _ in range(2):
        assert await qemu_accel.choose(tmp_path, device) == "kvm"
    assert len(told.read_text().splitlines()) == 1
    kept = tmp_path / "accelerator.json"
    for text in (json.dumps({"boot": "another", "accelerator": "tcg"}), "{"):
        kept.write_text(text)
        assert await qemu_accel.choose(tmp_path, device) == "kvm"
    assert len(told.read_text().splitlines()) == 3


async def test_a_machine_without_the_device_is_not_probed(tmp_path: Path, fake_path: Path) -> None:
    """No /dev/kvm: emulation, without a question."""
    told = emulator(fake_path, "exit 85")
    assert await qemu_accel.choose(tmp_path, tmp_path / "kvm") == "tcg"
    assert not told.exists()


@pytest.mark.root
async def test_the_guest_works_under_emulation(tmp_path: Path) -> None:
    """The sector itself is right: QEMU's own emulation gives the answer."""
    assert await qemu_accel.runs("tcg", tmp_path, deadline=60)
