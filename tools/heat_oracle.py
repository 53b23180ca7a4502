#!/usr/bin/env python3
"""Record what Heat's own parser makes of template values: `heat_oracle.py DIRECTORY`.

DIRECTORY is a virtual environment that is made when missing (`pip install openstack-heat`, about 90 packages:
too much for every run of the tests, so its answers are kept in tests/stacks/heat_answers.json, and the
properties of its resource types in tests/stacks/heat_properties.json). Cases come
from a fixed seed; add a kind of value in `_value` and run this again.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
import venv
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vetro.stacks.resources.registry import TYPES

ANSWERS = Path(__file__).parents[1] / "tests/stacks/heat_answers.json"
PROPERTIES = ANSWERS.with_name("heat_properties.json")
VERSION = "2021-04-16"
CASES = 600
PARAMETERS = {
    "text": "a text, of words",
    "letters": ["a", "b", "c"],
    "map": {"k1": "v1", "k2": "v2", "list": ["x", "y"]},
    "empty": [],
}
CONDITIONS = {
    "yes": {"equals": [{"get_param": "text"}, "a text, of words"]},
    "no": {"not": "yes"},
    "both": {"and": ["yes", "no"]},
    "one": {"or": ["no", {"contains": ["b", {"get_param": "letters"}]}]},
}

# Run by the environment's Python: one case a line in, one answer a line out.
_ASK = """
import json, logging, sys, warnings
warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)
from heat.common import identifier
from heat.engine import environment, function, stk_defn, template

def answer(version, value, parameters, conditions):
    kinds = {list: "json", dict: "json"}
    document = {
        "heat_template_version": version,
        "parameters": {
            name: {"type": kinds.get(type(one), "string"), "default": one}
            for name, one in parameters.items()
        },
        "conditions": conditions,
        "resources": {},
    }
    parsed = template.Template(document, env=environment.Environment({}))
    stack = stk_defn.StackDefinition(None, parsed, identifier.HeatIdentifier("t", "s", "i"), {})
    found = parsed.parse(stack, value)
    function.validate(found)
    return function.resolve(found)

for line in sys.stdin:
    try:
        print(json.dumps({"value": answer(*json.loads(line))}), flush=True)
    except Exception as error:
        print(json.dumps({"error": f"{type(error).__name__}: {error}"[:200]}), flush=True)
"""

# The names of the types' properties, as Heat's plug-ins list them.
_LIST = """
import json, logging, sys, warnings
warnings.simplefilter("ignore")
logging.disable(logging.CRITICAL)
from heat.engine import environment, resources
known = environment.Environment({}, user_env=False)
resources._load_global_environment(known)
found = {}
for name in json.load(sys.stdin):
    info = known.registry.get_resource_info(name)
    schema = info.get_class().properties_schema if info else {}
    if schema:
        found[name] = sorted(schema)
json.dump(found, sys.stdout, indent=1)
"""


def _text(rng: random.Random) -> Any:
    return rng.choice(
        ["", "a", "b", "A-B", "x,y,z", "a text", "%a%", {"get_param": "text"},
         {"get_param": ["map", "k1"]}, {"get_param": ["letters", rng.randrange(4)]}]
    )  # fmt: skip


def _list(rng: random.Random, depth: int) -> Any:
    kinds: list[Callable[[], Any]] = [
        lambda: [_text(rng) for _ in range(rng.randrange(4))],
        lambda: {"get_param": rng.choice(["letters", "empty"])},
        lambda: {"get_param": ["map", "list"]},
    ]
    if depth:
        kinds += [
            lambda: {"str_split": [",", _text(rng)]},
            lambda: {"filter": [_list(rng, depth - 1), _list(rng, depth - 1)]},
            lambda: {"list_concat": [_list(rng, depth - 1), _list(rng, depth - 1)]},
            lambda: {"list_concat_unique": [_list(rng, depth - 1), _list(rng, depth - 1)]},
            lambda: {"repeat": {"for_each": {"%a%": _list(rng, depth - 1)}, "template": _value(rng, 0)}},
            lambda: {"repeat": {"for_each": {"%a%": ["1", "2"], "%b%": rng.choice([["x"], ["x", "y"]])},
                                "template": {"%a%": "%b%-%a%"}, "permutations": rng.random() < 0.5}},
            lambda: {"if": [rng.choice([*CONDITIONS, True]), _list(rng, depth - 1), {"get_param": "empty"}]},
            lambda: {"yaql": {"expression": "$.data.where($ != 'a')", "data": _list(rng, depth - 1)}},
        ]  # fmt: skip
    return rng.choice(kinds)()


def _map(rng: random.Random, depth: int) -> Any:
    kinds: list[Callable[[], Any]] = [
        lambda: {rng.choice("abk"): _text(rng) for _ in range(rng.randrange(3))},
        lambda: {"get_param": "map"},
    ]
    if depth:
        kinds += [
            lambda: {"map_merge": [_map(rng, depth - 1), _map(rng, depth - 1)]},
            lambda: {"map_replace": [_map(rng, depth - 1), {
                "keys": {rng.choice(["k1", "a"]): rng.choice(["b", "new"])},
                "values": {"v2": "V2", "a": "b"}}]},
        ]  # fmt: skip
    return rng.choice(kinds)()


def _value(rng: random.Random, depth: int) -> Any:
    kinds: list[Callable[[], Any]] = [
        lambda: _text(rng),
        lambda: _list(rng, depth),
        lambda: _map(rng, depth),
    ]
    if depth:
        replace = rng.choice(["str_replace", "str_replace_strict", "str_replace_vstrict"])
        kinds += [
            lambda: {"list_join": [rng.choice([",", ""]), _list(rng, depth - 1)]},
            lambda: {"list_join": ["-", _list(rng, depth - 1), _list(rng, depth - 1)]},
            lambda: {replace: {"template": _text(rng), "params": {"a": _text(rng), "text": "T"}}},
            lambda: {"digest": [rng.choice(["md5", "sha512", "none"]), _text(rng)]},
            lambda: {"contains": [_text(rng), _list(rng, depth - 1)]},
            lambda: {"if": [rng.choice([*CONDITIONS, "nowhere"]), _value(rng, depth - 1),
                            _value(rng, depth - 1)]},
            lambda: {"str_split": [rng.choice([",", " "]), _text(rng), rng.randrange(4)]},
            lambda: {"make_url": {
                "scheme": "http", "host": rng.choice(["h", "::1"]), "port": rng.choice(["80", 8080]),
                "path": rng.choice(["", "/a b", "c/d"]), "query": {"q": "a b"},
                **rng.choice([{}, {"username": "u", "password": "p:/"}, {"fragment": "f g"}])}},
        ]  # fmt: skip
    return rng.choice(kinds)()


def main(directory: Path) -> None:
    """Ask Heat, and write its answers."""
    python = directory / "bin/python"
    if not python.exists():
        venv.create(directory, with_pip=True)
        subprocess.run([directory / "bin/pip", "install", "-q", "openstack-heat"], check=True)
    rng = random.Random(235)
    values: list[Any] = []
    while len(values) < CASES:
        value = _value(rng, rng.randrange(1, 4))
        if value not in values:
            values.append(value)
    given = "".join(json.dumps([VERSION, one, PARAMETERS, CONDITIONS]) + "\n" for one in values)
    asked = subprocess.run(
        [python, "-c", _ASK], input=given, capture_output=True, text=True, check=True
    )
    answers = [json.loads(line) for line in asked.stdout.splitlines()]
    listed = [{"given": one, **answer} for one, answer in zip(values, answers, strict=True)]
    rows = ",\n".join(json.dumps(one) for one in listed)
    head = json.dumps({"version": VERSION, "parameters": PARAMETERS, "conditions": CONDITIONS})
    ANSWERS.write_text(f'{head[:-1]}, "cases": [\n{rows}\n]}}\n', encoding="utf-8")
    given = json.dumps([one for one in sorted(TYPES) if not one.startswith("Vetro::")])
    asked = subprocess.run(
        [python, "-c", _LIST], input=given, capture_output=True, text=True, check=True
    )
    PROPERTIES.write_text(asked.stdout + "\n", encoding="utf-8")
    wrong = sum("error" in one for one in listed)
    sys.stdout.write(f"{len(listed)} answers, {wrong} of them errors: {ANSWERS}\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
