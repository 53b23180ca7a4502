"""Lint of damaged packages: it always ends with findings or NotAPackage, never with a crash."""

import io
import zipfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.effort import examples

from vetro.packages import CODES, NotAPackage, check

LIBRARY = Path(__file__).parents[2] / "library"
FILES = {
    name: (LIBRARY / "TwoTier" / name).read_text(encoding="utf-8")
    for name in ("manifest.yaml", "Classes/TwoTier.yaml", "Classes/TwoTierTest.yaml", "UI/ui.yaml")
}
WORDS = [
    *("{", "}", "[", "]", ":", "- ", "\n", "  ", "'", '"', "|", "&a ", "*a", "!yaql ", "!!binary "),
    *("$", "$.x(", "null", "5", "Body: ", "Contract: ", "Usage: ", "If: ", "Do: ", "?: ", "<<: "),
    *("---\n", "#", ",", "\t", "\0", "ü", "=", ".init: ", "Namespaces: ", "Arguments: ", "Catch: "),
]


@st.composite
def damaged(draw):
    """A good package in which some pieces of one file are cut, doubled or replaced."""
    files = dict(FILES)
    name = draw(st.sampled_from(sorted(files)))
    text = files[name]
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.integers(0, 60)))
        piece = draw(st.one_of(st.just(""), st.sampled_from(WORDS), st.just(text[start:end] * 2)))
        text = text[:start] + piece + text[end:]
    files[name] = text
    return files


@settings(max_examples=examples(200), deadline=None, suppress_health_check=list(HealthCheck))
@given(damaged())
def test_a_damaged_package_has_findings_with_places(files):
    """Whatever was damaged: known codes, places inside the file, no exception of our own."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text.encode("utf-8", "surrogatepass"))
    try:
        found = check(buffer.getvalue())
    except NotAPackage:
        return
    for item in found:
        assert item.code in CODES
        assert item.level == ("error" if item.code.startswith("E") else "warning")
        if item.line is not None and item.file in files:
            lines = files[item.file].count("\n") + files[item.file].count("\x85") + 2
            assert 1 <= item.line <= lines + files[item.file].count("\r")


@settings(max_examples=examples(60), deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_are_answered(content):
    """Bytes as a class file, a form or a manifest never crash the lint."""
    for name in FILES:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as archive:
            for other, text in FILES.items():
                archive.writestr(other, content if other == name else text)
        assert all(item.code in CODES for item in check(buffer.getvalue()))
