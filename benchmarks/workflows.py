"""The rule loop of XML workflows: 1,000 units with 20 rules each, and whether it is linear in units.

Each rule changes each unit, and each change runs the file again: 20 rules are 230 passes over a rule.
"""

from __future__ import annotations

import sys
import time
from typing import Any

from limits import Topic, repetitions

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


def run(units: int, topic: Topic) -> float:
    """Processor seconds of a run; the topic hears when not all flags are set."""
    document = case(units)
    began = time.process_time()
    result = run_case(document, read_yaml)
    taken = time.process_time() - began
    if any(len(unit["state"]) != RULES for unit in result["model"]["services"][0]["units"]):
        topic.wrong(f"not every flag of {units} units is set")
    return taken


def main() -> int:
    """Measure, judge."""
    topic = Topic("workflows")
    taken: list[float] = []
    growth: list[float] = []
    for factor in repetitions():
        found = {units: run(units, topic) for units in (500, 1000, 2000)}
        taken.append(found[1000] * factor)
        growth.append(found[2000] / 2000 / (found[500] / 500))
    topic.take(f"rule loop, 1,000 units x {RULES} rules", taken, "s", SECONDS)
    topic.take("growth of a unit's cost, 500 to 2,000 units", growth, "x", LINEAR)
    return topic.end()


if __name__ == "__main__":
    sys.exit(main())
