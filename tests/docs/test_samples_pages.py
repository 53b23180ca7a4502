"""The README of each sample: how to try it, to the deployed application."""

from __future__ import annotations

from pathlib import Path

import pytest

from .commands import shown, understood

ROOT = Path(__file__).resolve().parents[2]
SAMPLES = sorted(
    path.parent
    for path in (ROOT / "library").glob("*/manifest.yaml")
    if not path.parent.name.startswith("io.murano")
)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_a_sample_says_how_to_deploy_it(sample: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its commands are such as the command line takes; tests/server/test_samples.py runs the like."""
    monkeypatch.chdir(ROOT)
    commands = list(shown((sample / "README.md").read_text(encoding="utf-8")))
    for words in commands:
        with understood(words) as context:
            assert context.params
    steps = [" ".join(words[:2]) for words in commands]
    for step in ("image build", "package import", "env create", "env add", "env deploy"):
        assert step in steps, step
    assert any(words[0] in ("test", "check") for words in commands)
    # One form makes it, as the page says.
    (added,) = [
        words
        for words in commands
        if words[:2] == ["env", "add"] and words[3].endswith(sample.name)
    ]
    assert added


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.name)
def test_a_sample_is_whole(sample: Path) -> None:
    """What an author copies has a page about it, a logo and a licence."""
    for name in ("README.md", "logo.png", "LICENSE", "manifest.yaml"):
        assert (sample / name).is_file(), name
