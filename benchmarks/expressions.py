"""`make bench`, topic expressions: YAQL beside the same work in plain Python.

Microseconds are those of the reference machine (`limits.py`). A result that differs from the twin's is a
failure.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "src"))

from limits import REPETITIONS, Topic, repetitions

from vetro.yaql import Library, compile, parse, standard_library
from vetro.yaql.expression import Expression

WORDS = ["alpha", "beta", "gamma", "delta"] * 25
ROWS = [{"id": n, "team": n % 7, "name": f"item-{n}", "tags": [n % 3, n % 5]} for n in range(100)]
DATA: dict[str, Any] = {"a": 1, "words": WORDS, "rows": ROWS, "mail": "John.Doe@Example.com"}
MAIL = re.compile(r"^[a-z.]+@([a-z]+)\.com$")

Twin = Callable[[], Any]
CASES: list[tuple[str, Twin]] = [
    ("$.a + 1", lambda: DATA["a"] + 1),
    ("$.rows.where($.id >= 50).select($.name)", lambda: [r["name"] for r in ROWS if r["id"] >= 50]),
    ("$.rows.name", lambda: [r["name"] for r in ROWS]),
    ("$.rows.select($.id * 2 + $.team).sum()", lambda: sum(r["id"] * 2 + r["team"] for r in ROWS)),
    ("$.rows.toDict($.name, $.id)", lambda: {r["name"]: r["id"] for r in ROWS}),
    (
        "$.rows.orderByDescending($.id).limit(5).select($.name)",
        lambda: [r["name"] for r in sorted(ROWS, key=lambda r: r["id"], reverse=True)[:5]],
    ),
    (
        "$.rows.select({id => $.id, label => $.name + '/' + str($.team)})",
        lambda: [{"id": r["id"], "label": r["name"] + "/" + str(r["team"])} for r in ROWS],
    ),
    ("$.rows.selectMany($.tags).distinct()", lambda: list(dict.fromkeys(t for r in ROWS for t in r["tags"]))),
    ("$.words.select($.toUpper())", lambda: [w.upper() for w in WORDS]),
    ("$.words.select($.replace(a, b))", lambda: [w.replace("a", "b") for w in WORDS]),
    ("$.words.select($.split(a).join('-'))", lambda: ["-".join(w.split("a")) for w in WORDS]),
    ("$.words.select(format('{0}: {1}', $, 5))", lambda: [f"{w}: 5" for w in WORDS]),
    ("$.words.where($ =~ '^[ab]')", lambda: [w for w in WORDS if re.search("^[ab]", w)]),
    ("$.words.select(regex('a').replace($, X))", lambda: [re.sub("a", "X", w) for w in WORDS]),
    ("$.mail.toLower() =~ `^[a-z.]+@([a-z]+)\\.com$`", lambda: MAIL.search(DATA["mail"].lower()) is not None),
    ("range(100).select(switch($ > 50 => $ - 50, true => $))", lambda: _switched()),
    ("range(100).aggregate(($1 * 31 + $2) mod 1000003, 7)", lambda: _folded()),
]  # fmt: skip


def _switched() -> list[int]:
    return [number - 50 if number > 50 else number for number in range(100)]


def _folded() -> int:
    total = 7
    for number in range(100):
        total = (total * 31 + number) % 1000003
    return total


def microseconds(work: Callable[[], Any], least_seconds: float = 0.02) -> float:
    """Processor time of one call, from as many as take a while."""
    count = 1
    while True:
        began = time.process_time()
        for _ in range(count):
            work()
        taken = time.process_time() - began
        if taken > least_seconds:
            return taken / count * 1e6
        count = max(count + 1, int(1.5 * count * least_seconds / max(taken, 1e-6)))


def _prepared(text: str, library: Library) -> None:
    """Compile past the cache of equal texts, up to code that runs."""
    expression = Expression(text, parse(text), library)
    expression.run_raw(_EVALUATION, {"a": 1})


_EVALUATION: Any = None


def main() -> int:
    """Measure, judge."""
    global _EVALUATION
    from vetro.yaql import Evaluation

    topic = Topic("expressions")
    library = standard_library()
    _EVALUATION = Evaluation(library)
    expression = compile("$.a + 1")
    small = {"a": 1}
    query = compile("$.where($.id >= 50).select($.name)")
    figures: list[tuple[str, Callable[[], float], float | None]] = [
        ("parse `$.a + 1`", lambda: microseconds(lambda: parse("$.a + 1")), 15.0),
        ("parse, compile and run it once", lambda: microseconds(lambda: _prepared("$.a + 1", library)), None),
        ("evaluate it prepared", lambda: microseconds(lambda: expression.evaluate(small)), 1.5),
        ("where().select() over 100 dictionaries", lambda: microseconds(lambda: query.evaluate(ROWS)), 60.0),
    ]  # fmt: skip
    for name, measure, limit in figures:
        topic.take(name, [measure() * factor for factor in repetitions()], "µs", limit)
    for text, twin in CASES:
        prepared = compile(text)
        if prepared.evaluate(DATA) != twin():
            topic.wrong(f"{text}: another result than plain Python's")
            continue

        def ours(prepared: Expression = prepared) -> Any:
            return prepared.evaluate(DATA)

        ratios = [microseconds(ours) / microseconds(twin) for _ in range(REPETITIONS)]
        topic.take(text, ratios, "x plain")
    return topic.end()


if __name__ == "__main__":
    sys.exit(main())
