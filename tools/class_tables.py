"""The classes that ship: docs/library-reference.md, docs/framework-reference.md, and the tables of classes
in docs/library.md and docs/framework.md, made from the class files and their comments.

A table stands between `<!-- classes: PREFIX -->` and `<!-- end of classes -->`; it has the classes whose
names are PREFIX and one part more.
"""

from __future__ import annotations

import re
from pathlib import Path

from vetro.cli.offline.doc import cell, class_page, described, package_page, summary, table
from vetro.cli.offline.world import library_directory
from vetro.muranopl import ClassDescription

DOCS = Path(__file__).resolve().parent.parent / "docs"
REFERENCES = {
    "library-reference.md": "io.murano",
    "framework-reference.md": "io.murano.applications",
}
TABLES = ("library.md", "framework.md")
_TABLE = re.compile(r"(<!-- classes: ([\w.]+) -->\n).*?(<!-- end of classes -->)", re.S)


def class_table(prefix: str, classes: list[ClassDescription]) -> str:
    """The classes directly below a prefix, with what they extend and what they are."""
    rows = [
        (
            f"`{one.name.rpartition('.')[2]}`",
            ", ".join(f"`{name.rpartition('.')[2]}`" for name in _parents(one)),
            cell(summary(one.texts)),
        )
        for one in classes
        if one.name.rpartition(".")[0] == prefix
    ]
    if not rows:
        raise SystemExit(f"there are no classes {prefix}.*")
    return "\n".join(["", *table(("class", "extends", "what it is"), rows), ""])


def _parents(one: ClassDescription) -> list[str]:
    return [name for name in one.extends if name != "io.murano.Object"]


def pages() -> dict[Path, str]:
    """Every page that this writes, by its file."""
    found: dict[Path, str] = {}
    classes: list[ClassDescription] = []
    for file, package in REFERENCES.items():
        manifest, listed = described(library_directory() / package)
        # What test classes are made of is no author's business.
        listed = [one for one in listed if not one.name.startswith(f"{package}.tests.")]
        texts = [package_page(manifest, listed, linked=False)]
        found[DOCS / file] = "\n".join([*texts, *(class_page(one, 2) for one in listed)])
        classes += listed
    for file in TABLES:
        text = (DOCS / file).read_text(encoding="utf-8")
        found[DOCS / file] = _TABLE.sub(
            lambda match: match[1] + class_table(match[2], classes) + match[3], text
        )
    return found
