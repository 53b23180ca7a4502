"""Defaults, overrides, and the pipeline description (§2, §4)."""

from typing import Any

import pytest

from vetro.compute.allocation import (
    PLUGINS,
    Allocator,
    Defaults,
    DefaultsError,
    DescriptionError,
    default_description,
    read_defaults,
)
from vetro.compute.allocation.defaults import METADATA


def test_built_in_defaults() -> None:
    """The figures of the specification's table."""
    assert read_defaults() == Defaults()
    assert (Defaults().ratios, Defaults().filter_vm_limit) == ((4.0, 1.0, 1.0), 224)
    assert read_defaults(profile="upstream").filter_flexible_disk_min_platform == "20181206T190647Z"


@pytest.mark.parametrize(
    ("given", "key", "value"),
    [
        ({"filter_headnode": "false"}, "filter_headnode", False),
        ({"filter_headnode": False}, "filter_headnode", False),
        ({"filter_headnode": ""}, "filter_headnode", True),
        ({"filter_headnode": None}, "filter_headnode", True),
        ({"weight_uniform_random": 0}, "weight_uniform_random", 0),
        ({"weight_uniform_random": "-1.5"}, "weight_uniform_random", -1.5),
        ({"filter_vm_limit": "10"}, "filter_vm_limit", 10),
        ({"overprovision_ratio_cpu": "2"}, "overprovision_ratio_cpu", 2.0),
        ({"ALLOC_FILTER_VM_COUNT": 3}, "filter_vm_limit", 3),
        ({"ALLOC_MIN_FREE_DISK": "512"}, "minimum_free_disk", 512),
        ({"ALLOC_FILTER_MIN_DISK": True}, "filter_min_disk", True),
        ({"unknown": 1}, "filter_headnode", True),
    ],
)
def test_values_and_their_texts(given: dict[str, Any], key: str, value: Any) -> None:
    """JSON and text alike; false and 0 are values, empty and absent are not."""
    assert getattr(read_defaults(given), key) == value


def test_metadata_wins() -> None:
    """A metadata key is stronger than the same setting in the configuration."""
    read = read_defaults(
        {"filter_headnode": True, "server_spread": "random"},
        {"ALLOC_FILTER_HEADNODE": "false", "ALLOC_SERVER_SPREAD": ""},
    )
    assert (read.filter_headnode, read.server_spread) == (False, "random")
    assert len(METADATA) == 20


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"filter_capness": "yes"}, "Defaults filter_capness is not boolean"),
        ({"filter_capness": 1}, "Defaults filter_capness is not boolean"),
        ({"ALLOC_FILTER_CAPNESS": 1}, "Defaults ALLOC_FILTER_CAPNESS is not boolean"),
        ({"weight_next_reboot": "x"}, "Defaults weight_next_reboot is not a number"),
        ({"weight_next_reboot": True}, "Defaults weight_next_reboot is not a number"),
        ({"overprovision_ratio_ram": "NaN"}, "Defaults overprovision_ratio_ram is not a number"),
        ({"overprovision_ratio_ram": -1}, "is not a number of 0 or more"),
        (
            {"filter_docker_min_platform": "2025"},
            "Defaults filter_docker_min_platform is not an ISO UTC timestamp",
        ),
        ({"filter_owner_server": []}, "Defaults filter_owner_server is an invalid type"),
        ({"filter_owner_server": {"x": "true"}}, "which is not a UUID"),
        (
            {"filter_owner_server": {"11111111-1111-4111-8111-111111111111": "server."}},
            "ends too early",
        ),
        ({"server_spread": "min-disk"}, "is not one of min-ram, max-ram, min-owner, random"),
        ({"weight_sign": "both"}, "is not one of documented, upstream"),
    ],
)
def test_bad_defaults_are_refused(given: dict[str, Any], message: str) -> None:
    """The key is named as it was given."""
    with pytest.raises(DefaultsError, match="Defaults") as caught:
        read_defaults(given)
    assert message in str(caught.value)
    assert caught.value.key in given


@pytest.mark.parametrize(
    ("description", "message"),
    [
        ([], "sexp too short"),
        ("pipe", "sexp too short"),
        (["pipe"], "sexp too short for given command: pipe"),
        (["or", "identity"], "sexp too short for given command: or"),
        (["and", "identity"], "Bad expression given: Invalid command: and"),
        (["pipe", ["xor", "identity"]], "Bad expression given: Invalid command: xor"),
        (["pipe", "guess"], "Unrecognized algorithm: guess"),
        (["pipe", 5], "Invalid element: 5"),
    ],
)
def test_bad_descriptions_are_refused(description: Any, message: str) -> None:
    """An allocator with a pipeline that cannot run is not made."""
    with pytest.raises(DescriptionError) as caught:
        Allocator(description=description)
    assert message in str(caught.value)


def test_the_default_pipeline_has_every_plugin() -> None:
    """Nothing is left out of it, and the disk filter is a switch."""
    small = Allocator()._expression.plugins()
    large = Allocator(read_defaults({"ALLOC_FILTER_MIN_DISK": "true"}))._expression.plugins()
    assert set(large) == set(PLUGINS)
    assert set(large) - set(small) == {"hard-filter-min-disk"}
    assert len(default_description(min_disk=False)) == 37 + 1


def test_pipe_stops_and_or_tries(build: Any) -> None:
    """A pipe stops when no server is left; ``or`` gives each branch the same servers."""
    servers = [build.server("a", reservoir=True), build.server("b", reservoir=True)]
    done = build.pipeline(
        [["or", "hard-filter-reservoir", "identity"], "hard-filter-setup"], servers
    )
    assert [(step["step"], len(step["remaining"])) for step in done.result["steps"]] == [
        ("Received by DAPI", 2),
        ("Servers which are not in the reservoir", 0),
        ("Identity function", 2),
        ("Servers which have been setup", 2),
    ]
    done = build.pipeline(
        [
            "hard-filter-reservoir",
            "hard-filter-setup",
        ],
        servers,
    )
    assert [step["step"] for step in done.result["steps"]][1:] == [
        "Servers which are not in the reservoir"
    ]
    both = [["or", ["pipe", "hard-filter-reservoir", "identity"], "hard-filter-reservoir"]]
    assert build.pipeline(both, servers).result["error"] == (
        "No compute resources available: no servers which are not in the reservoir"
    )
    first = build.pipeline([["or", "identity", "hard-filter-reservoir"]], servers)
    assert len(first.result["steps"]) == 2


def test_errors_name_the_last_step(build: Any) -> None:
    """Titles are lowered and negated; with nobody to begin with the first step is the last."""
    assert build.pipeline("identity", []).result["error"] == (
        "No compute resources available: received by DAPI"
    )
    failing = {"internal_metadata": {"force_designation_failure": 1}}
    done = build.pipeline("hard-filter-force-failure", [build.server()], vm=failing)
    assert done.result["error"] == "No compute resources available: forced failure"
    assert (done.result["chosen"], done.result["scores"]) == (None, {})
