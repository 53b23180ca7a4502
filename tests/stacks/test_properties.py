"""Properties of graphs, comparison and whole stacks, on generated input."""

from __future__ import annotations

import asyncio
import ipaddress
import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.clouds import is_empty
from tests.effort import examples

from vetro.stacks import ChangeKind, DependencyCycle, StackStatus, choose_cidr
from vetro.stacks.memory import MemoryStacks
from vetro.stacks.operations.changes import changed_properties, decide
from vetro.stacks.resources import TYPES, resource_type
from vetro.stacks.state.records import ResourceRow
from vetro.stacks.template import dependencies as graph
from vetro.stacks.template.functions import Unknown

PROJECT = "p"
SETTINGS = settings(deadline=None, max_examples=examples(20))

GRAPHS = (
    st.integers(1, 8)
    .flatmap(
        lambda size: st.lists(
            st.sets(st.integers(0, size - 1), max_size=size), min_size=size, max_size=size
        )
    )
    .map(lambda rows: {f"n{i}": {f"n{j}" for j in needs} for i, needs in enumerate(rows)})
)


@given(GRAPHS)
def test_an_order_respects_every_requirement_or_shows_a_circle(
    requires: dict[str, set[str]],
) -> None:
    """Either each node follows what it requires, or the named circle is one."""
    try:
        order = graph.order(requires)
    except DependencyCycle as error:
        circle = error.names
        assert circle[0] == circle[-1]
        assert all(after in requires[before] for before, after in itertools.pairwise(circle))
        return
    assert sorted(order) == sorted(requires)
    for node, needs in requires.items():
        assert all(order.index(need) < order.index(node) for need in needs)


@given(GRAPHS)
def test_reversing_twice_is_the_same_graph(requires: dict[str, set[str]]) -> None:
    """Turning a graph around twice changes nothing."""
    assert graph.reverse(graph.reverse(requires)) == requires


def test_a_very_deep_graph_is_ordered() -> None:
    """Depth is not bounded by Python's stack."""
    requires = {f"n{i}": {f"n{i + 1}"} if i < 1500 else set[str]() for i in range(1501)}
    assert graph.order(requires)[0] == "n1500"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text("xy", max_size=1), inner),
    max_leaves=6,
)
PROPERTIES = st.dictionaries(st.sampled_from(["name", "rules", "description"]), JSON)


@given(PROPERTIES, PROPERTIES)
def test_only_differences_are_changes(old: dict[str, Any], new: dict[str, Any]) -> None:
    """Equal properties are kept, and what is reported as changed does differ as JSON."""
    kind = resource_type("OS::Neutron::SecurityGroup", "g")
    row = ResourceRow(
        name="g",
        type=kind.name,
        physical_id="x",
        properties=old,
        status=StackStatus.CREATE_COMPLETE,
    )
    assert decide(row, kind.name, kind, dict(old)).kind is ChangeKind.KEEP
    changed = changed_properties(kind, old, new)
    assert changed == changed_properties(kind, new, old)
    assert all(repr(old.get(key, "absent")) != repr(new.get(key, "absent")) for key in changed)
    assert decide(row, kind.name, kind, new).kind is (
        ChangeKind.UPDATE if changed else ChangeKind.KEEP
    )


@pytest.mark.parametrize("name", sorted(TYPES))
def test_every_type_describes_itself(name: str) -> None:
    """Required properties are declared, and a resource without them is refused by name."""
    kind = resource_type(name, "r")
    for group in kind.required:
        assert set(group) <= set(kind.properties)
    assert kind.name == name
    assert kind.__doc__ or kind.__class__.__doc__


def _networks(names: set[str], cidr_of: dict[str, int]) -> dict[str, Any]:
    resources: dict[str, Any] = {"group": {"type": "OS::Neutron::SecurityGroup"}}
    for name in sorted(names):
        resources[f"net-{name}"] = {"type": "OS::Neutron::Net", "properties": {"name": name}}
        resources[f"subnet-{name}"] = {
            "type": "OS::Neutron::Subnet",
            "properties": {
                "network": {"get_resource": f"net-{name}"},
                "cidr": f"10.{cidr_of.get(name, 0)}.{ord(name)}.0/24",
            },
        }
        resources[f"port-{name}"] = {
            "type": "OS::Neutron::Port",
            "properties": {
                "network": {"get_resource": f"net-{name}"},
                "fixed_ips": [{"subnet": {"get_resource": f"subnet-{name}"}}],
                "security_groups": [{"get_resource": "group"}],
            },
        }
        resources[f"server-{name}"] = {
            "type": "OS::Nova::Server",
            "properties": {
                "flavor": "m1.tiny",
                "image": "debian",
                "networks": [{"port": {"get_resource": f"port-{name}"}}],
            },
        }
    outputs = {name: {"value": {"get_attr": [f"server-{name}", "first_address"]}} for name in names}
    return {
        "heat_template_version": "2013-05-23",
        "resources": resources if names else {},
        "outputs": outputs,
    }


STATES = st.tuples(
    st.sets(st.sampled_from("abcd")),
    st.dictionaries(st.sampled_from("abcd"), st.integers(0, 2)),
)


@SETTINGS
@given(st.lists(STATES, min_size=1, max_size=5), st.data())
def test_any_sequence_of_updates_ends_in_what_the_last_template_says(
    states: list[tuple[set[str], dict[str, int]]], data: st.DataObject
) -> None:
    """Whatever came before, also failures: what exists is exactly what the template wants."""

    async def run() -> None:
        stacks = MemoryStacks()
        compute = stacks.compute
        await stacks.create(PROJECT, "s", _networks(set(), {}))
        for names, cidr_of in states:
            fails = data.draw(
                st.sampled_from([None, None, "create_server", "delete_port", "create_subnet"])
            )
            if fails:
                compute.fail[fails] = RuntimeError("injected")
                await stacks.update(PROJECT, "s", _networks(names, cidr_of))
                compute.fail.clear()
            template = _networks(names, cidr_of)
            stack = await stacks.update(PROJECT, "s", template)
            assert (stack.status, stack.reason) == (StackStatus.UPDATE_COMPLETE, "")
            assert len(compute.server_list) == len(names)
            assert len(compute.port_list) == len(names)
            cidrs = {one.cidr for one in compute.subnet_list.values()}
            assert cidrs == {f"10.{cidr_of.get(n, 0)}.{ord(n)}.0/24" for n in names}
            for name in names:
                subnet = ipaddress.ip_network(f"10.{cidr_of.get(name, 0)}.{ord(name)}.0/24")
                assert ipaddress.ip_address(stack.outputs[name]) in subnet
            assert (await stacks.plan(PROJECT, "s", template)).empty
        assert await stacks.delete(PROJECT, "s") is None
        assert is_empty(compute)

    asyncio.run(run())


@given(st.text(min_size=1, max_size=40), st.integers(0, 255))
def test_the_range_of_a_network_is_stable_and_free(net_id: str, taken_count: int) -> None:
    """The same network gets the same range while it is free, else the next free one."""
    first = choose_cidr(net_id, [])
    assert first is not None
    assert first == choose_cidr(net_id, [])
    assert ipaddress.ip_network(first).subnet_of(ipaddress.ip_network("10.0.0.0/16"))
    taken = [f"10.0.{number}.0/24" for number in range(taken_count)]
    chosen = choose_cidr(net_id, taken)
    assert chosen is not None
    assert chosen not in taken
    if first not in taken:
        assert chosen == first


def test_no_range_is_left() -> None:
    """When everything is taken there is none."""
    assert choose_cidr("n", ["10.0.0.0/16"]) is None
    assert choose_cidr("n", ["10.0.0.0/8"]) is None


@pytest.mark.parametrize(
    ("environments", "hosts", "used", "expected"),
    [
        (20, 250, [], "10.0.0.0/24"),
        (20, 250, ["10.0.0.0/24", "10.0.1.128/25"], "10.0.2.0/24"),
        (20, 250, ["10.0.0.0/19"], None),
        (20, 250, ["fd00::/64"], "10.0.0.0/24"),
        (1, 2, [], "10.0.0.0/31"),
    ],
)
def test_the_first_free_range_of_a_template(
    environments: int, hosts: int, used: list[str], expected: str | None
) -> None:
    """The first block that meets no range in use (xml-workflows.md §11)."""
    assert choose_cidr(None, used, max_environments=environments, max_hosts=hosts) == expected


FIRST_START = [
    (name, key)
    for name in sorted(TYPES)
    for key, one in resource_type(name, "r").properties.items()
    if one.first_start
]


def test_servers_of_every_type_have_what_is_read_at_the_first_start() -> None:
    """So the cases below are all of them."""
    assert {name for name, _ in FIRST_START} == {"OS::Nova::Server", "AWS::EC2::Instance"}


@pytest.mark.parametrize(("name", "key"), FIRST_START)
@given(
    old=JSON,
    new=JSON | st.just(Unknown("another resource")),
    absent=st.sampled_from(["old", "new", ""]),
)
def test_what_is_read_at_the_first_start_keeps_the_resource(
    name: str, key: str, old: Any, new: Any, absent: str
) -> None:
    """Whatever it was and is, also when that is not known yet: the stored value stays, and an interrupted
    creation is gone on with."""
    kind = resource_type(name, "r")
    stored = {} if absent == "old" else {key: old}
    wanted = {} if absent == "new" else {key: new}
    row = ResourceRow(
        name="r",
        type=name,
        physical_id="x",
        properties=stored,
        status=StackStatus.CREATE_COMPLETE,
    )
    decision = decide(row, name, kind, wanted)
    assert decision.kind is ChangeKind.KEEP
    if decision.kept:
        assert decision.settled(row, wanted) == stored
        assert decision.reason == f"{key}: read at the first start only"
    row.status = StackStatus.CREATE_IN_PROGRESS
    assert decide(row, name, kind, wanted).resume
    for status in (StackStatus.UPDATE_FAILED, StackStatus.UPDATE_IN_PROGRESS):
        row.status = status
        assert decide(row, name, kind, wanted).kind is ChangeKind.UPDATE
