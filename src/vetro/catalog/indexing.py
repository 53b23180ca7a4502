"""The index of searches: what a package is found by, and the names that lists show (§6.2).

A word is found anywhere in a text, also inside other words. So the index is one of trigrams: FTS5
on SQLite, a ``tsvector`` with a GIN index on PostgreSQL, which needs no extension. It only selects
candidates; the texts themselves decide, and say which field matched best.

On SQLite a new text waits beside the index: each that is added alone becomes a segment of its own, which is
merged with others later, and the same again when it is removed. Several are added together, and a search
takes those that wait for candidates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import blake2b
from typing import Any

from sqlalchemy import ColumnElement, bindparam, case, delete, insert, or_, select, text, update

from vetro.catalog.tables import index, packages
from vetro.storage import Prepared, StoredRow, Transaction

#: The fields, best first: results are ordered by the first one that matches.
FIELDS = ("name", "full_name", "description", "categories", "tags", "classes", "author", "type")
#: Words shorter than this are in no index.
GRAM = 3

#: Texts in bytes that may wait: longer ones take long, so they are not added together.
SHORT_TEXT = 2048
#: One of so many texts takes those that wait with it into the index.
EACH = 16
#: Texts that one takes with it at most.
TOGETHER = 2 * EACH

_INDEXED = Prepared(insert(index))
_UNINDEXED = Prepared(
    delete(index)
    .where(index.c.package_id == bindparam("id"))
    .returning(index.c.is_waiting)
    .execution_options(short=True)
)
_WAITING = Prepared(select(index).where(index.c.is_waiting).limit(TOGETHER))
_TAKEN = Prepared(
    update(index)
    .where(index.c.package_id.in_(bindparam("ids", expanding=True)))
    .values(is_waiting=False)
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
    # A line break is in no word, so nothing is found across two fields.
    body = "\n".join(values.values())
    waits = tx.is_sqlite and len(body) <= SHORT_TEXT and text_number(id_) % EACH != 0
    await tx.execute(_INDEXED, {"package_id": id_, "names": names, "is_waiting": waits, **values})
    if not waits:
        await _index_words(tx, id_, body)
        if tx.is_sqlite and len(body) <= SHORT_TEXT:
            await _index_waiting(tx)


async def _index_waiting(tx: Transaction) -> None:
    """Add texts that wait to the index of words."""
    rows = (await tx.execute(_WAITING)).all()
    if rows:
        await tx.execute(_TAKEN, {"ids": [row.package_id for row in rows]})
    for row in rows:
        await _index_words(tx, row.package_id, _body(row))


def _body(row: StoredRow) -> str:
    return "\n".join(getattr(row, name) for name in FIELDS)


async def rebuild_index(tx: Transaction) -> None:
    """Fill the index of words of this kind of database, which has none, from the indexed fields."""
    query = select(index.c.package_id, index.c.is_waiting, *(index.c[one] for one in FIELDS))
    for row in (await tx.execute(query)).all():
        if not (tx.is_sqlite and row.is_waiting):
            await _index_words(tx, row.package_id, _body(row))


async def _index_words(tx: Transaction, id_: str, body: str) -> None:
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
    row = (await tx.execute(_UNINDEXED, {"id": id_})).first()
    if row is not None:
        await forget_words(tx, id_, row)


async def forget_words(tx: Transaction, id_: str, row: StoredRow) -> None:
    """Remove what is beside a package's row of the index, ``row``, which leaves too."""
    if tx.is_sqlite and not row.is_waiting:
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
            " UNION ALL SELECT package_id FROM catalog_index WHERE is_waiting = 1"
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
