"""What a case expects of its task, compared part by part.

`expect` has any of: ``model`` (dotted path → value; ``<missing>`` where nothing may stand), ``effects``
(all except reports, in order, each at least as given), ``reports`` (likewise), ``plans`` (templates of the
plans, one list a round), ``rounds``, ``stopped``, ``error`` (how it occurs in the error; without it there
must be none).
"""

from __future__ import annotations

import json
from typing import Any, cast

from vetro.workflows.errors import CaseError
from vetro.workflows.values import Json, equal

MISSING = "<missing>"
KEYS = {"model", "effects", "reports", "plans", "rounds", "stopped", "error"}


SHAPES: dict[str, type] = {"model": dict, "effects": list, "reports": list, "plans": list}


def check_expected(expected: Json) -> None:
    """Whether an `expect` can be compared with anything. Raises: CaseError."""
    if expected is not None and not isinstance(expected, dict):
        raise CaseError("expect is not an object")
    for key, value in cast("dict[str, Json]", expected or {}).items():
        shape = SHAPES.get(key)
        if shape is not None and not isinstance(value, shape):
            raise CaseError(f"expect.{key} is not {'a list' if shape is list else 'an object'}")


def differences(expected: dict[str, Json], result: dict[str, Json]) -> list[str]:
    """Where a result is not what was expected; one line each, empty when all holds."""
    found = [f"expect has {key!r}, which means nothing" for key in expected.keys() - KEYS]
    error = result["error"]
    wanted_error = expected.get("error")
    if wanted_error is None and error is not None:
        found.append(f"error: {error}")
    elif wanted_error is not None and str(wanted_error) not in (error or ""):
        found.append(f"error: {wanted_error!r} does not occur in {error!r}")
    for key in ("rounds", "stopped"):
        if key in expected and not equal(expected[key], result[key]):
            found.append(f"{key}: {_shown(result[key])} instead of {_shown(expected[key])}")
    for path, value in cast("dict[str, Json]", expected.get("model", {})).items():
        actual = at(result["model"], str(path))
        if not equal(value, actual):
            found.append(f"model {path}: {_shown(actual)} instead of {_shown(value)}")
    effects = cast("list[dict[str, Json]]", result["effects"])
    parts = {
        "effects": [effect for effect in effects if effect["kind"] != "report"],
        "reports": [effect for effect in effects if effect["kind"] == "report"],
    }
    for key, actual in parts.items():
        if key in expected:
            found += _list_differences(key, expected[key], actual)
    if "plans" in expected:
        rounds: dict[int, list[str]] = {}
        for effect in effects:
            if effect["kind"] == "agent":
                rounds.setdefault(effect["round"], []).append(effect["template"])
        plans = list(rounds.values())
        if not equal(expected["plans"], plans):
            found.append(f"plans: {_shown(plans)} instead of {_shown(expected['plans'])}")
    return found


def _list_differences(key: str, expected: Json, actual: list[dict[str, Json]]) -> list[str]:
    wanted = cast("list[Json]", expected)
    found = [
        f"{key}[{index}]: {_shown(have)} has not {_shown(want)}"
        for index, (want, have) in enumerate(zip(wanted, actual, strict=False))
        if not is_part(want, have)
    ]
    if len(wanted) != len(actual):
        found.append(f"{key}: {len(actual)} instead of {len(wanted)}")
    return found


def at(model: Json, path: str) -> Json:
    """What stands at a dotted path, or ``<missing>``."""
    for step in path.split(".") if path else []:
        try:
            key = int(step) if isinstance(model, list) else step
            model = cast("Any", model)[key]
        except (KeyError, IndexError, TypeError, ValueError):
            return MISSING
    return model


def is_part(wanted: Json, actual: Json) -> bool:
    """Whether a map has at least the wanted entries; lists and scalars must be equal."""
    if isinstance(wanted, dict) and isinstance(actual, dict):
        entries, others = cast("dict[str, Json]", wanted), cast("dict[str, Json]", actual)
        return all(key in others and is_part(value, others[key]) for key, value in entries.items())
    if isinstance(wanted, list) and isinstance(actual, list):
        items, have = cast("list[Json]", wanted), cast("list[Json]", actual)
        return len(items) == len(have) and all(map(is_part, items, have))
    return equal(wanted, actual)


def _shown(value: Json) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 300 else text[:300] + "…"
