"""Whose it is, whatever happens between: deaths, lost answers, resources that change their names."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from tests.clouds import is_empty
from tests.stacks import test_crashes as crashes
from tests.stacks.conftest import EXTERNAL_NETWORK, PROJECT

from vetro.compute.client.calls import FLOATING_IPS
from vetro.compute.wire import FloatingIpChange
from vetro.stacks import MIGRATIONS, StackEngine, StackStatus
from vetro.stacks import native as native_module
from vetro.stacks.memory import MemoryCompute, MemoryStacks, MemoryStore
from vetro.stacks.resources import TYPES
from vetro.stacks.resources.base import Relation
from vetro.stacks.state.records import process_owner
from vetro.stacks.tables import metadata
from vetro.storage import Database, MigrationSet, migrate

NET = {"get_resource": "net"}
SUB = {"subnet": {"get_resource": "sub"}}


def made(name: str, /, **properties: Any) -> dict[str, Any]:
    """A resource."""
    return {"type": name, "properties": properties}


def ref(name: str) -> dict[str, str]:
    """``get_resource``."""
    return {"get_resource": name}


BASE: dict[str, Any] = {
    "net": made("OS::Neutron::Net"),
    "sub": made("OS::Neutron::Subnet", network=NET, cidr="10.0.0.0/24"),
    "router": made("OS::Neutron::Router"),
    "port": made("OS::Neutron::Port", network=NET, fixed_ips=[SUB]),
    "free": made("OS::Neutron::Port", network=NET, fixed_ips=[SUB]),
    "fip": made("OS::Neutron::FloatingIP", floating_network=EXTERNAL_NETWORK),
    "vol": made("OS::Cinder::Volume", size=1),
    "vm": made(
        "OS::Nova::Server", flavor="m1.tiny", image="debian", networks=[{"port": ref("port")}]
    ),
}
# Each relation with the base's resources in angle brackets.
RELATIONS: dict[str, dict[str, Any]] = {
    "OS::Nova::KeyPair": {"name": "same", "public_key": "ssh-ed25519 A"},
    "OS::Neutron::RouterInterface": {"router": "<router>", "subnet": "<sub>"},
    "OS::Neutron::FloatingIPAssociation": {"floatingip_id": "<fip>", "port_id": "<port>"},
    "OS::Nova::FloatingIPAssociation": {"floating_ip": "<fip>", "server_id": "<vm>"},
    "OS::Cinder::VolumeAttachment": {"volume_id": "<vol>", "instance_uuid": "<vm>"},
}


def relations(compute: MemoryCompute) -> Any:
    """What belongs together now, without what only follows from it."""
    return (
        dict(compute.keypair_list),
        {uuid: [*one.subnets] for uuid, one in compute.router_list.items()},
        {uuid: one.port_uuid for uuid, one in compute.floating_list.items()},
        {uuid: one.vm_uuid for uuid, one in compute.volume_list.items()},
    )


async def by_hand(compute: MemoryCompute, ids: dict[str, str], name: str) -> None:
    """Make what the relation is."""
    if name == "OS::Nova::KeyPair":
        await compute.create_keypair("same", project_id=PROJECT, public_key="ssh-ed25519 A")
    elif name == "OS::Neutron::RouterInterface":
        await compute.add_router_interface(ids["router"], ids["sub"])
    elif name == "OS::Cinder::VolumeAttachment":
        await compute.attach_volume(ids["vol"], server=ids["vm"], device="")
    else:
        change = FloatingIpChange(port_uuid=ids["port"])
        await compute.change(FLOATING_IPS, ids["fip"], change)


def test_every_relation_is_tried() -> None:
    """A new one is noticed here."""
    assert {name for name, kind in TYPES.items() if isinstance(kind, Relation)} == set(RELATIONS)


@pytest.mark.parametrize("name", RELATIONS)
@pytest.mark.parametrize("hand", ["nobody", "before", "after"])
@pytest.mark.parametrize("then", ["delete", "update"])
async def test_death_at_every_step_leaves_what_is_not_ours_and_nothing_that_is(
    monkeypatch: pytest.MonkeyPatch, name: str, hand: str, then: str
) -> None:
    """Also when somebody makes the same by hand between the death and what follows it."""
    boot, _, _, _ = process_owner().split(":")
    monkeypatch.setattr(native_module, "process_owner", lambda: f"{boot}:4194305:1:dead")
    step = 0
    while True:
        step += 1
        store, compute = MemoryStore(), MemoryCompute()
        stacks = StackEngine(store, compute)
        base = await stacks.create(PROJECT, "base", {"resources": BASE})
        ids = {one: str(found.physical_id) for one, found in base.resources.items()}
        filled = {
            key: ids.get(str(value).strip("<>"), value) for key, value in RELATIONS[name].items()
        }
        if hand == "before":
            await by_hand(compute, ids, name)
        before = relations(compute)
        template = {"resources": {"it": made(name, **filled)}}
        process = crashes.Process(store, compute, step)
        with contextlib.suppress(crashes.Death):
            await process.stacks.create(PROJECT, "s", template)
        compute.before = compute.after = lambda call: None
        if not process.dead:
            break
        if hand == "after":
            if relations(compute) != before:
                continue  # ours is there: nobody can make it
            await by_hand(compute, ids, name)
            before = relations(compute)
        if then == "update":
            await stacks.update(PROJECT, "s", template)
            if hand != "nobody":
                assert relations(compute) == before, step
        assert await stacks.delete(PROJECT, "s") is None, step
        assert relations(compute) == before, step
    assert step > 1


@pytest.mark.parametrize("name", RELATIONS)
async def test_an_answer_that_was_lost_leaves_nothing(
    stacks: StackEngine, compute: MemoryCompute, name: str
) -> None:
    """The service has made it, and nobody knows: the end of the stack finds it by its mark."""
    base = await stacks.create(PROJECT, "base", {"resources": BASE})
    ids = {one: str(found.physical_id) for one, found in base.resources.items()}
    filled = {key: ids.get(str(one).strip("<>"), one) for key, one in RELATIONS[name].items()}
    before = relations(compute)

    def lose(_call: str) -> None:
        raise ConnectionError("reset")

    compute.after = lose
    stack = await stacks.create(PROJECT, "s", {"resources": {"it": made(name, **filled)}})
    compute.after = lambda call: None
    assert stack.status is StackStatus.CREATE_FAILED
    assert relations(compute) != before
    assert await stacks.delete(PROJECT, "s") is None
    assert relations(compute) == before


# Each row: what is there first and what it becomes; the relation is there at the end as at the beginning.
KEY = {"name": "k", "public_key": "ssh-ed25519 A"}
USER = made(
    "OS::Nova::Server",
    flavor="m1.tiny",
    image="debian",
    key_name="k",
    networks=[{"port": ref("free")}],
)
JOINED = {"router": ref("router"), "subnet": ref("sub")}
AFTER = {**made("OS::Neutron::FloatingIP", floating_network=EXTERNAL_NETWORK)}
LED = {"floatingip_id": ref("fip"), "port_id": ref("port")}
GIVEN = {"volume_id": ref("vol"), "instance_uuid": ref("vm")}
SECOND = {"fip2": made("OS::Neutron::FloatingIP", floating_network=EXTERNAL_NETWORK)}
MOVES: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    (
        "a key pair that a server requires",
        {"a": made("OS::Nova::KeyPair", **KEY), "user": {**USER, "depends_on": ["a"]}},
        {"b": made("OS::Nova::KeyPair", **KEY), "user": {**USER, "depends_on": ["b"]}},
    ),
    (
        "another key under the name that a server requires",
        {"a": made("OS::Nova::KeyPair", **KEY), "user": {**USER, "depends_on": ["a"]}},
        {"b": made("OS::Nova::KeyPair", name="k", public_key="ssh-ed25519 B"),
         "user": {**USER, "depends_on": ["b"]}},
    ),
    (
        "an interface that an address requires",
        {"a": made("OS::Neutron::RouterInterface", **JOINED), "f": {**AFTER, "depends_on": ["a"]}},
        {"b": made("OS::Neutron::RouterInterface", **JOINED), "f": {**AFTER, "depends_on": ["b"]}},
    ),
    (
        "an address under another name",
        {"a": made("OS::Neutron::FloatingIPAssociation", **LED)},
        {"b": made("OS::Neutron::FloatingIPAssociation", **LED)},
    ),
    (
        "addresses that change places",
        {"a": made("OS::Neutron::FloatingIPAssociation", **LED), **SECOND,
         "b": made("OS::Neutron::FloatingIPAssociation", floatingip_id=ref("fip2"), port_id=ref("free"))},
        {"a": made("OS::Neutron::FloatingIPAssociation", floatingip_id=ref("fip2"), port_id=ref("port")),
         **SECOND, "b": made("OS::Neutron::FloatingIPAssociation", floatingip_id=ref("fip"),
                             port_id=ref("free"))},
    ),
    (
        "an address that another association gets while its own gets a new one",
        {"a": made("OS::Neutron::FloatingIPAssociation", **LED)},
        {"a": made("OS::Neutron::FloatingIPAssociation", floatingip_id=ref("fip2"), port_id=ref("port")),
         **SECOND, "0": made("OS::Neutron::FloatingIPAssociation", floatingip_id=ref("fip"),
                             port_id=ref("free"))},
    ),
    (
        "an address led to another port, in place",
        {"a": made("OS::Neutron::FloatingIPAssociation", **LED)},
        {"a": made("OS::Neutron::FloatingIPAssociation", floatingip_id=ref("fip"), port_id=ref("free"))},
    ),
    (
        "an association of the other kind",
        {"a": made("OS::Neutron::FloatingIPAssociation", **LED)},
        {"a": made("OS::Nova::FloatingIPAssociation", floating_ip=ref("fip"), server_id=ref("vm"))},
    ),
    (
        "a volume at another place",
        {"a": made("OS::Cinder::VolumeAttachment", **GIVEN)},
        {"a": made("OS::Cinder::VolumeAttachment", **GIVEN, mountpoint="/x")},
    ),
    (
        "a volume under another name",
        {"a": made("OS::Cinder::VolumeAttachment", **GIVEN)},
        {"b": made("OS::Cinder::VolumeAttachment", **GIVEN)},
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("first", "then"), [row[1:] for row in MOVES], ids=[one[0] for one in MOVES]
)
@pytest.mark.parametrize("back", [False, True], ids=["there", "and-back"])
async def test_within_a_stack_a_relation_goes_from_one_resource_to_another(
    first: dict[str, Any], then: dict[str, Any], back: bool
) -> None:
    """Nothing of it is refused, nothing is lost with the resource that had it, nothing stays."""
    stacks = MemoryStacks()
    made_first = await stacks.create(PROJECT, "s", {"resources": {**BASE, **first}})
    assert made_first.status is StackStatus.CREATE_COMPLETE, made_first.reason
    steps = (then, first) if back else (then,)
    for step in steps:
        stack = await stacks.update(PROJECT, "s", {"resources": {**BASE, **step}})
        assert (stack.status, stack.reason) == (StackStatus.UPDATE_COMPLETE, "")
    fresh = MemoryStacks()
    await fresh.create(PROJECT, "s", {"resources": {**BASE, **steps[-1]}})
    assert _counted(stacks.compute) == _counted(fresh.compute) != NOTHING
    assert await stacks.delete(PROJECT, "s") is None
    assert is_empty(stacks.compute)


NOTHING: Any = ({}, [0], [False], [False])


def _counted(compute: MemoryCompute) -> Any:
    """Relations without ids."""
    keys, routers, addresses, volumes = relations(compute)
    return (
        keys,
        sorted(len(one) for one in routers.values()),
        sorted(one is not None for one in addresses.values()),
        sorted(one is not None for one in volumes.values()),
    )


async def test_one_of_two_resources_that_are_the_same_is_refused(
    stacks: StackEngine, compute: MemoryCompute
) -> None:
    """And taken out again it does not take the other one's with it."""
    twins = {one: made("OS::Nova::KeyPair", **KEY) for one in ("a", "b")}
    stack = await stacks.create(PROJECT, "s", {"resources": twins})
    assert stack.status is StackStatus.CREATE_FAILED
    assert "the key pair k exists already: use it without making it" in stack.reason
    assert stack.failure is not None
    del twins[stack.failure.resource]
    stack = await stacks.update(PROJECT, "s", {"resources": twins})
    assert (stack.status, stack.reason) == (StackStatus.UPDATE_COMPLETE, "")
    assert compute.keypair_list == {(PROJECT, "k"): "ssh-ed25519 A"}
    assert await stacks.delete(PROJECT, "s") is None
    assert is_empty(compute)


async def test_what_was_taken_by_hand_and_made_again_is_not_ours(
    stacks: StackEngine, compute: MemoryCompute
) -> None:
    """The mark went with what the stack had made."""
    await stacks.create(PROJECT, "s", {"resources": {"a": made("OS::Nova::KeyPair", **KEY)}})
    await compute.delete_keypair("k", project_id=PROJECT)
    await compute.create_keypair("k", project_id=PROJECT, public_key="ssh-ed25519 A")
    assert await stacks.delete(PROJECT, "s") is None
    assert compute.keypair_list == {(PROJECT, "k"): "ssh-ed25519 A"}


@pytest.mark.parametrize("name", RELATIONS)
async def test_what_a_version_without_marks_made_is_changed_and_removed(name: str) -> None:
    """Its row has an empty mark, and so has what it made."""
    stacks = MemoryStacks()
    base = await stacks.create(PROJECT, "base", {"resources": BASE})
    ids = {one: str(found.physical_id) for one, found in base.resources.items()}
    filled = {key: ids.get(str(one).strip("<>"), one) for key, one in RELATIONS[name].items()}
    before = relations(stacks.compute)
    await stacks.create(PROJECT, "s", {"resources": {"it": made(name, **filled)}})
    [row] = next(one for one in stacks.store.stacks.values() if one.name == "s").resources
    row.claim = ""
    stacks.compute.makers.clear()
    if name == "OS::Nova::FloatingIPAssociation":
        row.data = {"port": ids["port"]}
    if name == "OS::Neutron::FloatingIPAssociation":
        moved = {"resources": {"it": made(name, **{**filled, "port_id": ids["free"]})}}
        assert (await stacks.update(PROJECT, "s", moved)).status is StackStatus.UPDATE_COMPLETE
    assert await stacks.delete(PROJECT, "s") is None
    assert relations(stacks.compute) == before


async def test_rows_from_before_there_were_marks_say_what_may_be_removed(tmp_path: Path) -> None:
    """What was made, or may be half made, bears an empty mark; what was refused is nobody's to remove."""
    first = next(one for one in MIGRATIONS.directory.iterdir() if one.name.startswith("0001"))
    shutil.copy(first, tmp_path)
    database = await Database.open(f"sqlite:///{tmp_path}/old.db")
    await migrate(database, [MigrationSet("stacks", tmp_path, metadata)])
    rows = [
        ("made", "OS::Nova::KeyPair", "CREATE_COMPLETE"),
        ("refused", "OS::Nova::KeyPair", "CREATE_FAILED"),
        ("half", "OS::Nova::Server", "CREATE_FAILED"),
    ]
    async with database.transaction() as tx:
        await tx.execute(
            text(
                "INSERT INTO stacks_stacks (id, project_id, name, status, reason, template, parameters,"
                " files, tags, outputs, created_at, fence)"
                " VALUES ('s', 'p', 's', 'CREATE_FAILED', '', '', '', '', '[]', '', 0, 1)"
            )
        )
        for name, kind, status in rows:
            await tx.execute(
                text(
                    "INSERT INTO stacks_resources (stack_id, name, type, physical_id, current, retain,"
                    " status, reason, properties, data, requires)"
                    " VALUES ('s', :name, :kind, 'x', 1, 0, :status, '', '', '', '[]')"
                ),
                {"name": name, "kind": kind, "status": status},
            )
    await migrate(database, [MIGRATIONS])
    async with database.transaction() as tx:  # as a process of the version before does
        await tx.execute(
            text(
                "INSERT INTO stacks_resources (stack_id, name, type, physical_id, current, retain,"
                " status, reason, properties, data, requires)"
                " VALUES ('s', 'late', 'OS::Nova::Server', 'x', 1, 0, 'CREATE_COMPLETE', '', '', '',"
                " '[]')"
            )
        )
    async with database.read() as tx:
        found = await tx.execute(text("SELECT name, claim FROM stacks_resources"))
        assert {row.name: row.claim for row in found} == {
            "made": "",
            "refused": None,
            "half": "",
            "late": "",
        }
    await database.close()


async def test_a_subnet_that_is_retained_keeps_its_range() -> None:
    """The one that replaces it is refused in the same range: nothing gives it the other one's addresses."""
    stacks = MemoryStacks()
    kept: dict[str, Any] = {**BASE["sub"], "deletion_policy": "Retain"}
    resources = {"net": BASE["net"], "sub": kept}
    await stacks.create(PROJECT, "s", {"resources": resources})
    properties = {**kept["properties"], "cidr": "10.0.0.0/25"}
    narrower = {"net": BASE["net"], "sub": {**kept, "properties": properties}}
    stack = await stacks.update(PROJECT, "s", {"resources": narrower})
    assert "10.0.0.0/25 overlaps 10.0.0.0/24" in stack.reason
    assert [one.cidr for one in stacks.compute.subnet_list.values()] == ["10.0.0.0/24"]
