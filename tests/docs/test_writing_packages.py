"""docs/writing-packages.md shows the files of its sample as they are."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
_BLOCK = re.compile(r"^`([\w./]+)`:\n\n```\w*\n(.*?)^```$", re.M | re.S)


def test_the_page_shows_the_sample_as_it_is() -> None:
    """Each file that the page names stands there whole, and is what `vetro test` and `check` try."""
    page = (ROOT / "docs/writing-packages.md").read_text(encoding="utf-8")
    shown = dict(_BLOCK.findall(page))
    assert len(shown) >= 6
    for name, text in shown.items():
        assert text == (ROOT / "library/PostgreSql" / name).read_text(encoding="utf-8"), name
