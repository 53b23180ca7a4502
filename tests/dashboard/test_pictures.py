"""The pictures of the dashboard in the documentation."""

import re

import pytest

from .conftest import ROOT
from .pictures import DIRECTORY, PICTURES, SIZE
from .test_pages import routes

LIMIT = 120_000


def test_every_picture_shows_a_page_that_is_there() -> None:
    """Each is of a path of the router, of the size that is taken, small, and shown in the documentation."""
    assert {one.route for one in PICTURES.values()} <= routes()
    assert {one.stem for one in DIRECTORY.iterdir()} == set(PICTURES)
    page = (ROOT / "docs/dashboard.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\]\(pictures/(\w+)\.webp\)", page)) == set(PICTURES)


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_small(name: str) -> None:
    """It is WebP of the window's size, and no larger than a page can bear."""
    content = (DIRECTORY / f"{name}.webp").read_bytes()
    assert content[:4] + content[8:16] == b"RIFFWEBPVP8X"
    assert len(content) < LIMIT
    # Each is three bytes, less one.
    width, height = (int.from_bytes(content[at : at + 3], "little") + 1 for at in (24, 27))
    assert (width, height) == (SIZE if PICTURES[name].wide else (390, SIZE[1]))
