"""Filters on state, system, networks, platform and traits: who goes, and what is said (§5)."""

from typing import Any

import pytest

A, B = "a", "b"
LINUX = {"System Type": "Linux"}
STAMP = "20250101T000000Z"
VOLUMES = {"internal_metadata": {"docker:volumesfrom": '["%s"]'}, "docker": True}

# plugin, changes of servers a, b, …, request, names left, reasons
TABLE: list[tuple[str, list[dict[str, Any]], dict[str, Any], str, dict[str, str]]] = [
    ("identity", [{}, {"setup": False}], {}, "ab", {}),
    ("hard-filter-setup", [{}, {"setup": False}], {}, "a", {}),
    ("hard-filter-setup", [{"setup": None}, {}], {}, "b", {}),
    (
        "hard-filter-running",
        [{}, {"status": "unknown"}, {"status": "rebooting"}],
        {},
        "a",
        {"b": "Server has status: unknown", "c": "Server has status: rebooting"},
    ),
    ("hard-filter-reserved", [{}, {"reserved": True}], {}, "a", {}),
    ("hard-filter-reservoir", [{}, {"reservoir": True}], {}, "a", {}),
    ("hard-filter-headnode", [{}, {"headnode": True}], {}, "a", {}),
    (
        "hard-filter-headnode",
        [{}, {"headnode": True}],
        {"defaults": {"filter_headnode": "false"}},
        "ab",
        {"skip": "Do not filter out headnodes"},
    ),
    # §5 hard-filter-os
    (
        "hard-filter-os",
        [{}, {"sysinfo": LINUX}],
        {"vm": {"brand": "lx"}, "image": {"type": "lxd"}},
        "b",
        {"a": 'Server does not have "linux" OS'},
    ),
    (
        "hard-filter-os",
        [{}, {"sysinfo": LINUX}, {"sysinfo": {"System Type": None}}],
        {"vm": {"brand": "lx"}, "image": {"type": "zone-dataset"}},
        "ac",
        {"b": 'Server does not have "SunOS" OS'},
    ),
    (
        "hard-filter-os",
        [{"sysinfo": {**LINUX, "VM Brands": ["lx"]}}, {"sysinfo": {"VM Brands": ["kvm"]}}],
        {"vm": {"brand": "lx"}},
        "a",
        {"b": 'Server does not support brand "lx"'},
    ),
    (
        "hard-filter-os",
        [{"sysinfo": {**LINUX, "VM Brands": ["lx"]}}, {}],
        {"vm": {"brand": "lx"}, "settings": {"os_policy": "strict"}},
        "b",
        {"a": 'Server does not have "SunOS" OS'},
    ),
    (
        "hard-filter-os",
        [{"sysinfo": {"VM Brands": ["joyent"]}}, {"sysinfo": {"VM Brands": ["lx"]}}],
        {},
        "a",
        {"b": 'Server does not support brand "joyent"'},
    ),
    (
        "hard-filter-invalid-servers",
        [{}, {"memory_total_bytes": 0}],
        {},
        "a",
        {"b": 'property "memory_total_bytes": must have a minimum value of 1'},
    ),
    ("hard-filter-force-failure", [{}], {}, "a", {}),
    (
        "hard-filter-force-failure",
        [{}, {}],
        {"vm": {"internal_metadata": {"force_designation_failure": True}}},
        "",
        {
            "a": "force_designation_failure set, failing",
            "b": "force_designation_failure set, failing",
        },
    ),
    ("hard-filter-virtual-servers", [{"sysinfo": {"System Type": "Virtual"}}], {}, "a", {}),
    (
        "hard-filter-virtual-servers",
        [{"sysinfo": {"System Type": "Virtual"}}, {}],
        {"vm": {"docker": True}},
        "b",
        {"a": "Server is a virtual server - excluding"},
    ),
    (
        "hard-filter-virtual-servers",
        [{"sysinfo": {"System Type": "Virtual"}}, {}],
        {"vm": {"tags": {"triton.placement.exclude_virtual_servers": True}}},
        "b",
        {"a": "Server is a virtual server - excluding"},
    ),
    (
        "hard-filter-zpool-encryption",
        [{}, {"sysinfo": {"Zpool Encrypted": True}}],
        {},
        "a",
        {"b": "Server is Zpool Encrypted"},
    ),
    (
        "hard-filter-zpool-encryption",
        [{}, {"sysinfo": {"Zpool Encrypted": True}}],
        {"vm": {"internal_metadata": {"encrypted": True}}},
        "b",
        {"a": "Server is not Zpool Encrypted"},
    ),
    ("hard-filter-min-free-disk", [{}], {}, "a", {"skip": "No minimum free disk set"}),
    (
        "hard-filter-min-free-disk",
        # 0.94 TiB - 900 GiB = 62.56 GiB = 64061.44 MiB, rounded up
        [{}, {"disk_pool_alloc_bytes": 900 * 2**30}, {"disk_pool_alloc_bytes": 2**41}],
        {"defaults": {"minimum_free_disk": 64063}},
        "a",
        {
            "b": "Server requires 64063MB free disk, but only has 64062MB",
            "c": "Server requires 64063MB free disk, but only has 0MB",
        },
    ),
    # §5.1
    (
        "hard-filter-vlans",
        [{}],
        {},
        "a",
        {"skip": "No NIC Tag requirements to filter on"},
    ),
    ("hard-filter-vlans", [{}], {"nic_tags": ["external", "admin"]}, "a", {}),
    (
        "hard-filter-vlans",
        [{}, {"sysinfo": {"Network Interfaces": None}}],
        {"nic_tags": ["internal"]},
        "",
        {
            "a": 'NIC eth1 for tag "internal" is down',
            "b": "Server missing interfaces in sysinfo",
        },
    ),
    (
        "hard-filter-vlans",
        [
            {"sysinfo": {"Network Interfaces": {
                "net7": {"Link Status": "unknown", "NIC Names": ["internal"]}}}},
            {"sysinfo": {"Virtual Network Interfaces": {
                "vx0": {"Link Status": "down", "Overlay Nic Tags": ["far"]}}}},
            {"sysinfo": {"Network Interfaces": {
                "net8": {"Link Status": "down", "NIC Names": ["internal"]},
                "net9": {"Link Status": "up", "NIC Names": ["internal"]}}}},
        ],
        {"nic_tag_requirements": [["internal", "far"]]},
        "c",
        {
            "a": 'NIC net7 for tag "internal" is unknown',
            "b": 'NIC vx0 for tag "far" is down',
        },
    ),
    # Empty lists require nothing: they are not "no requirements" (which is a skip).
    *(
        ("hard-filter-vlans", [{}], given, "a", {})
        for given in (
            {"nic_tags": []},
            {"nic_tag_requirements": []},
            {"nic_tag_requirements": [[]]},
            {"nic_tag_requirements": [], "nic_tags": ["nowhere"]},
            {"vm": {"nic_tags": []}},
            {"vm": {"nic_tag_requirements": [], "nic_tags": ["nowhere"]}},
            {"vm": {"nic_tags": ["nowhere"]}, "nic_tags": []},
        )
    ),
    (
        "hard-filter-vlans",
        [{}],
        {"nic_tag_requirements": [["admin"], ["fast", "slow"]]},
        "",
        {"a": "Server must have one of the NIC Tags: fast, slow"},
    ),
    (
        "hard-filter-vlans",
        [{}],
        {"nic_tag_requirements": [["internal", "external"]], "nic_tags": ["nowhere"]},
        "a",
        {},
    ),
    (
        "hard-filter-vlans",
        [
            {
                "sysinfo": {
                    "Virtual Network Interfaces": {
                        "vx0": {"Link Status": "up", "Overlay Nic Tags": ["sdc_overlay"]}
                    }
                }
            },
            {},
        ],
        {"vm": {"nic_tags": ["sdc_overlay"]}},
        "a",
        {"b": "Server must have one of the NIC Tags: sdc_overlay"},
    ),
    # §5.2
    (
        "hard-filter-platform-versions",
        [{}, {"sysinfo": {"Live Image": "20240101T000000Z"}}, {"sysinfo": {"SDC Version": None}}],
        {"package": {"min_platform": {"7.0": STAMP}}},
        "a",
        {
            "b": 'Package requires min platforms {"7.0":"20250101T000000Z"}, but server has'
            ' {"7.0":"20240101T000000Z"}',
            "c": 'Package requires min platforms {"7.0":"20250101T000000Z"}, but server has'
            ' {"6.5":"20250101T000000Z"}',
        },
    ),
    (
        "hard-filter-platform-versions",
        [{"sysinfo": {"SDC Version": "7.1"}}, {"sysinfo": {"SDC Version": "6.9"}}],
        {"image": {"requirements": {"min_platform": {"6.5": STAMP, "7.0": STAMP}}}},
        "ab",
        {},
    ),
    (
        "hard-filter-platform-versions",
        [{}, {"sysinfo": {"SDC Version": "6.0"}}, {"sysinfo": {"SDC Version": "7.1"}}],
        {"image": {"requirements": {"max_platform": {"7.0": "20240101T000000Z"}}}},
        "b",
        {
            "a": 'Image requires max platforms {"7.0":"20240101T000000Z"}, but server has'
            ' {"7.0":"20250101T000000Z"}',
            "c": 'Image requires max platforms {"7.0":"20240101T000000Z"}, but server has'
            ' {"7.1":"20250101T000000Z"}',
        },
    ),
    (
        "hard-filter-feature-min-platform",
        [{}, {"sysinfo": {"Live Image": "20160101T000000Z"}}, {"sysinfo": {**LINUX,
          "Live Image": "20160101T000000Z"}}],
        {"vm": {"docker": True, "volumes": ["v"]}},
        "ac",
        {
            "b": 'Docker volume automount support requires min platforms'
            ' {"7.0":"20160613T123039Z"}, but server has {"7.0":"20160101T000000Z"}'
        },
    ),
    (
        "hard-filter-feature-min-platform",
        [{}, {"sysinfo": {"Live Image": "20170101T000000Z"}}],
        {"vm": {"volumes": ["v"]}},
        "a",
        {
            "b": 'Non-docker volume automount support requires min platforms'
            ' {"7.0":"20170925T211846Z"}, but server has {"7.0":"20170101T000000Z"}'
        },
    ),
    (
        "hard-filter-feature-min-platform",
        [{}, {"sysinfo": {"Live Image": "20190101T000000Z"}}],
        {"vm": {"internal_metadata": {"volapi-nfs-version": 2}}},
        "a",
        {
            "b": 'volapi nfs v2 support requires min platforms {"7.0":"20200213T123742Z"},'
            ' but server has {"7.0":"20190101T000000Z"}'
        },
    ),
    (
        "hard-filter-feature-min-platform",
        [{}],
        {
            "vm": {"docker": True},
            "defaults": {"filter_docker_min_platform": "20260101T000000Z"},
        },
        "",
        {
            "a": 'Docker support requires min platforms {"7.0":"20260101T000000Z"}, but server'
            ' has {"7.0":"20250101T000000Z"}'
        },
    ),
    (
        "hard-filter-feature-min-platform",
        [{}],
        {
            "vm": {"flexible_disk_size": 1024},
            "defaults": {"filter_flexible_disk_min_platform": "20260101T000000Z"},
        },
        "",
        {
            "a": 'Flexible disk size support requires min platforms {"7.0":"20260101T000000Z"},'
            ' but server has {"7.0":"20250101T000000Z"}'
        },
    ),
    ("hard-filter-feature-min-platform", [{}], {"vm": {"flexible_disk_size": 1024}}, "a", {}),
    # §5.3
    (
        "hard-filter-traits",
        [{}, {"traits": {}}, {"traits": {"ssd": True}}],
        {},
        "ab",
        {"c": 'Combined vm/pkg/img require no traits but server has {"ssd":true}'},
    ),
    (
        "hard-filter-traits",
        [{}, {"traits": {"ssd": True}}, {"traits": {"ssd": True, "x": "y"}}],
        {"vm": {"traits": {"ssd": True}}},
        "b",
        {
            "a": 'Combined vm/pkg/img traits require {"ssd":true} but server has undefined',
            "c": 'Combined vm/pkg/img traits require {"ssd":true} but server has'
            ' {"ssd":true,"x":"y"}',
        },
    ),
    (
        "hard-filter-traits",
        [{"traits": {"x": "1"}}, {"traits": {"x": "2"}}],
        {"package": {"traits": '{"x": "1"}'}, "image": {"traits": {"x": "2"}}},
        "b",
        {"a": "x comparison failed: strings did not match"},
    ),
    (
        "hard-filter-traits",
        [
            {"traits": {"x": ["1", "2"]}},
            {"traits": {"x": ["3"]}},
            {"traits": {"y": "1"}},
            {"traits": {"x": 1}},
        ],
        {"vm": {"traits": {"x": "1"}}},
        "a",
        {
            "b": "x comparison failed: server trait array did not contain trait",
            "c": "x comparison failed: undefined property",
            "d": "x comparison failed: unsupported combination of property types",
        },
    ),
    (
        "hard-filter-traits",
        [{"traits": {"x": "1"}}, {"traits": {"x": "3"}}, {"traits": {"x": ["3"]}}],
        {"vm": {"traits": {"x": ["1", "2"]}}},
        "a",
        {
            "b": "x comparison failed: server trait was not in requested trait array",
            "c": "x comparison failed: server and requested trait arrays do not intersect",
        },
    ),
    (
        "hard-filter-traits",
        [{"traits": {"x": True}}, {"traits": {"x": False}}],
        {"vm": {"traits": {"x": True}}},
        "a",
        {"b": "x comparison failed: boolean did not match"},
    ),
    # Every kind of request against every other kind on the server.
    *(
        ("hard-filter-traits", [{"traits": {"x": held}}], {"vm": {"traits": {"x": wanted}}}, "",
         {"a": f"x comparison failed: {text}"})
        for wanted, held, text in (
            (True, "true", "boolean did not match"),
            (True, ["true"], "boolean did not match"),
            (False, 0, "boolean did not match"),
            (True, None, "undefined property"),
            ("1", True, "unsupported combination of property types"),
            (["1"], True, "unsupported combination of property types"),
            (1, 1, "unsupported combination of property types"),
            ({"y": 1}, "1", "unsupported combination of property types"),
        )
    ),
]  # fmt: skip


@pytest.mark.parametrize(
    ("plugin", "changes", "request_", "left", "reasons"),
    TABLE,
    ids=[f"{row[0]}-{number}" for number, row in enumerate(TABLE)],
)
def test_filter(
    build: Any,
    plugin: str,
    changes: list[dict[str, Any]],
    request_: dict[str, Any],
    left: str,
    reasons: dict[str, str],
) -> None:
    """Each filter keeps whom it must and says why the others went."""
    servers = [
        build.server(name, **change) for name, change in zip("abcdef", changes, strict=False)
    ]
    done = build.pipeline(plugin, servers, **request_)
    assert done.left == left
    assert done.reasons == reasons


def test_volumes_from(build: Any) -> None:
    """A container goes to the server of the VMs whose volumes it mounts; else the error says so."""
    servers = [build.server("a", vms={build.uuid("1"): build.held()}), build.server("b")]
    vm = {"docker": True, "internal_metadata": {"docker:volumesfrom": f'["{build.uuid("1")}"]'}}
    done = build.pipeline("hard-filter-volumes-from", servers, vm=vm)
    text = f"VM needs volumes from {build.uuid('1')}, which was not found on server"
    assert (done.left, done.reasons) == ("a", {"b": text})
    done = build.pipeline("hard-filter-volumes-from", servers[1:], vm=vm)
    assert done.result["error"] == (
        "No compute resources available on the host containing the mounted volume"
    )
    for vm, text in (
        ({}, "Requested VM is not a Docker container and/or has no internal_metadata"),
        (
            {"docker": True},
            "Requested VM is not a Docker container and/or has no internal_metadata",
        ),
        (
            {"docker": True, "internal_metadata": {}},
            "Requested VM has no VMs listed in internal_data docker:volumesfrom",
        ),
    ):
        assert build.pipeline("hard-filter-volumes-from", servers, vm=vm).reasons == {"skip": text}
