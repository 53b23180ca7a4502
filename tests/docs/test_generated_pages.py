"""Pages that `make docs` writes say what the code says."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PAGES = {
    "api_page": "docs/api.md",
    "settings_page": "docs/settings.md",
    "rooms_page": "docs/rooms.md",
    "metrics_page": "docs/metrics.md",
}


@pytest.mark.parametrize("writer", PAGES)
def test_a_generated_page_is_what_its_writer_makes_of_the_code(
    writer: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page in the tree equals the page that `make docs` writes now."""
    monkeypatch.syspath_prepend(ROOT / "tools")
    spec = importlib.util.spec_from_file_location(writer, ROOT / "tools" / f"{writer}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (ROOT / PAGES[writer]).read_text(encoding="utf-8") == module.page(), "run `make docs`"
