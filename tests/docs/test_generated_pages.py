"""Pages that `make docs` writes say what the code says."""

import importlib.util
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGES = {
    "api_page": "docs/api.md",
    "settings_page": "docs/settings.md",
    "rooms_page": "docs/rooms.md",
    "metrics_page": "docs/metrics.md",
}


def module(writer: str) -> Any:
    """A writer of pages, from tools/."""
    spec = importlib.util.spec_from_file_location(writer, ROOT / "tools" / f"{writer}.py")
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


@pytest.mark.parametrize("writer", PAGES)
def test_a_generated_page_is_what_its_writer_makes_of_the_code(
    writer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page in the tree equals the page that `make docs` writes now."""
    monkeypatch.syspath_prepend(ROOT / "tools")
    page = module(writer).page()
    assert (ROOT / PAGES[writer]).read_text(encoding="utf-8") == page, "run `make docs`"


def test_the_classes_of_the_pages_are_those_of_the_library() -> None:
    """References and tables of classes, every class of both libraries among them."""
    writer = module("class_tables")
    for path, text in writer.pages().items():
        assert path.read_text(encoding="utf-8") == text, "run `make docs`"
    tables = "".join((ROOT / "docs" / name).read_text(encoding="utf-8") for name in writer.TABLES)
    for name in writer.REFERENCES:
        page = (ROOT / "docs" / name).read_text(encoding="utf-8")
        for class_name in re.findall(r"^## (io\.murano\.\S+)$", page, re.M):
            assert f"| `{class_name.rpartition('.')[2]}` |" in tables, class_name
