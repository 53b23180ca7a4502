"""Values that grow in place behave as if every assignment made a new value (section 10)."""

import copy

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.effort import examples

from vetro.muranopl import Limits, MuranoError, Runtime

KEYS = ("k", "m")


def _statement(draw):
    """A statement as YAML, and what it does to the model: `(text, function of the variables)`."""
    where = draw(st.sampled_from(["$a", "$b", "$.p", "$.q", "$a.k", "$.p.m", "$b.k", "$.q.k"]))
    number = draw(st.integers(0, 9))
    kind = draw(
        st.sampled_from(
            ["append", "plus", "set", "merge", "assign", "copy", "read", "fill", "part"]
        )
    )
    if kind == "append":
        return f"{where}: {where}.append({number})", lambda v: _append(v, where, [number])
    if kind == "plus":
        return f"{where}: {where} + list({number}, {number})", lambda v: _append(
            v, where, [number, number]
        )
    if kind == "fill":
        return f"{where}.append(): {number}", lambda v: _append(v, where, [number])
    if kind == "set":
        key = draw(st.sampled_from(KEYS))
        return f"{where}: {where}.set({key}, {number})", lambda v: _update(v, where, {key: number})
    if kind == "merge":
        key = draw(st.sampled_from(KEYS))
        return f"{where}: {where} + dict({key} => list({number}))", lambda v: _update(
            v, where, {key: [number]}
        )
    if kind == "assign":
        value = draw(st.sampled_from([[], {}, [1], {"k": []}, {"m": {}, "k": [2]}]))
        return f"{where}: {value!r}".replace("'", ""), lambda v: _write(v, where, value)
    other = draw(st.sampled_from(["$a", "$b", "$.p", "$.q"]))
    if kind == "part":
        part = draw(st.sampled_from(["$a.k", "$b.k", "$b.m", "$.p.m"]))
        return f"$seen: $seen + list(list({part}))", lambda v: v["seen"].append([_read(v, part)])
    if kind == "copy":
        return f"{where}: {other}", lambda v: _write(v, where, _read(v, other))
    return f"$seen: $seen + list(list({other}))", lambda v: v["seen"].append([_read(v, other)])


class Refused(Exception):
    pass


def _steps(where):
    parts = where.removeprefix("$.").removeprefix("$").split(".")
    return parts[0], parts[1:]


def _read(values, where):
    name, path = _steps(where)
    found = values[name]
    for key in path:
        if not isinstance(found, dict) or key not in found:
            raise Refused
        found = found[key]
    return copy.deepcopy(found)


def _write(values, where, value):
    name, path = _steps(where)
    if not path:
        values[name] = copy.deepcopy(value)
        return
    if not isinstance(values[name], dict):
        raise Refused
    values[name][path[0]] = copy.deepcopy(value)


def _append(values, where, items):
    found = _read(values, where)
    if not isinstance(found, list):
        raise Refused
    _write(values, where, found + items)


def _update(values, where, items):
    found = _read(values, where)
    if not isinstance(found, dict):
        raise Refused
    _write(values, where, {**found, **items})


@st.composite
def programs(draw):
    return [_statement(draw) for _ in range(draw(st.integers(1, 14)))]


HEAD = """
Namespaces: {=: t}
Name: Main
Properties:
  p: {Contract: $, Usage: Runtime}
  q: {Contract: {}, Usage: Runtime}
  r: {Contract: [$.int().notNull()], Usage: Runtime}
  s: {Contract: {$.string().notNull(): $.int()}, Usage: Runtime}
  u: {Contract: [$.int(), 1, 9], Usage: Runtime, Default: [1]}
"""


@given(programs())
@settings(max_examples=examples(150), deadline=None)
def test_growing_values_are_values(program):
    """Random assignments, copies and reads leave what copying at every step would leave."""
    body = ["$a: []", "$b: {}", "$seen: []", "$.p: {}", "$.q: {}"]
    values = {"a": [], "b": {}, "seen": [], "p": {}, "q": {}}
    for text, effect in program:
        before = copy.deepcopy(values)
        try:
            effect(values)
            if not isinstance(values["q"], dict):
                raise Refused
        except Refused:
            values = before
            continue
        body.append(text)
    lines = "\n".join(f"      - {line}" for line in body)
    text = (
        HEAD
        + "Methods:\n  run:\n    Body:\n"
        + lines
        + "\n      - Return: {a: $a, b: $b, seen: $seen, p: $.p, q: $.q}\n"
    )
    assert run(text) == values


def run(text, *args, method="run", **options):
    from vetro.muranopl import MemoryPackage

    runtime = Runtime()
    runtime.add_package(MemoryPackage("t", {"a": text}, {"t.Main": "a"}))
    session = runtime.session(**options)
    root = session.load({"Objects": {"?": {"type": "t.Main", "id": "root"}}})
    return session.serialize(session.call(root, method, *args))


CASES = [
    (
        "arguments_that_change_the_list",
        "- $.p: [1]\n- $.p: $.p.append($.other())\n- Return: $.p",
        [1, 9],
    ),
    (
        "arguments_that_read_the_list",
        "- $.p: [1]\n- $.p: $.p.append($.p.len())\n- $.p: $.p.append($.p.len())\n- Return: $.p",
        [1, 1, 2],
    ),
    (
        "an_alias_keeps_its_value",
        "- $a: [1]\n- $a: $a.append(2)\n- $b: $a\n- $a: $a.append(3)\n- Return: [$a, $b]",
        [[1, 2, 3], [1, 2]],
    ),
    (
        "a_nested_alias_keeps_its_value",
        "- $a: {l: [1]}\n- $a.l: $a.l.append(2)\n- $b: $a\n- $c: $a.l\n- $a.l: $a.l.append(3)\n"
        "- Return: [$a, $b, $c]",
        [{"l": [1, 2, 3]}, {"l": [1, 2]}, [1, 2]],
    ),
    (
        "elements_pass_the_contract",
        "- $.r: [1]\n- $.r: $.r.append('2')\n- Return: $.r",
        [1, 2],
    ),
    (
        "entries_pass_the_contract",
        "- $.s: {a: 1}\n- $.s: $.s.set(b, '5')\n- $.s[c]: '6'\n- Return: $.s",
        {"a": 1, "b": 5, "c": 6},
    ),
    (
        "elements_are_taken_out",
        "- $.r: [1, 2, 3, 4]\n- $.r: $.r.append(5)\n- $.r: $.r.delete(1, 2)\n- $.r: $.r.append('6')\n"
        "- $a: $.r\n- $.r: $.r.delete($.r.len() - 1)\n- Return: [$.r, $a]",
        [[1, 4, 5], [1, 4, 5, 6]],
    ),
    (
        "entries_are_taken_out",
        "- $.s: {a: 1, b: 2, c: 3}\n- $a: $.s\n- $.s: $.s.delete(c, a)\n- $.s: $.s.set(d, '4')\n"
        "- $.s: $.s.delete(nothing)\n- Return: [$.s, $a]",
        [{"b": 2, "d": 4}, {"a": 1, "b": 2, "c": 3}],
    ),
    (
        "a_list_changed_by_the_argument_of_delete",
        "- $.p: [1, 2]\n- $.p: $.p.delete($.other() - 9)\n- Return: $.p",
        [2],
    ),
    (
        "what_is_left_obeys_a_least_length",
        "- $.u: [1, 2]\n- $.u: $.u.delete(0)\n- Try: [{$.u: $.u.delete(0)}]\n  Catch: {Do: [{$x: 1}]}\n"
        "- Return: $.u",
        [2],
    ),
    (
        "a_failed_merge_changes_nothing",
        "- $.q: {a: 1, m: {x: 1}}\n- Try:\n    - $.q: $.q.mergeWith({m => {x => 2, y => 1}, a => {b => 1}})\n"
        "  Catch:\n    As: e\n- Return: $.q",
        {"a": 1, "m": {"x": 1}},
    ),
    (
        "merging_goes_deep",
        "- $.q: {m: {x: 1, l: [1]}}\n- $.q: $.q.mergeWith({m => {y => 2, l => [1, 2]}})\n- Return: $.q",
        {"m": {"x": 1, "l": [1, 2], "y": 2}},
    ),
    (
        "a_lambda_sees_the_present_value",
        "- $a: []\n- $a: $a.append(1)\n- $b: list(1, 2).select($ + $a.len())\n"
        "- $a: $a.append(2)\n- Return: $b",
        [2, 3],
    ),
    (
        "reading_one_key_leaves_a_list_under_another_to_grow",
        "- $a: {steps: [], count: 0}\n- For: i\n  In: range(5)\n  Do:\n"
        "    - $a.steps: $a.steps.append($i)\n    - $a.count: $a.count + 1\n"
        "    - If: $i = 2\n      Then:\n        - $b: $a.steps\n        - $a.steps: $a.steps.append(x)\n"
        "- Return: [$a.count, $a.steps, $b, $a]",
        [
            5,
            [0, 1, 2, "x", 3, 4],
            [0, 1, 2],
            {"steps": [0, 1, 2, "x", 3, 4], "count": 5},
        ],
    ),
    (
        "branches_share_the_list",
        "- $a: []\n- Parallel:\n    - $a: $a.append(1)\n    - $a: $a.append(2)\n- Return: $a",
        [1, 2],
    ),
]


@pytest.mark.parametrize(("body", "value"), [c[1:] for c in CASES], ids=[c[0] for c in CASES])
def test_growth_keeps_the_meaning(body, value):
    """Aliases, contracts, failures and arguments with effects are as without growth."""
    lines = "\n".join("      " + line for line in body.splitlines())
    text = (
        HEAD
        + "Methods:\n  other:\n    Body:\n      - $.p: $.p.append(7)\n      - Return: 9\n"
        + "  run:\n    Body:\n"
        + lines
        + "\n"
    )
    assert run(text) == value


def test_a_bad_element_is_refused_with_its_place():
    """An element that the contract refuses is named by its index, and the list stays."""
    text = HEAD + (
        "Methods:\n  run:\n    Body:\n      - $.r: [1]\n      - $.r: $.r.append(2)\n"
        "      - Try:\n          - $.r: $.r.append(x)\n        Catch:\n          As: e\n"
        "      - Return: [$.r, $e.message]\n"
    )
    value, message = run(text)
    assert value == [1, 2]
    assert "[t.Main.r[2]]" in message


def test_a_growing_property_is_saved_whole():
    """The model has the list as it is, also right after it grew."""
    from vetro.muranopl import MemoryPackage

    text = (
        "Namespaces: {=: t}\nName: Main\nProperties:\n  l: {Contract: [$.int()], Usage: Out}\n"
        "Methods:\n  run:\n    Body:\n      - Repeat: 3\n        Do:\n"
        "          - $.l: $.l.append($.l.len())\n"
    )
    runtime = Runtime()
    runtime.add_package(MemoryPackage("t", {"a": text}, {"t.Main": "a"}))
    session = runtime.session()
    root = session.load({"Objects": {"?": {"type": "t.Main", "id": "root"}}})
    session.call(root, "run")
    assert session.dump()["Objects"]["l"] == [0, 1, 2]
    assert root.get("l") == [0, 1, 2]


STEPS = """
Namespaces: {=: t}
Name: Main
Properties:
  l: {Contract: [$.int()], Usage: Runtime}
  t: {Contract: {}, Usage: Runtime}
Methods:
  run:
    Arguments: [{n: {Contract: $.int()}}]
    Body:
      - $.l: []
      - $.t: {r: {}, o: []}
      - $v: {}
      - For: i
        In: range($n)
        Do:
          - $.l: $.l.append($i)
          - $.t.r[$i]: {a: $i}
          - $.t.o: $.t.o + list($i)
          - $v: $v.set($i, $i)
      - Return: [len($.l), len($.t.r), len($.t.o), len($v)]
"""


def test_growing_costs_steps_in_proportion():
    """A list, a template and a map of n entries take a number of steps that is linear in n."""
    assert run(STEPS, 4000, limits=Limits(steps=120_000)) == [4000] * 4


def test_a_growing_list_keeps_to_the_limit():
    """A list that grows beyond the limit of collections fails."""
    with pytest.raises(MuranoError) as caught:
        run(STEPS, 400, limits=Limits(collection_items=300))
    assert any("CollectionTooLarge" in name for name in caught.value.names)


@pytest.mark.parametrize("contract", ["{}", "{$.string().notNull(): $.int()}", "{$.string(): $}"])
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        # What the operand was before its argument changed the property is what grows.
        ("- $.p: $.p.set(a, $.touch())", {"x": 1, "a": 7}),
        ("- $.p: $.p + dict(a => $.touch())", {"x": 1, "a": 7}),
        ("- $.p: $.p.mergeWith(dict(a => $.touch()))", {"x": 1, "a": 7}),
        # An assignment is made into what the property is then.
        ("- $.p.a: $.touch()", {"x": 1, "b": 2, "a": 7}),
        ("- $.p[a]: $.touch()", {"x": 1, "b": 2, "a": 7}),
        # A reader of the map keeps the former content.
        ("- $old: $.p\n- $.p.a: 7\n- $.p.x: 2\n- Return: $old", {"x": 1}),
        ("- $old: [$.p]\n- $.p.a: 7\n- Return: $old[0]", {"x": 1}),
        ("- $other: new(Main)\n- $.p.a: 7\n- Return: $other.p", {"x": 1}),
        # Going over it goes over what it was.
        ("- For: k\n  In: $.p\n  Do:\n    - $.p[$k + $k]: 3", {"x": 1, "xx": 3}),
        # A key that was seen as part of a larger key is seen as it is afterwards.
        (
            "- $seen: {$.p: old}\n- $.p.a: 7\n- $.p.a: 8\n"
            "- Return: dict(n => int($seen.containsKey($.p)), m => int($.p = dict(x => 1, a => 8)))",
            {"n": 0, "m": 1},
        ),
    ],
)
def test_a_map_in_a_property_is_written_as_if_anew(load, contract, body, expected):
    """Keys assigned in place are never seen by who read the map before, nor lost by who writes."""
    lines = "".join(f"      {line}\n" for line in body.splitlines())
    session, root = load(
        f"""
Name: Main
Properties:
  p:
    Contract: {contract}
    Usage: InOut
    Default: {{x: 1}}
Methods:
  touch:
    Body:
      - $.p[b]: 2
      - Return: 7
  go:
    Body:
{lines}      - Return: $.p
"""
    )
    assert session.call(root, "go") == expected


def test_a_list_that_is_being_filled_takes_several_elements_as_its_contract_says(load):
    """`+` of elements that pass joins them; one that does not is refused and nothing is added."""
    session, root = load(
        """
Name: Main
Properties:
  p:
    Contract: [$.int().notNull()]
    Usage: InOut
Methods:
  go:
    Body:
      - $.p: $.p.append(1)
      - $.p: $.p + [2, 3]
      - $.p: $.p + []
      - $.p: $.p + list(4)
      - Try:
          - $.p: $.p + [5, no]
        Catch:
          Do:
            - $.p: $.p + [int('6')]
      - Return: $.p
"""
    )
    assert session.call(root, "go") == [1, 2, 3, 4, 6]


def test_a_list_that_is_being_filled_stays_within_the_limit_of_collections(load):
    """Adding several elements at once is refused like adding them one by one."""
    session, root = load(
        """
Name: Main
Properties:
  p: {Contract: [$.int()], Usage: InOut}
Methods:
  go:
    Body:
      - Repeat: 60
        Do:
          - $.p: $.p + [1, 2]
""",
        limits=Limits(collection_items=100),
    )
    with pytest.raises(MuranoError, match="100"):
        session.call(root, "go")
