"""Memory of a service (decision 0730)."""

import gc
import mmap
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from vetro.server import memory
from vetro.server.memory import HUGE_PAGE, freeze_collector, keep_on_huge_pages, use_huge_pages


def on_huge_pages() -> int:
    """MiB of this process that are on huge pages."""
    rollup = Path("/proc/self/smaps_rollup").read_text()
    found = re.search(r"AnonHugePages:\s+(\d+) kB", rollup)
    assert found is not None
    return int(found[1]) // 1024


@pytest.fixture
def area() -> Iterator[mmap.mmap]:
    """16 MiB of memory of which nothing is in use yet."""
    with mmap.mmap(-1, 8 * HUGE_PAGE, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as made:
        yield made


def test_memory_in_use_comes_on_huge_pages(area: mmap.mmap) -> None:
    """Memory that is in use comes on huge pages, and its content is what it was."""
    content = bytes(range(256)) * (len(area) // 256)
    area[:] = content
    made = use_huge_pages()
    # Not necessarily all of it: a busy machine may have no more huge pages free.
    assert made >= 1
    assert on_huge_pages() >= 2 * made - 2
    assert area[:] == content


def test_memory_that_is_hardly_used_does_not_grow(area: mmap.mmap) -> None:
    """Where one page in 16 is in use, huge pages would take sixteen times the memory: it stays as it is."""
    use_huge_pages()
    before = on_huge_pages()
    for at in range(0, len(area), 16 * mmap.PAGESIZE):
        area[at] = 1
    use_huge_pages()
    assert on_huge_pages() < before + 14


async def test_a_kernel_without_them_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A service goes on without huge pages where the kernel refuses them, and does not ask again."""
    asked: list[int] = []

    def refused() -> int:
        asked.append(1)
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(memory, "use_huge_pages", refused)
    await keep_on_huge_pages()
    assert asked == [1]


def test_the_collector_forgets_what_is_there() -> None:
    """What exists at the start is not looked at by later rounds of the collector; what comes later is."""
    before: list[object] = []
    assert any(one is before for one in gc.get_objects())
    freeze_collector()
    after: list[object] = []
    looked_through = {id(one) for one in gc.get_objects()}
    assert id(before) not in looked_through
    assert id(after) in looked_through
