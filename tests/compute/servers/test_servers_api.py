"""Servers over HTTP: registration, listing, changes, boot parameters, agents (compute-node-api.md §3-6)."""

from __future__ import annotations

from typing import Any

import pytest
from sqlalchemy import update
from tests.compute.conftest import NODE, OTHER, PROJECT, MakeWorld, World

from vetro.compute.tables import servers
from vetro.compute.work.agents import NodeTaskError

GIB = 2**30
SAMPLE = {
    "vms": {},
    "meminfo": {"total_bytes": 8 * GIB, "availrmem_bytes": 6 * GIB, "arcsize_bytes": 0},
    "diskinfo": {"pool_size_bytes": 100 * GIB, "pool_alloc_bytes": GIB},
    "timestamp": "2026-01-01T00:00:00.000Z",
}


async def test_answers_carry_the_headers_of_the_document(world: World) -> None:
    """Server, request id (the client's own), response time and server name are on every answer."""
    answer = await world.call("GET", "/servers", headers={"x-request-id": "mine-1"})
    assert answer.headers["server"] == "Compute Node API"
    assert answer.headers["x-request-id"] == "mine-1"
    assert answer.headers["x-response-time"].isdigit()
    assert answer.headers["x-server-name"]
    assert answer.headers["content-type"] == "application/json"


async def test_a_new_server_has_the_documents_defaults(any_world: World) -> None:
    """The record of a server that only registered."""
    one = await any_world.ok("GET", f"/servers/{NODE}")
    expected: dict[str, Any] = {
        "uuid": NODE,
        "hostname": "node-1",
        "status": "running",
        "setup": True,
        "headnode": False,
        "reserved": False,
        "reservoir": False,
        "reservation_ratio": 0.15,
        "default_console": "serial",
        "serial": "ttyb",
        "traits": {},
        "ram": 8192,
        "system_type": "Linux",
        "current_platform": "20260101T000000Z",
        "last_boot": "2023-11-14T22:13:20.000Z",
        "datacenter": "local",
    }
    assert {name: one[name] for name in expected} == expected
    assert one["memory_provisionable_bytes"] == int(8192 * 2**20 * 0.85)


async def test_extras_decide_what_a_list_shows(world: World) -> None:
    """No extras: neither groups nor last_heartbeat; any extras: last_heartbeat; fields imply extras."""
    await world.ok("POST", f"/servers/{NODE}/events/status", SAMPLE)

    async def keys(query: str) -> set[str]:
        return set((await world.ok("GET", f"/servers{query}"))[0])

    bare = await keys("")
    assert not bare & {"agents", "vms", "sysinfo", "memory_total_bytes", "last_heartbeat"}
    assert {"memory_total_bytes", "last_heartbeat"} <= await keys("?extras=memory")
    assert "disk_pool_size_bytes" in await keys("?extras=disk")
    assert "disk_pool_size_bytes" not in await keys("?extras=memory")
    assert {"agents", "vms", "sysinfo", "disk_pool_size_bytes"} <= await keys("?extras=all")
    assert await keys("?extras=status") == bare | {"last_heartbeat"}
    assert await keys("?fields=uuid,vms") == {"uuid", "vms"}
    capacity = await keys("?extras=capacity")
    assert {"memory_total_bytes", "agents"} <= capacity
    assert not capacity & {"vms", "sysinfo"}
    assert await keys("?extras=nonsense") == bare | {"last_heartbeat"}


async def test_lists_are_filtered_sorted_and_paged(any_world: World) -> None:
    """Conditions are ANDed, booleans in any case; pages follow the uuid."""
    await any_world.server(OTHER, Setup="false")
    await any_world.ok("POST", f"/servers/{OTHER}", {"reserved": True, "reservoir": True})

    async def uuids(query: str) -> list[str]:
        return [one["uuid"] for one in await any_world.ok("GET", f"/servers?{query}")]

    assert await uuids("") == [NODE, OTHER]
    assert await uuids("setup=TRUE") == [NODE]
    assert await uuids("setup=False") == [OTHER]
    assert await uuids("reserved=true&reservoir=true") == [OTHER]
    assert await uuids("headnode=true") == []
    assert await uuids("hostname=node-2") == [OTHER]
    assert await uuids(f"uuids={OTHER},{NODE}&limit=1") == [NODE]
    assert await uuids("limit=1&offset=1") == [OTHER]
    assert await uuids("uuids=ffffffff-0000-4000-8000-000000000000") == []
    assert await uuids("status=running&hostname=node-1") == [NODE]


@pytest.mark.parametrize(
    ("query", "status", "code", "field"),
    [
        ("limit=0", 400, "InvalidParameters", "limit"),
        ("limit=1001", 400, "InvalidParameters", "limit"),
        ("limit=x", 500, "InvalidParameters", "limit"),
        ("offset=-1", 500, "InvalidParameters", "offset"),
        ("offset=x", 500, "InvalidParameters", "offset"),
        ("setup=yes", 500, "InvalidParameters", "setup"),
        ("extras=a b", 500, "InvalidParameters", "extras"),
        ("uuids=!", 500, "InvalidParameters", "uuids"),
        ("hostname=%20a", 500, "InvalidParameters", "hostname"),
        ("nonsense=1", 409, "InvalidArgument", None),
    ],
)
async def test_bad_list_parameters(
    world: World, query: str, status: int, code: str, field: str | None
) -> None:
    """Each bad parameter has the status and the code of the document."""
    answer = await world.call("GET", f"/servers?{query}")
    body = answer.json()
    assert (answer.status, body["code"]) == (status, code)
    if field is None:
        assert body["message"] == "`nonsense` is not an explicitly defined parameter"
    else:
        assert [one["field"] for one in body["errors"]] == [field]
        assert body["errors"][0]["code"] == "Invalid"


async def test_a_status_sample_is_merged_and_an_old_one_ignored(any_world: World) -> None:
    """Missing keys stay, VMs are replaced, an event that is older than the last one changes nothing."""
    world = any_world
    vm = {"uuid": "v", "owner_uuid": PROJECT, "max_physical_memory": 1024, "state": "running"}
    await world.ok("POST", f"/servers/{NODE}/events/status", {**SAMPLE, "vms": {"v": vm}})
    one = await world.ok("GET", f"/servers/{NODE}")
    assert one["memory_available_bytes"] == 6 * GIB
    assert one["vms"]["v"]["max_physical_memory"] == 1024
    assert one["memory_provisionable_bytes"] == int(8 * GIB * 0.85) - GIB
    newer = {"meminfo": {"availrmem_bytes": 5}, "timestamp": "2026-01-01T00:00:05.000Z"}
    await world.ok("POST", f"/servers/{NODE}/events/status", newer)
    await world.ok("POST", f"/servers/{NODE}/events/status", {**SAMPLE, "vms": {"v": vm}})
    one = await world.ok("GET", f"/servers/{NODE}")
    assert one["memory_available_bytes"] == 5
    assert one["memory_total_bytes"] == 8 * GIB
    assert one["vms"] == {}
    status = await world.refused("POST", f"/servers/{OTHER}/events/status", SAMPLE)
    assert status == (404, "ResourceNotFound", f"Server {OTHER} not found")


async def test_a_node_whose_clock_was_put_back_is_heard_after_it_registers(world: World) -> None:
    """Samples are ordered by the node's clock only as long as its agent lives."""
    later = {"meminfo": {"availrmem_bytes": 5}, "timestamp": "2027-01-01T00:00:05.000Z"}
    await world.ok("POST", f"/servers/{NODE}/events/status", later)
    await world.server()
    await world.ok("POST", f"/servers/{NODE}/events/status", SAMPLE)
    assert (await world.ok("GET", f"/servers/{NODE}"))["memory_available_bytes"] == 6 * GIB


async def test_events_vms_leaves_memory_alone(world: World) -> None:
    """The superset's event carries VMs only."""
    await world.ok("POST", f"/servers/{NODE}/events/status", SAMPLE)
    await world.ok("POST", f"/servers/{NODE}/events/vms", {"vms": {"v": {"uuid": "v"}}})
    one = await world.ok("GET", f"/servers/{NODE}")
    assert list(one["vms"]) == ["v"]
    assert one["memory_available_bytes"] == 6 * GIB


async def test_a_partial_event_leaves_other_vms_alone(world: World) -> None:
    """An agent tells of the VMs that changed; they join the others, in what waits to be written too."""
    path = f"/servers/{NODE}/events"
    one, two, three = ({"uuid": name, "state": "running"} for name in "abc")
    await world.ok("POST", f"{path}/status", {**SAMPLE, "vms": {"a": one, "b": two}})
    changed = {"vms": {"b": {**two, "state": "stopped"}, "c": three}, "partial": True}
    await world.ok("POST", f"{path}/vm", changed)
    shown = (await world.ok("GET", f"/servers/{NODE}"))["vms"]
    assert {name: vm["state"] for name, vm in shown.items()} == {
        "a": "running", "b": "stopped", "c": "running",
    }  # fmt: skip


async def test_a_whole_status_overtaken_by_a_partial_event_tells_the_rest(world: World) -> None:
    """It was read before: its VMs are old, its memory is not."""
    path, second = f"/servers/{NODE}/events", "2027-01-01T00:00:0{}.000Z".format
    held = {name: {"uuid": name, "state": "running"} for name in "ab"}
    old = {"vms": {"a": held["a"]}, "meminfo": {"availrmem_bytes": 7}, "timestamp": second(1)}
    await world.ok("POST", f"{path}/status", {**SAMPLE, "vms": held, "timestamp": second(0)})
    partial = {"vms": {"b": held["b"]}, "partial": True, "timestamp": second(2)}
    await world.ok("POST", f"{path}/vm", partial)
    await world.ok("POST", f"{path}/status", old)
    one = await world.ok("GET", f"/servers/{NODE}")
    assert (list(one["vms"]), one["memory_available_bytes"]) == (["a", "b"], 7)
    older = {**old, "meminfo": {"availrmem_bytes": 5}, "timestamp": second(0)}
    await world.ok("POST", f"{path}/status", older)
    assert (await world.ok("GET", f"/servers/{NODE}"))["memory_available_bytes"] == 7


CHANGES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"comments": "a", "rack_identifier": "r1"}, {"comments": "a", "rack_identifier": "r1"}),
    ({"reserved": True, "reservoir": True}, {"reserved": True, "reservoir": True}),
    ({"datacenter_name": "dc"}, {"datacenter": "dc"}),
    ({"next_reboot": "2030-01-02T03:04:05.678Z"}, {"next_reboot": "2030-01-02T03:04:05.678Z"}),
    ({"next_reboot": ""}, {"next_reboot": ""}),
    ({"traits": {"ssd": True}, "setting_up": True}, {"traits": {"ssd": True}, "setting_up": True}),
    ({"reservation_ratio": 0}, {"memory_provisionable_bytes": 8192 * 2**20}),
    ({"transitional_status": "rebooting"}, {"status": "running"}),
    ({"boot_platform": "20260101T000000Z"}, {"boot_platform": "20260101T000000Z"}),
    ({"boot_params": {"a": "1"}, "serial": "ttya"}, {"boot_params": {"a": "1"}, "serial": "ttya"}),
]


@pytest.mark.parametrize(("change", "shown"), CHANGES)
async def test_what_an_operator_changes_is_shown(
    world: World, change: dict[str, Any], shown: dict[str, Any]
) -> None:
    """ServerUpdate answers 204 and the record follows."""
    answer = await world.call("POST", f"/servers/{NODE}", change)
    assert (answer.status, answer.content) == (204, b"")
    one = await world.ok("GET", f"/servers/{NODE}")
    assert {name: one[name] for name in shown} == shown


@pytest.mark.parametrize(
    ("change", "status", "message"),
    [
        ({"hostname": "x"}, 409, "`hostname` is not an explicitly defined parameter"),
        ({"next_reboot": "soon"}, 409, "Invalid date for next_reboot; not an ISO date format"),
        (
            {"next_reboot": "2030-13-41T03:04:05.678Z"},
            409,
            "Invalid date for next_reboot; not an ISO date format",
        ),
        ({"overprovision_ratios": {"gpu": 1}}, 409, "Invalid key gpu"),
        ({"overprovision_ratios": {"ram": "1"}}, 409, "Invalid type for ram"),
        ({"overprovision_ratios": {"ram": -1}}, 409, "Invalid value for ram"),
        ({"reservation_ratio": 2}, 409, "Invalid value for reservation_ratio; must be from 0 to 1"),
        ({"boot_platform": "x"}, 500, "failed to find given platform image, x"),
        ({"reserved": "true"}, 500, "Request parameters failed validation"),
    ],
)
async def test_changes_that_are_refused(
    world: World, change: dict[str, Any], status: int, message: str
) -> None:
    """Undeclared names, wrong values and unknown platforms change nothing."""
    before = await world.ok("GET", f"/servers/{NODE}")
    refused = await world.refused("POST", f"/servers/{NODE}", change)
    assert (refused[0], refused[2]) == (status, message)
    after = await world.ok("GET", f"/servers/{NODE}")
    assert after == {**before, "last_heartbeat": after["last_heartbeat"]}


async def test_all_failing_rules_are_told_in_declared_order(world: World) -> None:
    """Several wrong parameters give several entries."""
    body: dict[str, Any] = {
        "setup": 1,
        "agents": 1,
        "comments": " x",
        "traits": [],
        "etag_retries": "x",
    }
    answer = await world.call("POST", f"/servers/{NODE}", body)
    assert answer.json()["errors"] == [
        {"field": "agents", "code": "Invalid", "message": "value was not an array"},
        {
            "field": "comments",
            "code": "Invalid",
            "message": "value contains leading or trailing whitespace",
        },
        {"field": "etag_retries", "code": "Invalid", "message": "value was not a number"},
        {
            "field": "traits",
            "code": "Invalid",
            "message": "value is not an object. (was: [object Array])",
        },
        {"field": "setup", "code": "Invalid", "message": "value was not true or false"},
    ]


async def test_ratios_of_a_set_up_server_go_to_its_agent_first(world: World) -> None:
    """They are stored when the agent took them, and not when it refused."""
    await world.ok("POST", f"/servers/{NODE}", {"overprovision_ratios": {"ram": 2, "cpu": 4}})
    assert world.nodes.last("server_overprovision_ratio").params == {
        "server_uuid": NODE,
        "value": "ram=2&cpu=4",
    }
    assert (await world.ok("GET", f"/servers/{NODE}"))["overprovision_ratio"] == 2
    world.nodes.answers["server_overprovision_ratio"] = NodeTaskError("no value given")
    refused = await world.refused("POST", f"/servers/{NODE}", {"overprovision_ratios": {"ram": 3}})
    assert refused == (500, "InternalError", "no value given")
    assert (await world.ok("GET", f"/servers/{NODE}"))["overprovision_ratio"] == 2


async def test_the_prepopulate_order(world: World) -> None:
    """The server's uuid, its record, the VM's uuid, running; all before parameters."""
    refused = world.refused
    assert await refused("GET", "/servers/nonsense?x=1") == (
        409, "InvalidArgument", "Invalid server_uuid",
    )  # fmt: skip
    assert await refused("GET", f"/servers/{OTHER}/vms/nonsense") == (
        404, "ResourceNotFound", f"Server {OTHER} not found",
    )  # fmt: skip
    async with world.database.transaction() as tx:
        await tx.execute(update(servers).values(status="unknown"))
    assert await refused("GET", f"/servers/{NODE}/vms/nonsense") == (
        409, "InvalidArgument", "Invalid vm_uuid",
    )  # fmt: skip
    assert await refused("GET", f"/servers/{NODE}/vms/{OTHER}") == (
        409, "ServerNotRunning", "Operation attempted on server which is not running",
    )  # fmt: skip
    assert (await world.ok("GET", f"/servers/{NODE}/vms")) == []


async def test_unknown_paths_and_verbs(world: World) -> None:
    """404 names the path, 405 the verbs that there are."""
    assert await world.refused("GET", "/nothing/here") == (
        404, "ResourceNotFound", "/nothing/here does not exist",
    )  # fmt: skip
    answer = await world.call("DELETE", "/ping")
    assert (answer.status, answer.json()["code"]) == (405, "MethodNotAllowed")
    assert "GET" in answer.headers["allow"]


async def test_bodies_that_are_not_objects(world: World) -> None:
    """Bad JSON is 400 InvalidContent, other JSON 500 InvalidParameters, forms are read."""
    path = f"/servers/{NODE}"

    async def send(content: bytes, kind: str = "application/json") -> tuple[int, str]:
        answer = await world.call("POST", path, content=content, headers={"Content-Type": kind})
        said: dict[str, Any] = answer.json() or {}
        return answer.status, said.get("code", "")

    assert await send(b"{") == (400, "InvalidContent")
    assert await send(b"[1]") == (500, "InvalidParameters")
    assert await send(b'"x"') == (500, "InvalidParameters")
    assert await send(b"") == (204, "")
    assert await send(b"null") == (204, "")
    assert await send(b"comments=form", "application/x-www-form-urlencoded") == (204, "")
    assert (await world.ok("GET", path))["comments"] == "form"
    assert (await send(b"<a/>", "text/xml"))[0] == 415


async def test_a_deleted_server_leaves_nothing(any_world: World) -> None:
    """Record, status entry and tickets go; the node registers again when it lives."""
    world = any_world
    ticket = {"scope": "vm", "id": "x", "expires_at": "3000"}
    made = await world.ok("POST", f"/servers/{NODE}/tickets", ticket)
    assert (await world.call("DELETE", f"/servers/{NODE}")).status == 204
    assert (await world.refused("GET", f"/servers/{NODE}"))[0] == 404
    assert (await world.refused("GET", f"/tickets/{made['uuid']}"))[0] == 404
    assert world.service.heartbeats.last(NODE) is None
    await world.server()
    assert (await world.ok("GET", f"/servers/{NODE}"))["status"] == "running"


@pytest.mark.parametrize(
    ("sysinfo", "status"),
    [
        ({"UUID": OTHER}, 409),
        ({}, 409),
        ([], 500),
        (None, 500),
        ({"UUID": NODE, "Boot Time": "soon", "Network Interfaces": [1], "Hostname": 5}, 200),
        ({"UUID": NODE, "Boot Time": 1e300, "MiB of Memory": {"a": 1}, "Admin IP": "dhcp"}, 200),
        ({"UUID": NODE, "Network Interfaces": {"e": {"NIC Names": "x", "MAC Address": 1}}}, 200),
    ],
)
async def test_odd_sysinfo_never_breaks_the_service(
    world: World, sysinfo: Any, status: int
) -> None:
    """A wrong uuid is 409, a wrong type 500 InvalidParameters; odd values are taken as unknown."""
    answer = await world.call("POST", f"/servers/{NODE}/sysinfo", {"sysinfo": sysinfo})
    assert answer.status == status, answer.text
    assert (await world.call("GET", f"/servers/{NODE}")).status == 200


async def test_the_agents_address(world: World) -> None:
    """CN Agent IP, else Admin IP, else the interface with the admin tag; 5309 unless a port is told."""

    async def url(**info: Any) -> str:
        await world.server(**{"Admin IP": "dhcp", **info})
        async with world.database.read() as tx:
            return (await world.service.servers.agent(tx, NODE)).url

    assert await url(**{"CN Agent IP": "10.0.0.9", "CN Agent Port": 99}) == "http://10.0.0.9:99"
    assert await url(**{"Admin IP": "10.0.0.8"}) == "http://10.0.0.8:5309"
    assert await url() == "http://127.0.0.1:5309"
    assert await url(**{"CN Agent IP": "fd00::1", "CN Agent Port": "7"}) == "http://[fd00::1]:7"


async def test_nodes_speak_for_themselves_only(any_world: World) -> None:
    """A node's own key opens its own events and sysinfo; other servers' and operators' calls are shut."""
    call = any_world.call
    own = {"token": "", "headers": any_world.key_of(NODE)}
    other = {"token": "", "headers": any_world.key_of(OTHER)}
    sent: tuple[tuple[str, dict[str, Any]], ...] = (
        ("/events/heartbeat", {}),
        ("/events/status", SAMPLE),
        ("/sysinfo", {"sysinfo": {"UUID": NODE, "Setup": True, "Admin IP": "127.0.0.1"}}),
        ("", {"agents": []}),
    )
    for path, body in sent:
        for headers, wanted in ((own, (200, 204)), (other, (403,))):
            answer = await call("POST", f"/servers/{NODE}{path}", body, **headers)
            assert answer.status in wanted, (path, answer.text)
    for path in (f"/servers/{NODE}", "/tickets", "/jobs"):
        assert (await call("GET", path, **own)).status == 403
    assert (await call("POST", f"/servers/{NODE}", {"comments": "x"}, **own)).status == 403
    assert (await call("GET", f"/servers/{NODE}/key", token="user")).status == 403
    forged = {"Authorization": f"Bearer vn1.{NODE}.{'0' * 64}"}
    answer = await call("POST", f"/servers/{NODE}/events/heartbeat", {}, token="", headers=forged)
    assert (answer.status, answer.json()["code"]) == (401, "InvalidCredentials")
    key = (await any_world.ok("GET", f"/servers/{NODE}/key"))["key"]
    assert {"Authorization": f"Bearer {key}"} == any_world.key_of(NODE)


async def test_the_agent_is_shown_the_key_it_registered_with(world: World) -> None:
    """The shared secret for one that uses it, its own key for one that has one."""
    await world.ok("POST", f"/servers/{NODE}/nop", {})
    info = {"UUID": NODE, "Setup": True, "Admin IP": "127.0.0.1"}
    answer = await world.call(
        "POST", f"/servers/{NODE}/sysinfo", {"sysinfo": info}, token="", headers=world.key_of(NODE)
    )
    assert answer.status == 200
    async with world.database.read() as tx:
        agent = await world.service.servers.agent(tx, NODE)
    assert {"Authorization": f"Bearer {agent.key}"} == world.key_of(NODE)


async def test_a_trusted_network_needs_no_tokens(make_world: MakeWorld) -> None:
    """The seed's style is a switch; without it nothing but ping is open."""
    closed = await make_world()
    assert (await closed.call("GET", "/servers", token="")).status == 401
    assert (await closed.call("GET", "/ping", token="")).status == 200
    trusted = await make_world(trusted_network=True)
    assert (await trusted.call("GET", "/servers", token="")).status == 200
    body = {"sysinfo": {"UUID": OTHER, "Setup": True}}
    assert (await trusted.call("POST", f"/servers/{OTHER}/sysinfo", body, token="")).status == 200
    assert (await trusted.call("DELETE", f"/servers/{OTHER}", token="")).status == 204


async def test_users_see_their_own_vms_only(world: World) -> None:
    """A project's user sees which servers his VMs are on, nothing of the machines, and his VMs."""
    other = await world.vm(owner_uuid="somebody")
    assert await world.ok("GET", "/servers?extras=all", token="user") == []
    mine = await world.vm()
    (one,) = await world.ok("GET", "/servers?extras=all", token="user")
    assert sorted(one) == ["status", "uuid", "vms"]
    assert list(one["vms"]) == [mine]
    assert await world.ok("GET", "/servers?fields=uuid", token="user") == [{"uuid": NODE}]
    assert await world.ok("GET", f"/servers?uuids={OTHER}", token="user") == []
    for given in ("hostname=node-1", "setup=true", "status=running"):
        assert (await world.refused("GET", f"/servers?{given}", token="user"))[0] == 403
    assert (await world.call("GET", f"/servers/{NODE}/vms/{mine}", token="user")).status == 200
    assert (await world.call("GET", f"/servers/{NODE}/vms/{other}", token="user")).status == 404
    assert (await world.call("GET", f"/servers/{NODE}", token="user")).status == 403


# Boot parameters


# The service itself
