"""Cases with something wrong anywhere in them: they are answered, never crashed on."""

from __future__ import annotations

import copy
import json
import random
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.effort import examples

from vetro.compute.allocation import allocate_case, default_description

VM = "33333333-3333-4333-8333-333333333333"
JUNK: list[Any] = [
    None, True, False, 0, -1, 1.5, 1e308, -1e308, 1e-320, 10**400, -(10**400), 2**63, float("nan"),
    float("inf"), "", "x", "0", "1e999", "é", "\ud800", [], [None], [[]], ["x"], [1], [{}], {},
    {"x": None}, {"": []}, {"size": "x"}, {"7.0": 5}, "[]", "{}", "null", "*", "(", "/(a+)+/",
]  # fmt: skip


def whole_case(build: Any, chance: random.Random) -> dict[str, Any]:
    """A case that uses everything there is."""
    brand = chance.choice(("lx", "kvm", "bhyve", "joyent"))
    held = build.held(owner_uuid=build.owner, brand=brand, alias="web1", tags={"role": "web"})
    linux = {"System Type": "Linux", "VM Brands": ["lx", "kvm", "bhyve", "joyent"]}
    more = {
        "Zpool Encrypted": True, "Bhyve Capable": True, "Bhyve Max Vcpus": 8, "HVM API": False,
        "Admin IP": "10.0.0.1", "CPU Online Count": 8,
        "Virtual Network Interfaces": {"v0": {"Link Status": "up", "Overlay Nic Tags": ["o"]}},
    }  # fmt: skip
    servers = [
        build.server(
            name, vms={VM: held} if name == "b" else {}, sysinfo={**linux, **more},
            traits={"ssd": ["a", "b"]}, next_reboot="2026-01-01T00:00:00Z",
            last_boot="2025-01-01T00:00:00Z",
            overprovision_ratios={"cpu": 4, "ram": 1, "disk": 1},
        )
        for name in "abc"
    ]  # fmt: skip
    rule = {
        "key": chance.choice(("instance", "role", "container")),
        "operator": "==",
        "value": chance.choice(("web1", "/web./", "web*", VM, "web")),
        "valueType": chance.choice(("exact", "glob", "re")),
        "isSoft": chance.random() < 0.5,
    }
    vm: dict[str, Any] = {
        "vm_uuid": VM, "uuid": VM, "owner_uuid": build.owner, "ram": 1024, "quota": 10,
        "cpu_cap": 100, "vcpus": 2, "brand": brand, "traits": {"ssd": "a"},
        "tags": {"triton.placement.exclude_virtual_servers": True}, "affinity": [rule],
        "locality": {"strict": False, "near": [VM], "far": VM}, "docker": chance.random() < 0.5,
        "volumes": [{"name": "v"}], "flexible_disk_size": 1024, "nic_tags": ["admin"],
        "nic_tag_requirements": [["admin", "o"]],
        "internal_metadata": {
            "encrypted": True, "docker:volumesfrom": json.dumps([VM]), "volapi-nfs-version": 2,
            "docker:id": "a" * 64, "force_designation_failure": False,
        },
    }  # fmt: skip
    if chance.random() < 0.5:
        del vm["affinity"], vm["internal_metadata"]["docker:volumesfrom"]
    tags = {"nic_tags": ["admin"], "nic_tag_requirements": [["admin", "o"]]}
    stamps = {"6.5": "20200101T000000Z", "7.0": "20200101T000000Z"}
    return {
        "description": default_description(min_disk=True),
        "defaults": {
            "filter_owner_server": {build.other: 'server.sysinfo["System Type"] == "x"'},
            "minimum_free_disk": 10, "weight_num_owner_zones": 1, "weight_next_reboot": -1,
            "disable_override_overprovisioning": chance.random() < 0.5,
            "filter_docker_min_platform": "20200101T000000Z", "overprovision_ratio_ram": 1,
            "filter_vm_limit": 10, "kvm_disk_overhead_gib": 10, "server_spread": "",
        },
        "settings": {"weight_sign": "documented", "os_policy": "capability"},
        "servers": servers,
        "vm": vm,
        "image": {
            "image_size": 100, "type": "zvol", "traits": {"ssd": "a"}, "files": [{"size": 5}],
            "requirements": {
                "min_ram": 1, "max_ram": 9999, "min_platform": stamps,
                "max_platform": {"7.0": "20300101T000000Z"},
            },
        },
        "package": {
            "max_physical_memory": 1024, "cpu_cap": 100, "quota": 10240, "overprovision_cpu": 4,
            "overprovision_memory": 1, "overprovision_storage": 1, "min_platform": stamps,
            "alloc_server_spread": chance.choice((None, "min-ram", "random", "min-owner")),
        },
        "tickets": [
            {
                "server_uuid": servers[0]["uuid"], "scope": "vm", "id": build.uuid("9"),
                "action": "provision", "status": "queued",
                "extra": {
                    "owner_uuid": build.owner, "max_physical_memory": 512, "cpu_cap": 100,
                    "quota": 10, "brand": brand, "disks": [{"size": 2048}],
                },
            }
        ],
        **(tags if chance.random() < 0.5 else {}),
        "seed": chance.choice((None, 1, "x")),
    }  # fmt: skip


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The path of everything inside a JSON value."""
    found: list[tuple[Any, ...]] = []
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    for key, item in inner if isinstance(value, dict | list) else ():
        found.append((*path, key))
        if isinstance(item, dict | list):
            found += places(item, (*path, key))
    return found


def put(case: Any, path: tuple[Any, ...], value: Any) -> None:
    """Replace what is at ``path``."""
    for key in path[:-1]:
        case = case[key]
    case[path[-1]] = copy.deepcopy(value)


def test_the_whole_case_places_a_vm(build: Any) -> None:
    """What is spoiled below is good to begin with: every plugin has something to do."""
    chosen = set()
    for seed in range(40):
        result = allocate_case(whole_case(build, random.Random(seed)))
        assert "invalid" not in result, result
        chosen.add(result["chosen"])
    assert len(chosen) > 2


@settings(
    max_examples=examples(500),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(seed=st.integers(0, 2**32))
def test_no_value_anywhere_is_crashed_on(build: Any, seed: int) -> None:
    """One or two values are replaced by anything: an answer or a named field, and it is JSON."""
    chance = random.Random(seed)
    case = whole_case(build, chance)
    for _ in range(chance.choice((1, 1, 2))):
        path = chance.choice(places(case))
        put(case, path, chance.choice(JUNK))
    result = allocate_case(case)
    json.dumps(result, allow_nan=False)
    if "invalid" in result:
        assert result.keys() == {"invalid", "message"}
        assert result["invalid"] in case or result["invalid"] == "case"
        assert result["message"]
    else:
        assert result.keys() == {"chosen", "error", "steps", "scores"}
        assert (result["chosen"] is None) != (result["error"] is None)
