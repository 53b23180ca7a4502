"""Overprovisioning, VM limits, hypervisors and enough room (§5, §5.4, §5.5, §8)."""

from typing import Any

import pytest

GIB = 2**30
KVM = {"brand": "kvm"}
BHYVE = {"Bhyve Capable": True, "Bhyve Max Vcpus": 8}


def vms(build: Any, *changes: dict[str, Any]) -> dict[str, Any]:
    """Some VMs on a server, called 1, 2, …"""
    return {build.uuid(str(at)): build.held(**one) for at, one in enumerate(changes, 1)}


def test_capacity_check_value(build: Any) -> None:
    """The specification's example comes out to the MiB, at both ratios."""
    server = build.server(
        disk_kvm_zvol_volsize_bytes=40 * GIB,
        disk_zone_quota_bytes=100 * GIB,
        disk_zone_quota_used_bytes=20 * GIB,
        vms=vms(
            build,
            {"brand": "lx", "max_physical_memory": 4096, "cpu_cap": 400},
            {"brand": "kvm", "max_physical_memory": 9216, "cpu_cap": 200},
        ),
    )
    from vetro.compute.allocation import Allocator, Fleet, read_defaults

    for defaults, expected in (
        ({}, {"cpu": 1450, "ram": 42393, "disk": 816701}),
        (
            {"overprovision_ratio_ram": 2, "overprovision_ratio_disk": 2},
            {"cpu": 1450, "ram": 44441, "disk": 857661},
        ),
    ):
        found = Allocator(read_defaults(defaults)).capacity(Fleet([server]))
        assert found.capacities == {server["uuid"]: expected}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, (1600, 55705, 882278)),
        ({"sysinfo": {"CPU Online Count": 8}}, (800, 55705, 882278)),
        ({"reserved_memory_mib": 5}, (1600, 55700, 882278)),
        ({"vms": [{"state": "failed"}]}, (1600, 55705, 882278)),
        ({"vms": [{"cpu_cap": None}, {}]}, (-25, 53657, 882278)),
        ({"vms": [{}, {"cpu_cap": None}]}, (0, 53657, 882278)),
        ({"vms": [{"brand": "kvm"}]}, (1575, 54681, 872038)),
        ({"disk_zone_quota_used_bytes": None}, (1600, 55705, 882278)),
        ({"vms": [{"max_physical_memory": 10**6}]}, (1575, -944295, 882278)),
    ],
)
def test_capacity_formula(
    build: Any, changes: dict[str, Any], expected: tuple[int, int, int]
) -> None:
    """CPU, memory and disk left, each term of the formula by itself; floors go down."""
    from vetro.compute.allocation import Defaults
    from vetro.compute.allocation.capacity import CapacityRule, unreserved
    from vetro.compute.allocation.record import Record

    given = dict(changes)
    if "vms" in given:
        given["vms"] = vms(build, *given["vms"])
    # 0.94 TiB less what is used: the pool's own figure (80 GiB allocated) is the lower one.
    server = build.server(**given)
    cpu, ram, disk = unreserved(Record(server), CapacityRule.of(Defaults(), (4.0, 1.0, 1.0)))
    pool = (1024 * GIB * 0.94 - 80 * GIB) // 2**20
    own = (1024 * GIB * 0.94 - 15 * GIB) // 2**20 - (10240 if "kvm" in str(changes) else 0)
    assert (cpu, ram) == expected[:2]
    assert disk == min(pool, own)


def test_uncapped_vms_may_count_in_the_end(build: Any) -> None:
    """With ``zero_final`` the order of VMs does not matter: CPU is 0 when one has no cap."""
    from vetro.compute.allocation import Allocator, Fleet, read_defaults

    for listed in (({"cpu_cap": None}, {}), ({}, {"cpu_cap": None})):
        fleet = Fleet([build.server(vms=vms(build, *listed))])
        allocator = Allocator(read_defaults({"cpu_uncapped_policy": "zero_final"}))
        [left] = allocator.capacity(fleet).capacities.values()
        assert left["cpu"] == 0


def test_a_server_without_sysinfo_has_no_room(build: Any) -> None:
    """All three numbers are 0."""
    done = build.pipeline(
        ["calculate-server-unreserved", "hard-filter-min-ram"],
        [build.server(sysinfo=None) | {"sysinfo": None}],
        package={},
    )
    assert done.reasons == {"a": "VM's calculated 1024 RAM is less than server's spare 0"}


def test_capacity_says_what_it_left_out(build: Any) -> None:
    """Servers that cannot be judged are in ``errors``; what was missing is in ``warnings``."""
    from vetro.compute.allocation import Allocator, Fleet

    fleet = Fleet(
        [
            build.server("a", disk_zone_quota_used_bytes=None, vms=vms(build, {"quota": None})),
            build.server("b", status="unknown"),
            build.server("c", memory_total_bytes=0),
            build.server("d", setup=False),
        ]
    )
    found = Allocator().capacity(fleet)
    assert list(found.capacities) == [build.uuid("a")]
    assert found.errors == {
        build.uuid("b"): "Server has status: unknown",
        build.uuid("c"): 'property "memory_total_bytes": must have a minimum value of 1',
        build.uuid("d"): "not among: Servers which have been setup",
    }
    assert found.warnings == {
        build.uuid("a"): [
            "disk_zone_quota_used_bytes is missing: counted as 0",
            f"quota of VM {build.uuid('1')} is missing: counted as 0",
        ]
    }


# pipeline, changes of servers, VMs on them, request, names left, reasons
TABLE: list[tuple[Any, list[dict[str, Any]], dict[str, Any], str, dict[str, str]]] = [
    (
        "override-overprovisioning",
        [{}],
        {"defaults": {"disable_override_overprovisioning": True}},
        "a",
        {"skip": "Do not override overprovisioning numbers"},
    ),
    ("hard-filter-overprovision-ratios", [{}], {}, "a", {"skip": "No pkg provided"}),
    (
        "hard-filter-overprovision-ratios",
        [{"overprovision_ratios": {"ram": 1.0}}, {"overprovision_ratios": {"ram": 1.004}}, {}],
        {"package": {}},
        "ab",
        {"c": "Package over-provision ratio of 1.00 does not match server's null"},
    ),
    (
        "hard-filter-overprovision-ratios",
        [{"overprovision_ratios": {"cpu": 4, "ram": 1}}, {"overprovision_ratios": {"ram": 1}}],
        {"package": {"overprovision_cpu": "4", "overprovision_memory": 1}},
        "a",
        {"b": "Package over-provision ratio of 4.00 does not match server's null"},
    ),
    (
        "hard-filter-overprovision-ratios",
        [{"overprovision_ratios": {"net": 2, "ram": 1}}, {"overprovision_ratios": {"ram": 1}}],
        {"package": {"overprovision_memory": 1}},
        "b",
        {"a": "Package over-provision ratio of null does not match server's 2.00"},
    ),
    (
        ["override-overprovisioning", "hard-filter-overprovision-ratios"],
        [{"overprovision_ratios": {"ram": 7}}],
        {"package": {"overprovision_io": 3}},
        "a",
        {},
    ),
    (
        "hard-filter-capness",
        [{"vms": [{}]}, {"vms": [{}, {"cpu_cap": None}]}, {}],
        {"package": {"cpu_cap": 100}},
        "ac",
        {"b": "VM 2 has no cpu_cap, while the package does"},
    ),
    (
        "hard-filter-capness",
        [{"vms": [{}]}, {"vms": [{"cpu_cap": None}]}, {}],
        {},
        "bc",
        {"a": "VM 1 has a cpu_cap, while the package does not"},
    ),
    (
        "hard-filter-capness",
        [{"vms": [{}]}],
        {"defaults": {"ALLOC_FILTER_CAPNESS": False}},
        "a",
        {"skip": "Do not filter out cpu_cap disparities"},
    ),
    (
        "hard-filter-vm-count",
        [{"vms": [{}]}, {"vms": [{}, {}]}],
        {"defaults": {"filter_vm_limit": 2}},
        "a",
        {"b": "Server has 2 VMs (limit is 2)"},
    ),
    ("hard-filter-hvm", [{"vms": [KVM]}], {"vm": {"brand": "lx"}}, "a", {}),
    (
        "hard-filter-hvm",
        [{}, {"vms": [{"brand": "bhyve"}]}, {"vms": [{"brand": "bhyve"}],
          "sysinfo": {"HVM API": True}}, {"vms": [KVM]}],
        {"vm": KVM},
        "acd",
        {"b": "VM 1 has brand bhyve which is incompatible with new VMs using brand kvm"},
    ),
    (
        "hard-filter-hvm",
        [{}, {"sysinfo": BHYVE}, {"sysinfo": {**BHYVE, "Bhyve Max Vcpus": 4}},
         {"sysinfo": BHYVE, "vms": [KVM]}],
        {"vm": {"brand": "bhyve", "vcpus": 6}},
        "b",
        {
            "a": 'Server does not support "bhyve" VMs',
            "c": "bhyve VM undefined is requesting 6 vcpus whereas server supports 1 - 4 vcpus",
            "d": "VM 1 has brand kvm which is incompatible with new VMs using brand bhyve",
        },
    ),
    (
        "hard-filter-hvm",
        [{"sysinfo": {"Bhyve Capable": True, "CPU Total Cores": 4}}],
        {"vm": {"brand": "bhyve", "uuid": "x", "vcpus": 5}},
        "",
        {"a": "bhyve VM x is requesting 5 vcpus whereas server supports 1 - 4 vcpus"},
    ),
    (
        "hard-filter-hvm",
        [{"sysinfo": {"Bhyve Capable": True}}],
        {"vm": {"brand": "bhyve"}},
        "",
        {"a": "bhyve VM undefined is requesting -1 vcpus whereas server supports 1 - 16 vcpus"},
    ),
    (
        "hard-filter-min-ram",
        [{}, {"vms": [{"max_physical_memory": 54682}]}, {"vms": [{"max_physical_memory": 54681}]}],
        {"package": {}},
        "ac",
        {"b": "VM's calculated 1024 RAM is less than server's spare 1023"},
    ),
    (
        "hard-filter-min-ram",
        [{"vms": [{"max_physical_memory": 55000}]}],
        {"package": {"overprovision_memory": 3}},
        "a",
        {},
    ),
    (
        "hard-filter-min-ram",
        [{"vms": [{"max_physical_memory": 55600}]}],
        {"package": {"overprovision_memory": 3}},
        "",
        {"a": "VM's calculated 341.3333333333333 RAM is less than server's spare 105"},
    ),
    (
        "hard-filter-min-ram",
        [{"vms": [{"max_physical_memory": 55000}]}],
        {"package": {"overprovision_memory": 3}, "vm": {"brand": "bhyve"}},
        "",
        {"a": "VM's calculated 1024 RAM is less than server's spare 705"},
    ),
    (
        "hard-filter-min-ram",
        [{"memory_total_bytes": 1}],
        {"package": {}, "defaults": {"filter_min_resources": False}},
        "a",
        {"skip": "Do not filter out based on minimum free RAM"},
    ),
    (
        "hard-filter-min-ram",
        [{"overprovision_ratios": {"ram": 1.5}}, {}],
        {"package": {"overprovision_cpu": 1}},
        "b",
        {"a": "Package gave no RAM overprovision ratio, but server has ratio 1.5"},
    ),
    ("hard-filter-min-ram", [{"memory_total_bytes": 1}], {}, "a", {}),
    (
        "hard-filter-min-cpu",
        [{}, {"vms": [{"cpu_cap": 6101}]}],
        {"vm": {"cpu_cap": 300}, "package": {"overprovision_cpu": 4}},
        "a",
        {"b": "VM's calculated 75 CPU is less than server's spare 74"},
    ),
    (
        "hard-filter-min-cpu",
        [{"vms": [{"cpu_cap": 6400}]}],
        {"package": {"cpu_cap": 100, "overprovision_cpu": 3}},
        "",
        {"a": "VM's calculated 33.333333333333336 CPU is less than server's spare 0"},
    ),
    ("hard-filter-min-cpu", [{"vms": [{"cpu_cap": 9999}]}], {"package": {}}, "a", {}),
    (
        "hard-filter-min-cpu",
        [{"overprovision_ratios": {"cpu": 2}}, {}],
        {"vm": {"cpu_cap": 1}, "package": {}},
        "b",
        {"a": "Package gave no CPU overprovision ratio, but server has ratio 2"},
    ),
    (
        "hard-filter-min-cpu",
        [{}],
        {"defaults": {"filter_min_resources": False}},
        "a",
        {"skip": "Do not filter out based on minimum free CPU"},
    ),
    (
        "hard-filter-min-disk",
        [{}],
        {},
        "a",
        {"skip": "Vm and pkg have no quota"},
    ),
    (
        "hard-filter-min-disk",
        [{}],
        {"defaults": {"filter_min_resources": False}},
        "a",
        {"skip": "Do not filter out based on unreserved disk"},
    ),
    (
        "hard-filter-min-disk",
        [{}, {"overprovision_ratios": {"disk": 2}}],
        {"package": {"quota": 1}},
        "a",
        {"b": "Package gave no disk overprovision ratio, but server has ratio 2"},
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("pipeline", "changes", "request_", "left", "reasons"),
    TABLE,
    ids=[
        f"{row[0] if isinstance(row[0], str) else row[0][-1]}-{at}" for at, row in enumerate(TABLE)
    ],
)
def test_filter(
    build: Any,
    pipeline: Any,
    changes: list[dict[str, Any]],
    request_: dict[str, Any],
    left: str,
    reasons: dict[str, str],
) -> None:
    """Each filter keeps whom it must and says why the others went."""
    servers = []
    for name, change in zip("abcdef", changes, strict=False):
        given = dict(change)
        if "vms" in given:
            given["vms"] = vms(build, *given["vms"])
        servers.append(build.server(name, **given))
    done = build.pipeline(pipeline, servers, **request_)
    assert done.left == left
    texts = {key: text.replace(build.uuid("1"), "1").replace(build.uuid("2"), "2")
             for key, text in done.reasons.items()}  # fmt: skip
    assert texts == reasons


@pytest.mark.parametrize(
    ("brand", "image", "ratio", "need"),
    [
        # a quarter of the quota is spared by a ratio of 4; never for what has volumes of its own
        ("joyent", {}, 1, 10240 + 10240),
        ("joyent", {}, 4, 2560 + 10240),
        ("joyent", {}, 3, 3414 + 10240),
        ("kvm", {"image_size": 100}, 4, 10240 + 100 + 10240),
        ("bhyve", {"image_size": 100}, 4, 10240 + 100 + 10240),
        ("joyent", {"type": "zvol", "image_size": 7}, 4, 10240 + 7 + 10240),
        ("joyent", {"files": [{"size": 2**20}, {"size": 1}]}, 1, 10240 + 2 + 10240),
    ],
)
def test_disk_need(build: Any, brand: str, image: dict[str, Any], ratio: int, need: int) -> None:
    """A VM of 10 GiB is refused by a server with one MiB less than it needs, and taken by the next."""
    for spare, left in ((need - 1, ""), (need, "a")):
        # The pool's own figure decides: 0.94 of its size less what is allocated.
        size = 1000 * GIB
        server = build.server(
            disk_pool_size_bytes=size,
            disk_pool_alloc_bytes=int(size * 0.94) - spare * 2**20,
            disk_system_used_bytes=0,
            disk_installed_images_used_bytes=0,
        )
        done = build.pipeline(
            "hard-filter-min-disk",
            [server],
            vm={"quota": 10, "brand": brand},
            package={"overprovision_storage": ratio},
            image=image,
        )
        assert done.left == left
        if not left:
            text = f"VM's calculated {need} MiB disk is more than server's spare {spare} MiB"
            assert done.reasons == {"a": text}


def test_large_servers_are_kept_back(build: Any) -> None:
    """Of twenty servers the three emptiest go, and the rest is in order of free memory."""
    servers = [
        build.server(format(at, "x"), memory_total_bytes=(10 + at % 7) * GIB) for at in range(20)
    ]
    done = build.pipeline(
        ["calculate-server-unreserved", "hard-filter-large-servers"], servers, package={}
    )
    order = sorted(range(20), key=lambda at: -(at % 7))[3:]
    assert [int(one[-12:], 16) for one in done.result["steps"][-1]["remaining"]] == order
    assert "reasons" not in done.result["steps"][-1]
    assert build.pipeline("hard-filter-large-servers", servers[:6]).left == "012345"
    off = build.pipeline(
        "hard-filter-large-servers", servers, defaults={"filter_large_servers": "false"}
    )
    assert off.reasons == {"skip": "Do not filter out large servers"}


def ticket(build: Any, name: str, **changes: Any) -> dict[str, Any]:
    """An open provisioning ticket for a VM on server a."""
    extra = {"owner_uuid": build.owner, "max_physical_memory": 2048, "cpu_cap": 100, "quota": 10}
    return {
        "uuid": build.uuid(name),
        "server_uuid": build.uuid("a"),
        "scope": "vm",
        "action": "provision",
        "status": "active",
        "id": build.uuid(name),
        "extra": {**extra, **changes.pop("extra", {})},
        **changes,
    }


@pytest.mark.parametrize(
    ("changes", "ram"),
    [
        ({}, 55705 - 2048),
        ({"status": "queued"}, 55705 - 2048),
        ({"extra": {"brand": "kvm"}}, 55705 - 2048 - 1024),
        ({"extra": {"brand": "bhyve"}}, 55705 - 2048 - 1280),
        ({"status": "finished"}, 55705),
        ({"scope": "fw"}, 55705),
        ({"action": "destroy"}, 55705),
        ({"server_uuid": "elsewhere"}, 55705),
    ],
)
def test_open_tickets_hold_memory(build: Any, changes: dict[str, Any], ram: int) -> None:
    """A VM that a ticket announces counts as if it were there, with its hypervisor's share."""
    done = build.pipeline(
        ["calculate-ticketed-vms", "calculate-server-unreserved", "hard-filter-min-ram"],
        [build.server("a")],
        tickets=[ticket(build, "7", **changes)],
        vm={"ram": 10**6},
        package={},
    )
    text = f"VM's calculated 1000000 RAM is less than server's spare {ram}"
    assert done.reasons == {"a": text}


def test_a_ticket_whose_vm_is_there_counts_once(build: Any) -> None:
    """The VM itself has taken the ticket's place; its ticket may say nothing more."""
    server = build.server("a", vms={build.uuid("7"): build.held(max_physical_memory=1024)})
    done = build.pipeline(
        ["calculate-ticketed-vms", "hard-filter-min-ram"],
        [server],
        tickets=[ticket(build, "7")],
        vm={"ram": 10**6},
        package={},
    )
    assert "spare 54681" in done.reasons["a"]


def test_a_ticket_without_extra_takes_the_server_out(build: Any) -> None:
    """The server is removed without a reason, because its load is unknown."""
    done = build.pipeline(
        "calculate-ticketed-vms",
        [build.server("a"), build.server("b")],
        tickets=[{**ticket(build, "7"), "extra": None}],
    )
    assert (done.left, done.reasons) == ("b", {})


@pytest.mark.parametrize(
    ("extra", "disk_mib"),
    [
        ({"quota": 100}, 100 * 1024),
        ({"quota": 0, "brand": "kvm", "disks": [{"size": 1025}]}, 2048 + 10240),
        ({"quota": 0, "brand": "bhyve", "disks": [{"size": 1024}, {"size": 1}]}, 2048),
        ({"quota": None}, 0),
    ],
)
def test_open_tickets_hold_disk(build: Any, extra: dict[str, Any], disk_mib: int) -> None:
    """Quotas and volumes (in whole GiB) of announced VMs are taken from the disk."""
    from vetro.compute.allocation import Defaults
    from vetro.compute.allocation.capacity import CapacityRule, unreserved
    from vetro.compute.allocation.record import Record
    from vetro.compute.allocation.reservations import overheads, ticketed_record

    rule = CapacityRule.of(Defaults(), None)
    record = Record(build.server("a", disk_pool_alloc_bytes=0))
    after = ticketed_record(record, [ticket(build, "7", extra=extra)], overheads(Defaults()))
    assert unreserved(record, rule)[2] - unreserved(after, rule)[2] == disk_mib


def test_tickets_count_for_owners_caps_and_limits(build: Any) -> None:
    """Announced VMs are seen by every filter that looks at VMs."""
    servers = [build.server("a"), build.server("b")]
    tickets = [ticket(build, "7")]
    spread = build.pipeline(
        ["calculate-ticketed-vms", "soft-filter-locality-hints"], servers, tickets=tickets
    )
    assert spread.reasons == {"a": "exclude: spread by owner"}
    limit = build.pipeline(
        ["calculate-ticketed-vms", "hard-filter-vm-count"],
        servers,
        tickets=tickets,
        defaults={"filter_vm_limit": 1},
    )
    assert limit.left == "b"
    caps = build.pipeline(
        ["calculate-ticketed-vms", "hard-filter-capness"], servers, tickets=tickets
    )
    assert caps.left == "b"


def test_vms_come_from_a_source_where_there_is_one(build: Any) -> None:
    """Fetched VMs replace the stored ones; gone ones do not count; a failing server is left out."""
    from vetro.compute.allocation import Allocator, Fleet, check_request
    from vetro.compute.allocation.run import Ports

    def source(uuid: str) -> dict[str, Any]:
        if uuid == build.uuid("b"):
            raise OSError("no answer")
        return {"1": build.held(), "2": build.held(state="destroyed")}

    allocator = Allocator(description=["pipe", "load-server-vms", "hard-filter-vm-count"])
    vm = {"owner_uuid": build.owner, "ram": 1}
    outcome = allocator.allocate(
        Fleet([build.server("a"), build.server("b")]),
        check_request(vm=vm, image={}),
        ports=Ports(load_vms=source),
    )
    assert outcome.steps[1].texts() == {
        build.uuid("a"): "1 VMs loaded",
        build.uuid("b"): "Error loading VMs: no answer",
    }
    assert outcome.chosen == build.uuid("a")
