"""A node whose disk is full still tells what happens, and lets itself be emptied."""

from __future__ import annotations

import errno
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from vetro.node.files import write_bytes
from vetro.node.work import history

FULL = OSError(errno.ENOSPC, "No space left on device")


def full(*_arguments: object, **_more: object) -> Any:
    """What every write says now."""
    raise FULL


async def created(simulation: Any, kit: SimpleNamespace) -> str:
    """A VM that runs."""
    payload = {"uuid": kit.new_uuid(), "brand": "lx", "image_uuid": kit.image}
    return str((await simulation.driver.create(payload, lambda _step, _percent: None))["uuid"])


async def test_a_vm_can_be_removed(
    simulation: Any, kit: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its removal makes room: it does not need any first."""
    uuid = await created(simulation, kit)
    monkeypatch.setattr(simulation.store, "save", full)
    await simulation.driver.delete(uuid)
    assert not simulation.driver.exists(uuid)
    assert not simulation.store.path(uuid).exists()


async def test_the_end_of_a_vm_is_told(
    simulation: Any, kit: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the moment cannot be written down."""
    uuid = await created(simulation, kit)
    told: list[str] = []
    simulation.driver.watch(told.append)
    monkeypatch.setattr(simulation.store, "save", full)
    await simulation.driver.kill(uuid, 9)
    assert uuid in told
    assert (await simulation.driver.load(uuid))["state"] == "stopped"


def test_tasks_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The task that makes room runs, though it is not in the history on disk."""
    kept = history.History(tmp_path)
    kept.open()
    monkeypatch.setattr(history, "write_json", full)
    entry = kept.add("machine_destroy", {"uuid": "x"}, "", persistent=True)
    entry.finish({})
    kept.save(entry)
    assert [one["status"] for one in kept.shown()] == ["finished"]
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old text stays, and the beginning of the new one takes no room."""
    path = tmp_path / "vm.json"
    write_bytes(path, b"old")
    monkeypatch.setattr("os.replace", full)
    with pytest.raises(OSError, match="No space left"):
        write_bytes(path, b"new")
    monkeypatch.undo()
    assert [one.name for one in tmp_path.iterdir()] == ["vm.json"]
    assert path.read_bytes() == b"old"
