"""The index of searches: what a package is found by, and the names that lists show (§6.2).

A word is found anywhere in a text, also inside other words. So the index is one of trigrams: FTS5
on SQLite, a ``tsvector`` with a GIN index on PostgreSQL, which needs no extension. It only selects
candidates; the texts themselves decide, and say which field matched best.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

from sqlalchemy import ColumnElement, bindparam, case, delete, insert, or_, select, text

from vetro.catalog.tables import index, packages
from vetro.storage import Prepared, Transaction

#: The fields, best first: results are ordered by the first one that matches.
FIELDS = ("name", "full_name", "description", "categories", "tags", "classes", "author", "type")
#: Words shorter than this are in no index.
GRAM = 3

_INDEXED = Prepared(insert(index))
_UNINDEXED = Prepared(
    delete(index).where(index.c.package_id == bindparam("id")).execution_options(short=True)
)
# FTS5 finds a row by its number only; by anything else it reads the whole table.
_TEXT = Prepared(
    text("INSERT INTO catalog_index_text (rowid, package_id, body) VALUES (:number, :id, :body)")
)
_WITHOUT_TEXT = Prepared(
    text("DELETE FROM catalog_index_text WHERE rowid = :number").execution_options(short=True)
)


def text_number(id_: str) -> int:
    """The number of a package's text in the index of words, 56 bits of a digest of its id."""
    return int.from_bytes(blake2b(id_.encode(), digest_size=7).digest())


async def index_package(tx: Transaction, view: Mapping[str, Any], *, is_new: bool = False) -> None:
    """Store what a package is found by, from its object (§6.2); ``is_new``: nothing is stored yet."""
    id_: str = view["id"]
    if not is_new:
        await unindex_package(tx, id_)
    texts = (
        *(view["name"], view["fully_qualified_name"], view["description"]),
        *(" ".join(view[key]) for key in ("categories", "tags", "class_definitions")),
        *(view["author"], view["type"]),
    )
    values: dict[str, str] = dict(zip(FIELDS, (one.lower() for one in texts), strict=True))
    names = {key: view[key] for key in ("class_definitions", "tags", "categories")}
    await tx.execute(_INDEXED, {"package_id": id_, "names": names, **values})
    await _index_words(tx, id_, values)


async def rebuild_index(tx: Transaction) -> None:
    """Fill the index of words of this kind of database, which has none, from the indexed fields."""
    for row in (
        await tx.execute(select(index.c.package_id, *(index.c[one] for one in FIELDS)))
    ).all():
        await _index_words(tx, row.package_id, {name: getattr(row, name) for name in FIELDS})


async def _index_words(tx: Transaction, id_: str, values: Mapping[str, str]) -> None:
    # A line break is in no word, so nothing is found across two fields.
    body = "\n".join(values[name] for name in FIELDS)
    if tx.is_sqlite:
        await tx.execute(_TEXT, {"number": text_number(id_), "id": id_, "body": body})
        return
    await tx.execute(
        text(
            "UPDATE catalog_index SET trigrams = array_to_tsvector(CAST(:parts AS text[]))"
            " WHERE package_id = :id"
        ),
        {"id": id_, "parts": sorted(_trigrams(body))},
    )


async def unindex_package(tx: Transaction, id_: str) -> None:
    """Make a package not to be found any more."""
    await tx.execute(_UNINDEXED, {"id": id_})
    await unindex_removed(tx, id_)


async def unindex_removed(tx: Transaction, id_: str) -> None:
    """Remove what the row of a package, which was removed, did not take with it."""
    if tx.is_sqlite:
        await tx.execute(_WITHOUT_TEXT, {"number": text_number(id_)})


def _trigrams(body: str) -> set[str]:
    return {body[at : at + GRAM] for at in range(len(body) - GRAM + 1)}


def weight(words: Sequence[str]) -> ColumnElement[int]:
    """The position of the best field that has one of the words; null when none has."""
    found = [
        (or_(*(index.c[name].contains(word, autoescape=True) for word in words)), place)
        for place, name in enumerate(FIELDS)
    ]
    return case(*found)


def candidates(words: Sequence[str], *, is_sqlite: bool) -> ColumnElement[bool] | None:
    """The packages that may have one of the words; ``None`` when a word is too short for the index."""
    if any(len(word) < GRAM for word in words):
        return None
    if is_sqlite:
        phrases = " OR ".join('"' + word.replace('"', '""') + '"' for word in words)
        found = text(
            "SELECT package_id FROM catalog_index_text WHERE catalog_index_text MATCH :found"
        ).bindparams(bindparam("found", phrases))
        return packages.c.id.in_(found.columns(packages.c.id))
    quoted = [
        "("
        + " & ".join("'" + gram.replace("\\", "\\\\").replace("'", "''") + "'" for gram in grams)
        + ")"
        for grams in (sorted(_trigrams(word)) for word in words)
    ]
    found = text("catalog_index.trigrams @@ CAST(:found AS tsquery)")
    condition: Any = found.bindparams(bindparam("found", " | ".join(quoted)))
    return condition
