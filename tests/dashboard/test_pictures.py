"""The pictures of the dashboard in the documentation: the pages look like them, on any machine."""

import base64
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page
from tests import browser
from tests.one_browser import CHROMIUM, OPTIONS

from .conftest import ROOT, Service
from .likeness import Difference, difference
from .pictures import DIRECTORY, PICTURES, SIZE, furnished, take
from .test_pages import routes

pytestmark = pytest.mark.thorough

LIMIT = 120_000
Parts = Mapping[str, Mapping[str, str]]


def test_every_picture_shows_a_page_that_is_there() -> None:
    """Each is of a path of the router, of the size that is taken, small, and shown in the documentation."""
    assert {one.route for one in PICTURES.values()} <= routes()
    assert {one.stem for one in DIRECTORY.iterdir()} == set(PICTURES)
    page = (ROOT / "docs/dashboard.md").read_text(encoding="utf-8")
    assert set(re.findall(r"\]\(pictures/(\w+)\.webp\)", page)) == set(PICTURES)


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_small(name: str) -> None:
    """It is WebP of the window's size, and no larger than a page can bear."""
    content = kept(name)
    assert content[:4] + content[8:16] == b"RIFFWEBPVP8X"
    assert len(content) < LIMIT
    # Each is three bytes, less one.
    width, height = (int.from_bytes(content[at : at + 3], "little") + 1 for at in (24, 27))
    assert (width, height) == (SIZE if PICTURES[name].wide else (390, SIZE[1]))


def kept(name: str) -> bytes:
    """The picture of the documentation."""
    return (DIRECTORY / f"{name}.webp").read_bytes()


# The comparison, tried with the pictures themselves, which are drawn again (redrawn.js).
# Noise is what another machine does to letters, edges and colours.
NOISE = {
    "letters of another smoothing": "filter: blur(0.6px)",
    "letters that are a pixel off": "transform: translate(1px, 1px)",
    "another gamma": "filter: contrast(0.97) brightness(1.01)",
}
# Breaks are what a person sees at once.
BREAKS = {
    "everything below the head is lower": "below",
    "the page is as wide as its window is not": "narrow",
    "a row of buttons and texts is gone": "gone",
    "colours are another theme's": "inverted",
}
REDRAW = Path(__file__).with_name("redrawn.js").read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def painter() -> Iterator[Browser]:
    """The browser that takes the pictures of the documentation."""
    with browser.chromium() as started:
        yield started


@pytest.fixture(scope="module")
def paper(painter: Browser) -> Iterator[Page]:
    """An empty page, in which pictures are compared."""
    page = painter.new_page()
    yield page
    page.close()


def redrawn(page: Page, picture: bytes, change: str) -> bytes:
    """A picture after a change of how it is drawn, and saved with more loss than the pictures are."""
    return base64.b64decode(page.evaluate(REDRAW, [base64.b64encode(picture).decode(), change]))


@pytest.mark.programs
@pytest.mark.parametrize("noise", NOISE)
def test_a_picture_that_is_drawn_otherwise_is_alike(paper: Page, noise: str) -> None:
    """Neither how letters are smoothed and placed, nor colours that are a little off, nor loss, differ."""
    found = {
        name: difference(paper, kept(name), redrawn(paper, kept(name), NOISE[noise]))
        for name in PICTURES
    }
    assert {name: str(one) for name, one in found.items() if one.matters} == {}


@pytest.mark.programs
@pytest.mark.parametrize("broken", BREAKS)
def test_a_page_that_is_broken_is_not_alike(paper: Page, broken: str) -> None:
    """What is moved, squeezed, gone or of other colours is found in every picture."""
    found = {
        name: difference(paper, kept(name), redrawn(paper, kept(name), BREAKS[broken]))
        for name in PICTURES
    }
    assert {name: str(one) for name, one in found.items() if not one.matters} == {}


@pytest.mark.programs
def test_pictures_of_different_pages_are_not_alike(paper: Page) -> None:
    """No picture of the documentation could stand for another one."""
    wide = [name for name, one in PICTURES.items() if one.wide]
    alike = [
        (one, other)
        for place, one in enumerate(wide)
        for other in wide[place + 1 :]
        if not difference(paper, kept(one), kept(other)).matters
    ]
    assert alike == []


# The pages themselves.


@pytest.fixture(scope="module")
def shown() -> Iterator[tuple[Service, Parts]]:
    """A service with what the pictures show."""
    if not (ROOT / "src/vetro/_dashboard/index.html").exists():
        pytest.skip("the dashboard is not built: make dashboard")
    with furnished() as made:
        yield made


def looked_at(
    painter: Browser, paper: Page, shown: tuple[Service, Parts], name: str, spoil: str = ""
) -> tuple[Difference, bytes]:
    """How a page differs from its picture, and how it looks."""
    service, parts = shown
    picture = PICTURES[name]
    now = take(painter, service, picture, parts[picture.of], spoil)
    return difference(paper, kept(name), now), now


@pytest.mark.programs
@pytest.mark.parametrize("name", PICTURES)
def test_a_page_looks_like_its_picture(
    painter: Browser, paper: Page, shown: tuple[Service, Parts], name: str, tmp_path: Path
) -> None:
    """Ten key pages look as the documentation shows them. Where that is meant: `make pictures`, and look."""
    found, now = looked_at(painter, paper, shown, name)
    if not found.matters:
        return
    (tmp_path / f"{name}.webp").write_bytes(now)
    pytest.fail(f"{found} differs from docs/pictures/{name}.webp; it is now {tmp_path}/{name}.webp")


@pytest.mark.programs
def test_a_page_of_another_machine_looks_like_its_picture(
    paper: Page, shown: tuple[Service, Parts]
) -> None:
    """With letters hinted, smoothed and placed as another machine may do it the pages are alike."""
    options = ["--disable-lcd-text", "--disable-font-subpixel-positioning"]
    other = paper.context.browser
    assert other is not None
    started = other.browser_type.launch(executable_path=CHROMIUM, args=[*OPTIONS, *options])
    try:
        for name in ("catalog", "topology"):
            found, _ = looked_at(started, paper, shown, name)
            assert not found.matters, f"{name}: {found}"
    finally:
        started.close()


SPOILED = {
    "catalog": [
        "nav { display: none !important }",
        "main ul { grid-template-columns: 1fr !important }",
        "main ul li > p { display: none !important }",
        "h1 { font-size: 3rem !important }",
        "main button { background: crimson !important }",
    ],
    "log": ["[role=log] { display: none !important }", "main { padding: 0 !important }"],
    "form": ["form label { display: none !important }"],
}


@pytest.mark.programs
@pytest.mark.parametrize(
    ("name", "spoil"), [(name, one) for name, all_ in SPOILED.items() for one in all_]
)
def test_a_page_with_a_broken_style_does_not_look_like_its_picture(
    painter: Browser, paper: Page, shown: tuple[Service, Parts], name: str, spoil: str
) -> None:
    """A navigation or a text that is gone, another grid, size or colour, is found."""
    found, _ = looked_at(painter, paper, shown, name, spoil)
    assert found.matters, found
