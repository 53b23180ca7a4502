"""What the dashboard is built of: what the first page costs to load, and what the wheel has."""

import gzip
import json
import re
from pathlib import Path

import pytest
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).resolve().parents[2]
BUILT = ROOT / "src/vetro/_dashboard"
LIMIT = 300_000
# A side of the screen, in a style sheet: pages are mirrored for languages written from right to left.
SIDE = re.compile(
    r"^\s*(left|right|float|(margin|padding|border)-(left|right)[\w-]*|text-align: *(left|right))\b",
    re.M,
)
SIDE_IN_CODE = re.compile(r"\s(ml|mr|pl|pr)=|\b(margin|padding|border)(Left|Right)")


def test_the_initial_javascript_is_at_most_300_kb() -> None:
    """The scripts that the page names, and what they import at once, are within the limit, gzipped."""
    if not BUILT.is_dir():
        pytest.skip("the dashboard is not built: make dashboard")
    manifest = json.loads((BUILT / "manifest.json").read_text())
    names = {chunk["file"]: name for name, chunk in manifest.items()}
    page = (BUILT / "index.html").read_text()
    first = [
        names[one] for one in re.findall(r'(?:src|href)="/dashboard/(assets/[^"]+\.js)"', page)
    ]
    seen: set[str] = set()

    def walk(name: str) -> int:
        if name in seen:
            return 0
        seen.add(name)
        chunk = manifest[name]
        size = len(gzip.compress((BUILT / chunk["file"]).read_bytes(), 9))
        return size + sum(walk(one) for one in chunk.get("imports", []))

    assert 50_000 < sum(walk(one) for one in first) <= LIMIT
    # A browser asks for six files at a time, and first paints wait for the last of them.
    assert len(seen) <= 6


def test_the_page_has_nothing_inline() -> None:
    """Neither scripts nor styles are in the page itself: its policy forbids them."""
    if not BUILT.is_dir():
        pytest.skip("the dashboard is not built: make dashboard")
    page = (BUILT / "index.html").read_text()
    assert re.findall(r"<script(?![^>]*\bsrc=)[^>]*>|<style|\bon\w+=|style=", page) == []


def test_the_wheel_has_the_dashboard() -> None:
    """Every file that was built is in the wheel, so that who installs it needs no Node."""
    if not BUILT.is_dir():
        pytest.skip("the dashboard is not built: make dashboard")
    packed = {one.distribution_path for one in WheelBuilder(str(ROOT)).recurse_included_files()}
    built = {f"vetro/{one.relative_to(BUILT.parent)}" for one in BUILT.rglob("*") if one.is_file()}
    assert "vetro/_dashboard/index.html" in built
    assert built <= packed


def test_styles_name_no_side_of_the_screen() -> None:
    """Style sheets and pages say "start" and "end", which a language from right to left swaps."""
    sources = ROOT / "dashboard/src"
    sheets = [*sources.rglob("*.css"), ROOT / "dashboard/public/opening.css"]
    assert len(sheets) > 5
    wrong = [one.name for one in sheets if SIDE.search(one.read_text(encoding="utf-8"))]
    wrong += [
        one.name
        for one in sources.rglob("*.tsx")
        if SIDE_IN_CODE.search(one.read_text(encoding="utf-8"))
    ]
    assert wrong == []


def test_the_lock_file_names_no_registry() -> None:
    """npm packages come from wherever the machine is told; the lock file has versions and digests."""
    lock = json.loads((ROOT / "dashboard/package-lock.json").read_text())
    packages = {name: one for name, one in lock["packages"].items() if name}
    assert len(packages) > 100
    assert [name for name, one in packages.items() if "resolved" in one] == []
    assert [name for name, one in packages.items() if not one.get("integrity")] == []
