"""The rule loop of XML workflows: 1,000 units with 20 rules each, and whether it is linear in units.

Each rule changes each unit, and each change runs the file again: 20 rules are 230 passes over a rule.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from limits import Published

from vetro.documents import read_yaml
from vetro.workflows import run_case

RULES = 20
SECONDS = 1.0
LINEAR = 1.5
"""How much more a unit may cost among 2,000 than among 500."""


def case(units: int) -> dict[str, Any]:
    """A model and rules that each set one flag where the one before is set."""
    rules = "".join(
        f'<rule id="r{number}" match="$.services[*].units[?('
        + (f"@.state.flag{number - 1} and " if number else "")
        + f'not @.state.flag{number})]"><set path="state.flag{number}"><true/></set></rule>'
        for number in range(RULES)
    )
    return {
        "model": {
            "id": "e",
            "services": [{"id": "s", "units": [{"id": f"u{n}"} for n in range(units)]}],
        },
        "files": {"workflows/Rules.xml": f"<workflow>{rules}</workflow>"},
    }


def seconds(units: int) -> tuple[float, bool]:
    """The best of three runs, and whether all flags are set.

    Time of the processor: the loop waits for nothing, and what else the machine does is not its growth.
    """
    best, right = float("inf"), True
    for _ in range(3):
        document = case(units)
        began = time.process_time()
        result = run_case(document, read_yaml)
        best = min(best, time.process_time() - began)
        right &= all(
            len(unit["state"]) == RULES for unit in result["model"]["services"][0]["units"]
        )
    return best, right


def main() -> int:
    """Print the figures; 1 when a result is wrong or a limit is missed."""
    published = Published()
    figures = {units: seconds(units) for units in (500, 1000, 2000)}
    for units, (taken, _) in figures.items():
        note = published.most("rule loop, 1,000 units", taken, SECONDS) if units == 1000 else ""
        print(f"{units:6} units x {RULES} rules  {taken:7.3f} s{note}")
    growth = figures[2000][0] / 2000 / (figures[500][0] / 500)
    note = published.most("growth of a unit's cost, 500 to 2,000 units", growth, LINEAR)
    print(f"a unit among 2,000 costs {growth:.2f} times one among 500{note}")
    return published.exit_code(wrong=not all(right for _, right in figures.values()))


if __name__ == "__main__":
    sys.exit(main())
