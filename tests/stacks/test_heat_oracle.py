"""Values of functions as Heat's own parser gives them (recorded by tools/heat_oracle.py)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from vetro.stacks import TemplateError
from vetro.stacks.template.evaluation import Evaluation
from vetro.stacks.template.functions import resolve
from vetro.stacks.template.templates import parse

ANSWERS = json.loads((Path(__file__).parent / "heat_answers.json").read_text(encoding="utf-8"))


def ours(given: Any) -> Any:
    """The value of an output, nulls dropped as they are when a property is applied."""
    parsed = parse(
        {
            "heat_template_version": ANSWERS["version"],
            "parameters": {
                name: {"type": "json" if isinstance(one, list | dict) else "string", "default": one}
                for name, one in ANSWERS["parameters"].items()
            },
            "conditions": ANSWERS["conditions"],
            "outputs": {"it": {"value": given}},
        }
    )
    context = Evaluation(
        parsed,
        stack_id="i",
        stack_name="s",
        project_id="t",
        reference=lambda _name: None,
        attribute=_nothing,
    )
    return resolve(parsed.outputs["it"].value, context)


async def _nothing(_resource: str, _name: str) -> Any:
    raise AssertionError("there are no resources")


def test_every_recorded_value() -> None:
    """The same value, or an error in both."""
    different: list[str] = []
    for case in ANSWERS["cases"]:
        try:
            value = {"value": ours(case["given"])}
        except TemplateError as error:
            value = {"error": str(error)}
        if "error" in case:
            same = "error" in value
        else:
            same = value == {"value": case["value"]}
        if not same:
            different.append(f"{case['given']}\n  Heat: {case}\n  here: {value}")
    assert not different, f"{len(different)} of {len(ANSWERS['cases'])}:\n" + "\n".join(
        different[:20]
    )
