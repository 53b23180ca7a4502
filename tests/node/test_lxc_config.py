"""A container's configuration, and what the machine offers to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from vetro.node.drivers.id_ranges import IdRanges, images_range, project_ranges
from vetro.node.drivers.lxc.config import SECCOMP_PROFILE, ContainerHost, limit_settings, render
from vetro.node.drivers.lxc.host import apparmor_profile, cgroup_limits
from vetro.node.errors import DriverError
from vetro.node.guest.instance_files import Init

NET = "aabbccdd-0000-4000-8000-000000000001"


def host(**changes: Any) -> ContainerHost:
    """A machine with version 1 control groups and no AppArmor."""
    values = {
        "prefix": "vt",
        "id_base": 100000,
        "seccomp_profile": Path("/data/seccomp.profile"),
        "limits": {"memory": "v1", "cpu": "v1", "pids": "v1"},
        "swap_limit": True,
    }
    return ContainerHost(**{**values, **changes})


def vm(**changes: Any) -> dict[str, Any]:
    """A VM object with one interface."""
    nic = {
        "mac": "fa:16:3e:01:02:03", "interface": "net0", "network_uuid": NET, "ip": "10.0.0.5",
        "netmask": "255.255.0.0", "gateway": "10.0.0.1", "mtu": 1400, "primary": True,
    }  # fmt: skip
    return {
        "uuid": "u", "hostname": "web-1.example", "nics": [nic], "max_physical_memory": 512,
        "max_swap": 768, "cpu_cap": 150, "cpu_shares": 100, "max_lwps": 300, **changes,
    }  # fmt: skip


def config(
    machine: ContainerHost | None = None, init: Init = Init.SYSVINIT, **changes: Any
) -> list[str]:
    """The lines of the configuration."""
    text = render(
        vm(**changes), machine or host(), root=Path("/run/root"), directory=Path("/d"), init=init
    )
    return text.splitlines()


def test_containers_are_unprivileged() -> None:
    """Ids are mapped, capabilities dropped, system calls filtered."""
    lines = config()
    assert "lxc.idmap = u 0 100000 65536" in lines
    assert "lxc.idmap = g 0 100000 65536" in lines
    assert "lxc.seccomp.profile = /data/seccomp.profile" in lines
    [dropped] = [line for line in lines if line.startswith("lxc.cap.drop")]
    assert {"sys_module", "sys_rawio", "mac_admin"} <= set(dropped.split())
    assert "kexec_load errno 1" in SECCOMP_PROFILE


def test_an_interface_gets_its_address_names_and_route() -> None:
    """veth into the network's bridge, with fixed MAC, MTU, address and gateway."""
    lines = [line for line in config() if line.startswith("lxc.net.0")]
    assert "lxc.net.0.link = vtbaabbccdd" in lines
    assert "lxc.net.0.veth.pair = vtv3e010203" in lines
    assert "lxc.net.0.name = eth0" in lines
    assert "lxc.net.0.hwaddr = fa:16:3e:01:02:03" in lines
    assert "lxc.net.0.mtu = 1400" in lines
    assert "lxc.net.0.ipv4.address = 10.0.0.5/16" in lines
    assert "lxc.net.0.ipv4.gateway = 10.0.0.1" in lines


def test_only_the_primary_interface_has_the_default_route() -> None:
    """A second gateway would make two default routes."""
    nics = [*vm()["nics"], {**vm()["nics"][0], "interface": "net1", "primary": False}]
    lines = config(nics=nics)
    assert "lxc.net.1.name = eth1" in lines
    assert not [line for line in lines if line.startswith("lxc.net.1.ipv4.gateway")]


def test_an_interface_without_address_is_left_to_the_guest() -> None:
    """`dhcp` sets no static address."""
    nics = [{**vm()["nics"][0], "ip": "dhcp"}]
    assert not [line for line in config(nics=nics) if "ipv4" in line]


@pytest.mark.parametrize(
    "change", [{"network_uuid": None}, {"netmask": "255.0.255.0"}, {"netmask": "40"}]
)
def test_an_unusable_interface_is_refused(change: dict[str, Any]) -> None:
    """No network or a wrong netmask is an invalid payload, not a container without network."""
    with pytest.raises(DriverError) as error:
        config(nics=[{**vm()["nics"][0], **change}])
    assert error.value.rest_code == "InvalidPayload"


def test_limits_for_version_1() -> None:
    """Bytes, swap on top of memory, a quota of 100 ms for each hundred percent."""
    assert limit_settings(vm(), host()) == [
        ("v1", "memory.limit_in_bytes", str(512 << 20)),
        ("v1", "memory.memsw.limit_in_bytes", str(768 << 20)),
        ("v1", "cpu.cfs_quota_us", "150000"),
        ("v1", "cpu.shares", "1024"),
        ("v1", "pids.max", "300"),
    ]
    assert "lxc.cgroup.pids.max = 300" in config()


def test_limits_for_version_2() -> None:
    """The unified hierarchy's names; swap counts alone."""
    machine = host(limits={"memory": "v2", "cpu": "v2", "pids": "v2"})
    assert limit_settings(vm(), machine) == [
        ("v2", "memory.max", str(512 << 20)),
        ("v2", "memory.swap.max", str(256 << 20)),
        ("v2", "cpu.max", "150000 100000"),
        ("v2", "cpu.weight", "100"),
        ("v2", "pids.max", "300"),
    ]
    assert "lxc.cgroup2.memory.max = 536870912" in config(machine)


def test_limits_the_machine_cannot_keep_are_left_out() -> None:
    """Without controllers a container still starts; without a cap the processor is not limited."""
    assert limit_settings(vm(), host(limits={})) == []
    uncapped = limit_settings(vm(cpu_cap=None), host(limits={"cpu": "v2"}))
    assert ("v2", "cpu.max", "max 100000") in uncapped


@pytest.mark.parametrize(
    ("init", "command", "signal"),
    [
        (Init.SYSTEMD, "/sbin/init", "SIGRTMIN+3"),
        (Init.SYSVINIT, "/sbin/init", "SIGPWR"),
        (Init.BUSYBOX, "/sbin/init", "SIGUSR2"),
        (Init.NONE, "/opt/vetro/init", "SIGTERM"),
    ],
)
def test_each_init_is_started_and_stopped_its_own_way(
    init: Init, command: str, signal: str
) -> None:
    """systemd gets a control group tree; the others a fresh /run."""
    lines = config(init=init)
    assert f"lxc.init.cmd = {command}" in lines
    assert f"lxc.signal.halt = {signal}" in lines
    assert any("cgroup" in x for x in lines if "mount.auto" in x) is (init is Init.SYSTEMD)
    assert any("tmpfs run" in x for x in lines) is (init is not Init.SYSTEMD)


def test_apparmor_is_used_where_the_machine_has_it() -> None:
    """Named when present, not mentioned otherwise."""
    machine = host(apparmor="lxc-container-default-cgns")
    assert "lxc.apparmor.profile = lxc-container-default-cgns" in config(machine)
    assert "lxc.apparmor.allow_nesting = 1" in config(machine, Init.SYSTEMD)
    assert not [line for line in config() if "apparmor" in line]


def test_a_value_cannot_add_a_line() -> None:
    """A line break in a payload does not become configuration."""
    with pytest.raises(DriverError, match="line break"):
        config(hostname="a\nlxc.idmap =")


def test_the_id_range_is_roots_and_is_added_when_missing(tmp_path: Path) -> None:
    """An existing range is used; otherwise one after everybody's is written to both files."""
    users, groups = tmp_path / "subuid", tmp_path / "subgid"
    users.write_text("alice:100000:65536\nroot:500000:65536\n")
    groups.write_text("root:500000:65536")
    assert images_range(users, groups) == 500000

    users.write_text("alice:1000000:65536")
    groups.unlink()
    base = images_range(users, groups)
    assert base >= 1065536
    assert f"root:{base}:65536\n" in users.read_text()
    assert users.read_text().startswith("alice:1000000:65536\n")
    assert images_range(users, groups) == base


def test_controllers_are_found_in_both_hierarchies(tmp_path: Path) -> None:
    """Version 1 mounts by their options, version 2 by its list of controllers."""
    old = tmp_path / "memory"
    old.mkdir()
    (old / "memory.memsw.limit_in_bytes").write_text("1")
    unified = tmp_path / "unified"
    unified.mkdir()
    (unified / "cgroup.controllers").write_text("cpu pids\n")
    mounts = (
        f"30 20 0:26 / {old} rw - cgroup cgroup rw,memory\n"
        f"31 20 0:27 / {unified} rw - cgroup2 cgroup2 rw\n"
        "garbage\n"
    )
    assert cgroup_limits(mounts) == ({"memory": "v1", "cpu": "v2", "pids": "v2"}, True)


def test_the_apparmor_profile_is_the_one_that_is_loaded(
    tmp_path: Path, fake_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The ready-made one first; generated where it is not loaded; none without AppArmor."""
    monkeypatch.setenv("PATH", str(fake_path))
    assert apparmor_profile(tmp_path) == ""
    enabled = tmp_path / "sys/module/apparmor/parameters/enabled"
    enabled.parent.mkdir(parents=True)
    enabled.write_text("Y\n")
    assert apparmor_profile(tmp_path) == "unconfined"
    (fake_path / "apparmor_parser").write_text("")
    (fake_path / "apparmor_parser").chmod(0o755)
    assert apparmor_profile(tmp_path) == "generated"
    profiles = tmp_path / "sys/kernel/security/apparmor/profiles"
    profiles.parent.mkdir(parents=True)
    profiles.write_text("lxc-container-default-cgns (enforce)\n")
    assert apparmor_profile(tmp_path) == "lxc-container-default-cgns"


def test_projects_have_ranges_of_their_own(tmp_path: Path) -> None:
    """One is added that is large enough; who has which stays over a restart."""
    users, groups = tmp_path / "subuid", tmp_path / "subgid"
    for path in (users, groups):
        path.write_text("root:500000:65536\n")
    ranges = project_ranges(users, groups, 500000)
    assert ranges == [(1000000, 1024 * 65536)]
    assert project_ranges(users, groups, 500000) == ranges
    given = IdRanges(tmp_path / "ids.json", 500000, ranges, translated=True)
    assert [given.of("a"), given.of("b"), given.of("a")] == [1000000, 1065536, 1000000]
    again = IdRanges(tmp_path / "ids.json", 500000, ranges, translated=True)
    assert [again.of("b"), again.of("c")] == [1065536, 1131072]


def test_a_kernel_without_translation_has_one_range_for_all(tmp_path: Path) -> None:
    """Then nothing is written and everybody has the images' range."""
    given = IdRanges(tmp_path / "ids.json", 500000, [(1000000, 65536)], translated=False)
    assert given.of("a") == given.of("b") == 500000
    assert not (tmp_path / "ids.json").exists()


def test_a_range_that_is_used_up_says_what_to_do(tmp_path: Path) -> None:
    """A third project with two ranges is refused."""
    given = IdRanges(tmp_path / "ids.json", 500000, [(1000000, 131072)], translated=True)
    given.of("a")
    given.of("b")
    with pytest.raises(DriverError, match="/etc/subuid"):
        given.of("c")
