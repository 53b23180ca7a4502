"""Which statements of MuranoPL code ran.

Set `Runtime.coverage = LineCoverage(…)` before the classes are compiled; each statement of a method
then records its line when it is reached. A file is `PACKAGE/Classes/FILE`, lines count from 1.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vetro.muranopl.values.errors import Position

if TYPE_CHECKING:
    from vetro.muranopl.classes.types import MuranoType
    from vetro.muranopl.compiler.classscope import ClassScope


@dataclass(frozen=True, slots=True)
class FileCoverage:
    """One file: lines with statements, and those of them that ran."""

    file: str
    statements: tuple[int, ...]
    hits: Mapping[int, int]
    """How often each line that ran was reached."""

    @property
    def missing(self) -> tuple[int, ...]:
        """Lines whose statements never ran."""
        return tuple(line for line in self.statements if line not in self.hits)

    @property
    def percent(self) -> float:
        """The percentage of statement lines that ran; 100 for a file without statements."""
        if not self.statements:
            return 100.0
        return 100.0 * (len(self.statements) - len(self.missing)) / len(self.statements)

    def missing_ranges(self) -> str:
        """`3-5, 9`: the missing lines; neighbours among the statements are one range."""
        parts: list[str] = []
        run: list[int] = []
        gone = set(self.missing)
        for line in (*self.statements, None):
            if line is not None and line in gone:
                run.append(line)
                continue
            if run:
                parts.append(str(run[0]) if len(run) == 1 else f"{run[0]}-{run[-1]}")
                run = []
        return ", ".join(parts)

    def as_json(self) -> dict[str, object]:
        """The figures as JSON."""
        return {
            "statements": len(self.statements),
            "covered": len(self.statements) - len(self.missing),
            "percent": round(self.percent, 1),
            "missing": list(self.missing),
            "hits": {str(line): count for line, count in sorted(self.hits.items())},
        }


class LineCoverage:
    """Counts reached statements; of all packages, or of the named ones."""

    def __init__(self, packages: Iterable[str] | None = None) -> None:
        self._packages = None if packages is None else frozenset(packages)
        self._statements: dict[str, set[int]] = {}
        self._hits: dict[str, dict[int, int]] = {}
        self._marks: dict[str, Callable[[int], None]] = {}

    def probe(self, type_: MuranoType, scope: ClassScope) -> Callable[[Position], str] | None:
        """For the compiler: source that records that a statement was reached."""
        if self._packages is not None and type_.package.name not in self._packages:
            return None

        def source(position: Position) -> str:
            self._statements.setdefault(position.file, set()).add(position.line)
            return f"{scope.constant(self._mark(position.file))}({position.line})"

        return source

    def _mark(self, file: str) -> Callable[[int], None]:
        known = self._marks.get(file)
        if known is not None:
            return known
        hits = self._hits.setdefault(file, {})

        def mark(line: int) -> None:
            hits[line] = hits.get(line, 0) + 1

        self._marks[file] = mark
        return mark

    def files(self) -> list[FileCoverage]:
        """The figures of every file, in order of names."""
        return [
            FileCoverage(file, tuple(sorted(lines)), dict(self._hits.get(file, {})))
            for file, lines in sorted(self._statements.items())
        ]

    def counts(self) -> dict[str, dict[str, dict[int, int] | list[int]]]:
        """Everything counted so far, to be merged in another process."""
        return {
            file: {"statements": sorted(lines), "hits": dict(self._hits.get(file, {}))}
            for file, lines in self._statements.items()
        }

    def merge(self, counts: Mapping[str, Mapping[str, Any]]) -> None:
        """Add the result of `counts` from another process."""
        for file, figures in counts.items():
            self._statements.setdefault(file, set()).update(figures["statements"])
            hits = self._hits.setdefault(file, {})
            for line, count in figures["hits"].items():
                hits[int(line)] = hits.get(int(line), 0) + count
