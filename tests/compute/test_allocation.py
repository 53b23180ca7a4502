"""Placement as a pure function."""

from typing import Any

import pytest

from vetro.compute.allocation import allocate_case

GIB = 2**30


def server(uuid: str, **changes: Any) -> dict[str, Any]:
    """A running server with 8 GiB and 100 GiB of disk."""
    return {
        "uuid": uuid,
        "setup": True,
        "status": "running",
        "memory_total_bytes": 8 * GIB,
        "disk_pool_size_bytes": 100 * GIB,
        "reservation_ratio": 0.0,
        **changes,
    }


VM = {"ram": 1024, "quota": 10}


@pytest.mark.parametrize(
    ("changes", "step", "reason"),
    [
        ({"setup": False}, "Servers which have been setup", "has not been setup"),
        ({"status": "unknown"}, "Servers which are currently running", "unknown"),
        ({"reserved": True}, "Servers which are not reserved", "reserved"),
        ({"memory_total_bytes": GIB // 2}, "Servers with enough RAM", "1024 RAM"),
        ({"disk_pool_size_bytes": GIB}, "Servers with enough disk", "10240 disk"),
        ({"traits": {"ssd": True}}, "Servers with correct traits", "ssd"),
        ({"sysinfo": {"VM Brands": ["kvm"]}}, "Servers which serve the VM's brand", "brand lx"),
    ],
)
def test_each_step_says_what_it_dropped_and_why(
    changes: dict[str, Any], step: str, reason: str
) -> None:
    """One unfit server: the step that drops it names it and the reason."""
    result = allocate_case({"servers": [server("a", **changes)], "vm": VM})
    assert result["chosen"] is None
    assert step in result["error"]
    assert result["steps"][-1]["step"] == step
    assert reason in result["steps"][-1]["reasons"]["a"]


def test_what_runs_takes_room() -> None:
    """VMs on a server count, destroyed ones do not."""
    vm = {"max_physical_memory": 7500, "quota": 1, "state": "running"}
    case = {"servers": [server("a", vms={"v": vm})], "vm": VM}
    assert allocate_case(case)["chosen"] is None
    case["servers"][0]["vms"]["v"]["state"] = "destroyed"
    assert allocate_case(case)["chosen"] == "a"


def test_the_fullest_server_that_fits_wins_and_the_answer_is_stable() -> None:
    """Large holes are kept; the order of the servers does not matter."""
    full = server("full", vms={"v": {"max_physical_memory": 6000, "quota": 1}})
    servers = [server("empty"), full, server("too-full", memory_total_bytes=GIB // 4)]
    answers = {
        allocate_case({"servers": order, "vm": VM})["chosen"] for order in (servers, servers[::-1])
    }
    assert answers == {"full"}


@pytest.mark.parametrize(
    ("case", "field"),
    [
        ({}, "servers"),
        ({"servers": []}, "vm"),
        ({"servers": [{}], "vm": VM}, "servers"),
        ({"servers": [], "vm": {}}, "vm.ram"),
        ({"servers": [], "vm": {"ram": -1}}, "vm.ram"),
    ],
)
def test_invalid_cases_name_the_field(case: dict[str, Any], field: str) -> None:
    """What is wrong with a request is said instead of an answer."""
    assert allocate_case(case)["invalid"] == field
