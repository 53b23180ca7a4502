"""Every page, in both themes, on a wide and on a narrow screen."""

from collections.abc import Callable

import pytest

from .conftest import Person

Visit = Callable[..., Person]
pytestmark = pytest.mark.programs

PAGES = [
    "/environments",
    "/environments?create=true",
    "/catalog",
    "/catalog?search=nothing-fits",
    "/packages?categories=true",
    "/templates",
    "/history",
    "/people",
    "/about",
    "/nowhere",
]


@pytest.mark.parametrize("visit", [True], indirect=True)
@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 390)])
def test_pages_are_accessible(visit: Visit, theme: str, width: int) -> None:
    """axe finds nothing on any page, in light on a wide screen and in dark on a phone."""
    person = visit(theme=theme, width=width)
    person.open("/sign-in")
    assert person.violations() == []
    page = person.sign_in()
    for path in PAGES:
        person.open(path)
        assert person.violations() == [], path
        # Nothing is cut off at the side.
        overflow = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert page.evaluate(overflow) <= 0, path
