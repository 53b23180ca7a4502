"""How large a document may be."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class DocumentLimits:
    """Limits of one document. ``None``: without this limit.

    ``bytes``: its size in UTF-8. ``depth``: nesting of collections. ``aliases``: YAML aliases.
    ``nodes``: scalars and collections; each alias counts as all the nodes it expands to.
    """

    bytes: int | None = None
    depth: int = 100
    aliases: int | None = None
    nodes: int = 1_000_000


USUAL = DocumentLimits()
"""Those of a reader that gives none."""
