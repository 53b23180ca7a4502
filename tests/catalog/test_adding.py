"""Where uploads are checked: small ones on the event loop, all others in a thread."""

from __future__ import annotations

import threading
import zipfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.catalog.conftest import NAME, Shelf

from vetro.catalog import adding
from vetro.http import BadRequest

Checked = Callable[[Path], Awaitable[list[bool]]]


@pytest.fixture
async def checked(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> Checked:
    """Reads a file as an upload; whether each check of it was on this thread."""
    await adding.read_upload(shelf.archive())  # loads what checks need
    check: Any = adding.open_checked
    loop, on_loop = threading.current_thread(), list[bool]()

    def noted(*given: Any) -> Any:
        on_loop.append(threading.current_thread() is loop)
        return check(*given)

    monkeypatch.setattr(adding, "open_checked", noted)

    async def read(file: Path) -> list[bool]:
        on_loop.clear()
        await adding.read_upload(file.read_bytes())
        return on_loop

    return read


async def test_a_small_archive_is_checked_at_once(shelf: Shelf, checked: Checked) -> None:
    """A thread takes longer to begin than the check takes."""
    assert await checked(shelf.archive()) == [True]


async def test_content_that_is_larger_than_its_archive_is_checked_in_a_thread(
    shelf: Shelf, checked: Checked
) -> None:
    """What an archive unpacks to decides, not what it is."""
    file = shelf.archive(description="a" * 2 * adding.QUICK_BYTES)
    with zipfile.ZipFile(file) as stored:
        members = {name: stored.read(name) for name in stored.namelist()}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in members.items():
            packed.writestr(name, content)
    assert file.stat().st_size < adding.QUICK_BYTES
    assert await checked(file) == [True, False]


async def test_mistakes_are_listed_in_a_thread(shelf: Shelf, checked: Checked) -> None:
    """The refusal of a small archive names all mistakes, as that of a large one."""
    file = shelf.archive(description="a" * 10, classes=[NAME, "b/c"])
    with pytest.raises(BadRequest, match="Couldn't load package from file") as of_small:
        await checked(file)
    with pytest.raises(BadRequest) as of_large:
        await adding.read_upload(file)
    assert of_small.value.message == of_large.value.message


async def test_nothing_is_checked_at_once_where_plug_ins_read_packages(
    shelf: Shelf, checked: Checked, monkeypatch: pytest.MonkeyPatch
) -> None:
    """How long a plug-in takes is not known."""
    monkeypatch.setattr(adding, "known_formats", lambda: ["Terraform/1.0"])
    assert await checked(shelf.archive()) == [False]
