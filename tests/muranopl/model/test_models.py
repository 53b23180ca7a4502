"""Object graphs against models of them: loading and saving, garbage collection (sections 13-15, 21)."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.effort import examples

from vetro.muranopl import MemoryPackage, NoObjectFoundError, Runtime

TEXT = """
Namespaces: {=: t}
Name: Node
Properties:
  n: {Contract: $.int(), Usage: InOut}
  text: {Contract: $.string(), Default: none}
  data: {Contract: {}, Usage: InOut}
  kids: {Contract: [$.class(Node).notNull()], Usage: InOut}
  byName: {Contract: {$.string().notNull(): $.class(Node)}, Usage: InOut}
  peer: {Contract: $.class(Node), Usage: InOut}
  held: {Contract: $.class(Node), Usage: Runtime}
  gone: {Contract: [], Usage: Static, Default: []}
Methods:
  keep:
    Arguments: [{kids: {Contract: [$.class(Node)]}}]
    Body:
      - $.kids: $kids
  hold:
    Arguments: [{other: {Contract: $.class(Node)}}]
    Body:
      - $.held: $other
  secret:
    Arguments: [{other: {Contract: $.class(Node)}}]
    Body:
      - $.undeclared: $other
  forget:
    Body:
      - $.peer: null
      - $.byName: {}
  .destroy:
    Body:
      - died(id($))
"""


def start(model, died=None):
    runtime = Runtime()
    runtime.add_function("died", died.append if died is not None else lambda _: None)
    runtime.add_package(MemoryPackage("t", {"a": TEXT}, {"t.Node": "a"}))
    session = runtime.session()
    return session, session.load({"Objects": model})


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-5, 5), st.text("ab $:", max_size=4)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("kmx"), inner, max_size=3)
    ),
    max_leaves=5,
)


@st.composite
def models(draw, with_values=True):
    """A tree of nodes with references across it."""
    count = draw(st.integers(1, 8))
    nodes = []
    for index in range(count):
        node = {"?": {"type": "t.Node", "id": f"i{index}"}}
        if with_values:
            if draw(st.booleans()):
                node["n"] = draw(st.integers(-9, 9))
            if draw(st.booleans()):
                node["text"] = draw(st.text("abc", max_size=3))
            node["data"] = draw(st.dictionaries(st.sampled_from("kmx"), VALUES, max_size=3))
            if draw(st.booleans()):
                node["?"].update(name=draw(st.text("ab", max_size=3)), _ui={"x": index})
        nodes.append(node)
    for index in range(1, count):
        parent = nodes[draw(st.integers(0, index - 1))]
        where = draw(st.sampled_from(["kids", "byName"]))
        if where == "kids":
            parent.setdefault("kids", []).append(nodes[index])
        else:
            parent.setdefault("byName", {})[f"k{index}"] = nodes[index]
    for node in nodes:
        if draw(st.booleans()):
            node["peer"] = f"i{draw(st.integers(0, count - 1))}"
        if draw(st.booleans()):
            node.setdefault("kids", []).append(f"i{draw(st.integers(0, count - 1))}")
    return nodes[0]


def facts(tree):
    """What a model says of its objects, wherever they are written."""
    found = {}
    stack = [tree]
    while stack:
        item = stack.pop()
        if isinstance(item, dict) and "?" in item:
            plain = {key: _references(value) for key, value in item.items() if key != "?"}
            found[item["?"]["id"]] = plain
            stack.extend(value for key, value in item.items() if key != "?")
        elif isinstance(item, dict):
            stack.extend(item.values())
        elif isinstance(item, list):
            stack.extend(item)
    return found


def _references(value):
    if isinstance(value, dict):
        if "?" in value:
            return value["?"]["id"]
        return {key: _references(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_references(item) for item in value]
    return value


@given(models())
@settings(max_examples=examples(120), deadline=None)
def test_loading_and_saving_is_a_round_trip(model):
    """What is saved says of every object what was loaded, and loads to the same again."""
    session, _ = start(model)
    saved = session.dump()["Objects"]
    given_facts, saved_facts = facts(model), facts(saved)
    assert saved_facts.keys() == given_facts.keys()
    for object_id, values in given_facts.items():
        for key, value in values.items():
            assert saved_facts[object_id][key] == value
    again, _ = start(saved)
    assert again.dump()["Objects"] == saved


@given(models(), st.data())
@settings(max_examples=examples(120), deadline=None)
def test_collection_destroys_what_no_root_reaches(model, data):
    """Against a model of reachability: exactly the unreachable objects die, once, owned first."""
    died: list = []
    session, root = start(model, died)
    ids = sorted(facts(model))
    graph = {one: set() for one in ids}
    owner = {}

    def own(tree):
        for key, value in tree.items():
            for item in value if isinstance(value, list) else [value]:
                items = item.values() if isinstance(item, dict) and "?" not in item else [item]
                for child in items:
                    if key != "?" and isinstance(child, dict) and "?" in child:
                        owner[child["?"]["id"]] = tree["?"]["id"]
                        own(child)

    own(model)
    kids = {one: set(facts(model)[one].get("kids", [])) for one in ids}
    peers = {
        one: {facts(model)[one].get("peer")} | set(facts(model)[one].get("byName", {}).values())
        for one in ids
    }
    for _ in range(data.draw(st.integers(0, 6))):
        who = data.draw(st.sampled_from(ids))
        what = data.draw(st.sampled_from(["keep", "hold", "secret", "forget"]))
        other = data.draw(st.sampled_from(ids))
        target = session.find(who)
        if what == "keep":
            session.call(target, "keep", [session.find(other)])
            kids[who] = {other}
        elif what == "forget":
            session.call(target, "forget")
            peers[who] = set()
        else:
            session.call(target, what, session.find(other))
            graph[who] = {item for item in graph[who] if item[0] != what} | {(what, other)}
    reached = set()
    stack = ["i0"]
    while stack:
        one = stack.pop()
        if one is None or one in reached:
            continue
        reached.add(one)
        stack.extend(kids[one] | peers[one] | {other for _, other in graph[one]})
        stack.append(owner.get(one))
    assert session.collect() == len(ids) - len(reached)
    assert sorted(died) == sorted(set(ids) - reached)
    for one in died:
        above = owner.get(one)
        assert above not in died or died.index(one) < died.index(above)
    assert [one for one in ids if session.find(one) is not None] == sorted(reached)
    assert root.id == "i0"


OUT_OF = """
Namespaces: {=: t}
---
Name: Part
---
Name: App
Properties:
  parts: {Contract: [$.class(Part)]}
  chosen: {Contract: $.class(Part), Usage: Out}
  some: {Contract: [$.class(Part).notNull()], Usage: Out}
  named: {Contract: {$.string(): $.class(Part)}, Usage: Out}
  joined: {Contract: [{part: $.class(Part).notNull(), size: $.int()}], Usage: Out}
  mine: {Contract: $.class(Part), Usage: InOut}
Methods:
  choose:
    Body:
      - $.chosen: $.parts[0]
      - $.some: $.parts
      - $.named:
          one: $.parts[0]
          two: $.parts[1]
      - $.joined:
          - part: $.parts[0]
            size: 1
          - part: $.parts[1]
            size: 2
"""


def test_out_references_leave_with_the_object_that_a_user_removes():
    """The next load drops them with a warning each; in a property that users write it is an error."""
    runtime = Runtime()
    runtime.add_package(MemoryPackage("t", {"a": OUT_OF}, {"t.App": "a", "t.Part": "a"}))
    session = runtime.session()
    parts = [{"?": {"type": "t.Part", "id": name}} for name in ("p1", "p2")]
    root = session.load({"Objects": {"?": {"type": "t.App", "id": "app"}, "parts": parts}})
    session.call(root, "choose")
    saved = session.dump()["Objects"]
    saved["parts"].pop(0)

    session = runtime.session()
    session.load({"Objects": saved})
    found = session.dump()["Objects"]
    assert found["chosen"] is None
    assert found["some"] == ["p2"]
    assert found["named"] == {"two": "p2"}
    assert found["joined"] == [{"part": "p2", "size": 2}]
    assert session.warnings == [
        f"t.App.{name} of app referred to p1, which was removed"
        for name in ("chosen", "some", "named", "joined")
    ]
    with pytest.raises(NoObjectFoundError, match=r'"p1" is not found \(needed by t.App.mine'):
        runtime.session().load({"Objects": {**saved, "mine": "p1"}})


@pytest.mark.parametrize("call", ["super($, $.initialize())", "cast($, Plain).initialize()"])
def test_constructors_of_parents_without_one_are_empty(call):
    """`initialize` and `destroy` of `io.murano.Object` may be called through any parent."""
    text = f"""
Namespaces: {{=: t}}
---
Name: Plain
---
Name: Both
Extends: Plain
Properties:
  done: {{Contract: [], Usage: Runtime, Default: []}}
Methods:
  initialize:
    Body:
      - {call}
      - $.done: $.done.append(made)
  finish:
    Body:
      - super($, $.destroy())
      - Return: $.done
"""
    runtime = Runtime()
    runtime.add_package(MemoryPackage("t", {"a": text}, {"t.Plain": "a", "t.Both": "a"}))
    session = runtime.session()
    root = session.load({"Objects": {"?": {"type": "t.Both", "id": "b"}}})
    assert session.call(root, "finish") == ["made"]
