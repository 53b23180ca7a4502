"""Rules about models: facts, the language of rules, changes, and what users are told."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vetro.engine.policy import ModelRefused, RulesError, enforce
from vetro.engine.policy import rules as rules_module
from vetro.engine.policy.changes import WrongChange, change
from vetro.engine.policy.facts import facts_of, nodes_of
from vetro.engine.policy.rules import read_rules_text

ENV = "e1"
MODEL: dict[str, Any] = {
    "?": {"id": ENV, "type": "io.murano.Environment"},
    "name": "dev",
    "defaultNetworks": {"environment": {"?": {"id": "n1", "type": "Net"}, "name": "net"}},
    "applications": [
        {
            "?": {"id": "a1", "type": "org.App/1.2.0@org.pkg"},
            "public": False,
            "ports": [80, 443],
            "user": {"name": "ann", "deep": {"x": 1}},
            "nothing": None,
            "instance": {"?": {"id": "i1", "type": "org.Instance"}, "flavor": "m1.large"},
            "database": "d1",
        },
        {"?": {"id": "d1", "type": "org.Database"}, "peers": ["a1"]},
    ],
}


def ancestors(_item: Mapping[str, Any]) -> list[str]:
    """Every class extends one."""
    return ["io.murano.Object"]


def test_a_model_is_these_facts() -> None:
    """Owners, dotted properties, one per list item, relationships and who reaches whom (§12)."""
    facts = facts_of(MODEL, "p", ancestors)
    assert facts["murano:objects"] == {
        (ENV, "p", "io.murano.Environment"),
        ("n1", ENV, "Net"),
        ("a1", ENV, "org.App"),
        ("i1", "a1", "org.Instance"),
        ("d1", ENV, "org.Database"),
    }
    assert facts["murano:properties"] == {
        (ENV, "name", "dev"),
        ("n1", "name", "net"),
        ("a1", "public", "False"),
        ("a1", "ports", "80"),
        ("a1", "ports", "443"),
        ("a1", "user.name", "ann"),
        ("a1", "user.deep.x", "1"),
        ("i1", "flavor", "m1.large"),
    }
    assert facts["murano:relationships"] == {
        (ENV, "n1", "defaultNetworks.environment"),
        (ENV, "a1", "services"),
        (ENV, "d1", "services"),
        ("a1", "i1", "instance"),
        ("a1", "d1", "database"),
        ("d1", "a1", "peers"),
    }
    assert {two for one, two in facts["murano:connected"] if one == "d1"} == {"a1", "i1", "d1"}
    assert ("i1", "io.murano.Object") in facts["murano:parent_types"]
    assert facts["murano:states"] == {(ENV, "pending")}


def derived(text: str, **facts: Any) -> set[Any]:
    """The rows of table r."""
    return read_rules_text(text).derive(facts).get("r", set())


P = {("a", "1"), ("b", "10"), ("c", "x")}


DERIVED: list[tuple[str, set[tuple[str, ...]] | None]] = [
    ("r(x) :- p(x, y)", {("a",), ("b",), ("c",)}),
    ("r(x) :- p(x, 1)", {("a",)}),
    ('r("all")  r(x) :- q(x), not p(x, _).', {("all",), ("z",)}),
    ("r(x) :- p(x, y), lt(y, 9), not equal(y, 'x')", {("a",)}),
    ("r(x) :- p(x, y), gteq(y, 10), lt(y, 100)", {("b",)}),
    ('r(m) :- concat("<", x, n), p(x, 10), concat(n, ">", m)', {("<b>",)}),
    ("r(x) :- equal(x, y), q(y)", {("z",)}),
    ("// c\nr(x, z) :- e(x, z)\nr(x, z) :- r(x, y), e(y, z) # until no more", None),
    ("r(x) :- s(x), not t(x)  t(x) :- p(x, 1)  s(x) :- p(x, _)", {("b",), ("c",)}),
    ("r(x) :- gone(x)", set()),
    ("", set()),
]


@pytest.mark.parametrize(("text", "rows"), DERIVED)
def test_rules_derive(text: str, rows: Any) -> None:
    """Joins, negation, comparisons, texts, recursion: whatever the order they are written in."""
    edges = {("1", "2"), ("2", "3"), ("3", "1")}
    wanted = {(x, y) for x in "123" for y in "123"} if rows is None else rows
    assert derived(text, p=P, q={("z",)}, e=edges) == wanted


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("r(x) :- p(x,", "line 1: a value is missing before 'the end'"),
        ("\n\nr(x) p(x)", "line 3: nothing says what x is"),
        ("r(x) :- not p(x)", "nothing says what x is"),
        ("r(x) :- p(y), lt(x, y)", "nothing says what x is"),
        ("r(x) :- concat(x, y, z), concat(z, x, y)", "nothing says what"),
        ("r(x) :- p(x), not s(x)  s(x) :- p(x), not r(x)", "depends on there being no"),
        ("r(x) :- p(x, 'open", "line 1: cannot be read"),
        ("r(1 2)", "line 1: ) is missing before '2'"),
        (":- p(x)", "the name of a table is missing"),
        ("lt(x, y) :- p(x, y)", "cannot be what a rule makes"),
        ("murano:objects(x, y, z) :- p(x, y, z)", "cannot be what a rule makes"),
        ("r(x) :- p(x), concat(x, x)", "concat takes 3 values"),
    ],
)
def test_rules_that_are_none_say_where(text: str, says: str) -> None:
    """The line, and what is missing or cannot be decided."""
    with pytest.raises(RulesError, match=says.replace("(", r"\(").replace(")", r"\)")):
        read_rules_text(text).derive({"p": {("a", "b")}})


@given(st.text(alphabet="rp(x,y):-. \"'1_\n", max_size=40))
def test_any_text_is_rules_or_refused(text: str) -> None:
    """Nothing but RulesError comes out of reading and deriving."""
    try:
        read_rules_text(text).derive({"p": P})
    except RulesError as error:
        assert str(error)


def test_rules_that_join_everything_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """An operator's mistake costs a bounded time, and is said."""
    monkeypatch.setattr(rules_module, "MOST_STEPS", 1000)
    rules = read_rules_text("r(a, b, c) :- p(a), p(b), p(c)")
    with pytest.raises(RulesError, match="more than 1000 facts"):
        rules.derive({"p": {(str(number),) for number in range(100)}})


Nodes = dict[str, dict[str, Any]]
CHANGES: list[tuple[str, Callable[[Nodes], bool]]] = [
    (
        "set-property: {object_id: i1, prop_name: flavor, value: m1.small}",
        lambda nodes: nodes["i1"]["flavor"] == "m1.small",
    ),
    (
        "set-property: {object_id: a1, prop_name: user.deep.y, value: 2}",
        lambda nodes: nodes["a1"]["user"]["deep"] == {"x": 1, "y": 2},
    ),
    (
        "remove-object: {object_id: a1}",
        lambda nodes: set(nodes) == {ENV, "n1", "d1"} and nodes["d1"]["peers"] == [],
    ),
    (
        "remove-object: {object_id: d1}",
        lambda nodes: "d1" not in nodes and nodes["a1"]["database"] is None,
    ),
    (
        "remove-relation: {object_id: a1, prop_name: database}",
        lambda nodes: nodes["a1"]["database"] is None and "d1" in nodes,
    ),
    (
        "add-object: {owner_id: e1, owner_relation: services, type: org.Log,"
        " init_args: {level: 3}}",
        lambda nodes: (
            nodes[ENV]["applications"][2]["level"] == 3
            and nodes[ENV]["applications"][2]["?"]["type"] == "org.Log"
        ),
    ),
    (
        "add-relation: {source_id: d1, relation: peers, target_id: i1}",
        lambda nodes: nodes["d1"]["peers"] == ["a1", "i1"],
    ),
]


@pytest.mark.parametrize(("action", "check"), CHANGES)
def test_changes_are_made(action: str, check: Callable[[Nodes], bool]) -> None:
    """Each built-in action, and what refers to what it removes."""
    model = copy.deepcopy(MODEL)
    change(model, action)
    assert check({node["?"]["id"]: node for node in nodes_of(model)})


@pytest.mark.parametrize(
    ("action", "says"),
    [
        ("remove-object: {object_id: zz}", "No such object: zz"),
        ("remove-object: {object_id: e1}", "cannot be removed"),
        ("fly: {}", "There is no action fly"),
        ("set-property", "expected"),
        ("set-property: [1]", "must be a map"),
        ("set-property: {object_id: i1}", "takes object_id, prop_name, value"),
        ("remove-object: {object_id: i1, x: 1}", "takes object_id"),
        ("a: [", "cannot be read"),
    ],
)
def test_changes_that_cannot_be_made_are_refused(action: str, says: str) -> None:
    """Unknown actions, objects and parameters; texts that are no YAML."""
    with pytest.raises(WrongChange, match=says):
        change(copy.deepcopy(MODEL), action)


RULES = """
predeploy_errors(eid, oid, msg) :- murano:properties(oid, "flavor", f), not allowed(f),
  murano:connected(eid, oid), murano:objects(eid, _, "io.murano.Environment"),
  concat("Instance flavor ", f, msg)
allowed("m1.small")
predeploy_errors("another", "x", "not about this one")
"""
MEND = """
predeploy_modify(eid, oid, act) :- murano:properties(oid, "flavor", "m1.large"),
  murano:connected(eid, oid), murano:parent_types(eid, "io.murano.Environment"),
  concat("set-property: {prop_name: flavor, value: m1.small, object_id: ", oid, a), concat(a, "}", act)
"""


def test_a_model_is_refused_with_all_reasons_or_mended(tmp_path: Path) -> None:
    """Only rows about this environment count; the changed model is asked again."""
    file = tmp_path / "rules"
    file.write_text(RULES)
    with pytest.raises(ModelRefused) as refused:
        enforce(file, MODEL, "p", ancestors)
    assert str(refused.value) == (
        "Murano object model validation failed: \n    Instance flavor m1.large"
    )
    file.write_text(RULES + MEND)
    changed = enforce(file, MODEL, "p", ancestors)
    assert changed["applications"][0]["instance"]["flavor"] == "m1.small"
    assert MODEL["applications"][0]["instance"]["flavor"] == "m1.large"
    file.write_text("predeploy_modify('e1', 'x', 'remove-object: {object_id: zz}')")
    with pytest.raises(ModelRefused, match="No such object: zz"):
        enforce(file, MODEL, "p", ancestors)


@pytest.mark.parametrize("content", [None, b"r(x", b"\xff", b"#" * (2**20 + 1)])
def test_rules_that_cannot_be_read_let_nothing_through(
    tmp_path: Path, content: bytes | None
) -> None:
    """A file that broke after the start refuses deployments and names itself."""
    file = tmp_path / "rules"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ModelRefused, match=f"the rules cannot be asked: {file}"):
        enforce(file, MODEL, "p", ancestors)
