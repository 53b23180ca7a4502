"""The pages hang together: links lead somewhere, and the list of decisions is the decisions."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
DECISIONS = ROOT / "docs" / "decisions"
PAGES = sorted([*(ROOT / "docs").rglob("*.md"), *ROOT.glob("*.md")])
LINK = re.compile(r"(?<!!)\[[^\]\n]*\]\(([^)\s]+)\)")
FENCED = re.compile(r"^( *)```.*?^\1```$", re.M | re.S)


def text_of(page):
    """A page without its code, where brackets mean other things."""
    return re.sub(r"`[^`\n]*`", "", FENCED.sub("", page.read_text(encoding="utf-8")))


def anchors(page):
    """The headings of a page as a browser calls them."""
    heads = re.findall(r"^#+ (.*)$", FENCED.sub("", page.read_text(encoding="utf-8")), re.M)
    return {re.sub(r"[^\w\- ]", "", head.lower()).strip().replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    """Each link to a file finds it, and each link to a heading finds that."""
    for link in LINK.findall(text_of(page)):
        if re.match(r"[a-z]+:", link):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor and target.suffix == ".md":
            assert anchor in anchors(target), link


def test_the_list_of_decisions_is_the_decisions():
    """docs/decisions/README.md has a line for each page, once, in the order of the numbers."""
    listed = re.findall(
        r"^\| \[(\d{4})\]\((\d{4}-[\w-]+\.md)\) \| \S.* \|$",
        (DECISIONS / "README.md").read_text(encoding="utf-8"),
        re.M,
    )
    pages = sorted(page.name for page in DECISIONS.glob("[0-9]*.md"))
    assert [name for _, name in listed] == pages, "a line for each page, in their order"
    assert [number for number, _ in listed] == [name[:4] for name in pages]


@pytest.mark.parametrize("page", sorted(DECISIONS.glob("[0-9]*.md")), ids=lambda page: page.stem)
def test_a_decision_begins_with_its_number(page):
    """The heading is the number and what was decided; no two pages have one number."""
    first = page.read_text(encoding="utf-8").splitlines()[0]
    assert re.match(rf"# {page.name[:4]}: \S", first), first
    assert len(list(DECISIONS.glob(f"{page.name[:4]}-*.md"))) == 1
