"""docs/settings.md says what the settings are."""

import importlib.util
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_the_page_of_settings_is_what_the_code_declares() -> None:
    """Every setting with its default and meaning; `make docs` writes the page anew."""
    spec = importlib.util.spec_from_file_location("settings_page", ROOT / "tools/settings_page.py")
    assert spec is not None
    assert spec.loader is not None
    writer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(writer)
    assert (ROOT / "docs/settings.md").read_text(encoding="utf-8") == writer.page()
