"""What the first page costs to load."""

import gzip
import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILT = ROOT / "src/vetro/_dashboard"
LIMIT = 300_000


def test_the_initial_javascript_is_at_most_300_kb() -> None:
    """The scripts that the page names, and what they import at once, are within the limit, gzipped."""
    if not BUILT.is_dir():
        pytest.skip("the dashboard is not built: make dashboard")
    manifest = json.loads((BUILT / "manifest.json").read_text())
    seen: set[str] = set()

    def walk(name: str) -> int:
        if name in seen:
            return 0
        seen.add(name)
        chunk = manifest[name]
        size = len(gzip.compress((BUILT / chunk["file"]).read_bytes(), 9))
        return size + sum(walk(one) for one in chunk.get("imports", []))

    total = walk("index.html")
    assert 50_000 < total <= LIMIT


def test_the_page_has_nothing_inline() -> None:
    """Neither scripts nor styles are in the page itself: its policy forbids them."""
    if not BUILT.is_dir():
        pytest.skip("the dashboard is not built: make dashboard")
    page = (BUILT / "index.html").read_text()
    assert re.findall(r"<script(?![^>]*\bsrc=)[^>]*>|<style|\bon\w+=|style=", page) == []


def test_the_lock_file_names_no_registry() -> None:
    """npm packages come from wherever the machine is told; the lock file has versions and digests."""
    lock = json.loads((ROOT / "dashboard/package-lock.json").read_text())
    packages = {name: one for name, one in lock["packages"].items() if name}
    assert len(packages) > 100
    assert [name for name, one in packages.items() if "resolved" in one] == []
    assert [name for name, one in packages.items() if not one.get("integrity")] == []
