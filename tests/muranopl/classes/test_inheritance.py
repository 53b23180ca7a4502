"""Member resolution: muranopl.md section 4."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from vetro.muranopl.classes.types import breadth_first, choose

DIAMOND = {"D": ["B", "C"], "B": ["A"], "C": ["A"], "A": []}


def resolve(graph, declaring, start):
    return choose(start, lambda c: graph[c], lambda c: c in declaring)


def test_an_override_on_one_branch_hides_what_the_other_inherits():
    """In a diamond the override wins whatever the order of Extends."""
    assert resolve(DIAMOND, {"A", "C"}, "D") == ["C"]
    assert resolve(DIAMOND, {"A", "B"}, "D") == ["B"]


def test_unrelated_overrides_are_both_found():
    """Two overrides on two branches are ambiguous."""
    assert resolve(DIAMOND, {"A", "B", "C"}, "D") == ["B", "C"]


def test_the_class_itself_wins():
    """A definition in the class hides every inherited one."""
    assert resolve(DIAMOND, {"A", "B", "C", "D"}, "D") == ["D"]


def test_nothing_is_found_where_nothing_is_declared():
    """No declaration, no result."""
    assert resolve(DIAMOND, set(), "D") == []


def test_ancestors_come_in_layers():
    """Breadth first, each once."""
    assert breadth_first("D", lambda c: DIAMOND[c]) == ["D", "B", "C", "A"]


@st.composite
def hierarchies(draw):
    size = draw(st.integers(1, 7))
    graph = {}
    for index in range(size):
        below = [str(i) for i in range(index)]
        parents = draw(st.lists(st.sampled_from(below), unique=True, max_size=3)) if below else []
        graph[str(index)] = parents
    declaring = {name for name in graph if draw(st.booleans())}
    return graph, declaring, str(size - 1)


def brute_force(graph, declaring, start):
    """The definition itself: write out every path, drop lists that are tails of others."""

    def paths(node):
        if not graph[node]:
            return [[node]]
        return [[node, *rest] for parent in graph[node] for rest in paths(parent)]

    lists = {tuple(n for n in path if n in declaring) for path in paths(start)} - {()}
    kept = [
        one
        for one in lists
        if not any(other != one and other[len(other) - len(one) :] == one for other in lists)
    ]
    return {one[0] for one in kept}


@given(hierarchies())
def test_the_choice_is_that_of_the_definition(case):
    """On random hierarchies the result is what the rule written out says."""
    graph, declaring, start = case
    found = resolve(graph, declaring, start)
    assert set(found) == brute_force(graph, declaring, start)
    assert len(found) == len(set(found))
    order = breadth_first(start, lambda c: graph[c])
    assert all(order.index(a) < order.index(b) for a, b in pairwise(found))


def test_diamonds_upon_diamonds_are_looked_through_once():
    """Forty diamonds have 2⁴⁰ paths; each class is looked at, not each path."""
    from vetro.muranopl.classes import types

    parents = {"root": []}
    last = "root"
    for level in range(40):
        parents |= {
            f"a{level}": [last],
            f"b{level}": [last],
            f"c{level}": [f"a{level}", f"b{level}"],
        }
        last = f"c{level}"
    parents["start"] = [last]
    assert types.choose("start", parents.__getitem__, lambda item: item != "start") == ["c39"]
