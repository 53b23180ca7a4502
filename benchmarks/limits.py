"""The limits that the project publishes: a figure far beyond its limit fails `make bench`.

Timings of one run vary, so a figure is marked when it is beyond its limit, and fails the run when it misses
it by more than a quarter (``TOLERANCE``).
"""

from __future__ import annotations

TOLERANCE = 1.25


class Published:
    """Judges figures and remembers those that miss their limits by more than ``TOLERANCE``."""

    def __init__(self) -> None:
        self.missed: list[str] = []

    def most(self, what: str, figure: float, limit: float) -> str:
        """What to print beside a figure that may not be larger than ``limit``; empty when it is not."""
        return self._judge(what, figure, limit, figure / limit)

    def least(self, what: str, figure: float, limit: float) -> str:
        """What to print beside a figure that may not be smaller than ``limit``; empty when it is not."""
        return self._judge(what, figure, limit, limit / figure if figure else float("inf"))

    def none(self, what: str, count: int) -> str:
        """What to print beside a count that has to be 0; empty when it is."""
        if count:
            self.missed.append(f"{what}: {count}, limit 0")
        return "  BEYOND ITS LIMIT" if count else ""

    def _judge(self, what: str, figure: float, limit: float, ratio: float) -> str:
        if ratio <= 1:
            return ""
        if ratio > TOLERANCE:
            self.missed.append(f"{what}: {figure:.4g}, limit {limit:.4g}")
        return "  BEYOND ITS LIMIT" if ratio <= TOLERANCE else "  FAR BEYOND ITS LIMIT"

    def exit_code(self, *, wrong: bool = False) -> int:
        """1 when results were ``wrong`` or a limit was missed by more than a quarter; names those limits."""
        for one in self.missed:
            print(f"limit missed by more than a quarter: {one}", flush=True)
        return 1 if wrong or self.missed else 0
