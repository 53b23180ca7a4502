"""What is said of invalid requests: the field and the exact message (§1.1, §3)."""

from typing import Any

import pytest
from tests.compute.allocation.conftest import OWNER

from vetro.compute.allocation import InvalidRequest, allocate_case, check_request, check_types

STAMP = "20250101T000000Z"
RULE = {"key": "k", "operator": "==", "value": "v", "valueType": "exact", "isSoft": False}
METADATA = "vm.internal_metadata['docker:volumesfrom']"

# changed parameters (vm is merged into a good one), field, message
TABLE: list[tuple[dict[str, Any], str, str]] = [
    ({"image": []}, "image", '"image" has invalid type'),
    ({"image": None}, "image", '"image" has invalid type'),
    ({"image": {"image_size": "5"}}, "image", '"image.image_size" has invalid type'),
    (
        {"image": {"traits": "x"}},
        "image",
        '"image.traits": property "": string value found, but a object is required',
    ),
    ({"image": {"requirements": []}}, "image", '"image.requirements" has invalid type'),
    (
        {"image": {"requirements": {"min_platform": "x"}}},
        "image",
        '"requirements.min_platform" is not a hash',
    ),
    (
        {"image": {"requirements": {"max_platform": []}}},
        "image",
        '"requirements.max_platform" is not a hash',
    ),
    (
        {"image": {"requirements": {"min_platform": {"7.10": STAMP}}}},
        "image",
        '"requirements.min_platform" contains an invalid SDC version',
    ),
    (
        {"image": {"requirements": {"max_platform": {"7.0": "20250101"}}}},
        "image",
        '"requirements.max_platform" contains an invalid platform date',
    ),
    (
        {"image": {"requirements": {"max_platform": {"7.0": 1}}}},
        "image",
        '"requirements.max_platform" contains an invalid platform date',
    ),
    (
        {"image": {"requirements": {"min_ram": "1"}}},
        "image",
        '"image.requirements.min_ram" has invalid type',
    ),
    (
        {"image": {"requirements": {"max_ram": True}}},
        "image",
        '"image.requirements.max_ram" has invalid type',
    ),
    ({"package": []}, "package", '"package" has invalid type'),
    *(
        (
            {"package": {f"overprovision_{name}": value}},
            "package",
            f'"package.overprovision_{name}" has invalid type',
        )
        for name, value in (
            ("cpu", "much"),
            ("memory", {}),
            ("storage", True),
            ("network", []),
            ("io", "1x"),
        )
    ),
    (
        {"package": {"alloc_server_spread": "max-owner"}},
        "package",
        '"alloc_server_spread" has invalid value',
    ),
    ({"package": {"min_platform": "{"}}, "package", '"package.min_platform" has invalid type'),
    ({"package": {"max_platform": "["}}, "package", '"package.max_platform" has invalid type'),
    (
        {"package": {"min_platform": "[]"}},
        "package",
        '"package.min_platform" is not a hash',
    ),
    (
        {"package": {"max_platform": {"7": STAMP}}},
        "package",
        '"package.max_platform" contains an invalid SDC version',
    ),
    (
        {"package": {"traits": "{"}},
        "package",
        '"package.traits": "package.traits" has invalid type',
    ),
    (
        {"package": {"traits": 5}},
        "package",
        '"package.traits": property "": number value found, but a object is required',
    ),
    ({"vm": None}, "vm", "VM object is an invalid type"),
    ({"vm": {"owner_uuid": None}}, "vm", 'VM "owner_uuid" is not a valid UUID'),
    ({"vm": {"owner_uuid": OWNER.replace("1", "A")}}, "vm", 'VM "owner_uuid" is not a valid UUID'),
    ({"vm": {"ram": "1024"}}, "vm", 'VM "ram" is not a number'),
    ({"vm": {"ram": True}}, "vm", 'VM "ram" is not a number'),
    ({"vm": {"quota": "10"}}, "vm", 'VM "quota" is not a number'),
    ({"vm": {"cpu_cap": "10"}}, "vm", 'VM "cpu_cap" is not a number'),
    ({"vm": {"vcpus": "2"}}, "vm", 'VM "vcpus" is not a number'),
    (
        {"vm": {"traits": 1}},
        "vm",
        '"vm.traits": property "": number value found, but a object is required',
    ),
    ({"vm": {"affinity": {}}}, "vm", 'VM "affinity" is not an array'),
    *(
        ({"vm": {"affinity": [{**RULE, name: 1}]}}, "vm", f'VM "affinity.{name}" is not a string')
        for name in ("key", "operator", "value", "valueType")
    ),
    ({"vm": {"affinity": [{**RULE, "isSoft": "no"}]}}, "vm",
     'VM "affinity.isSoft" is not a boolean'),
    ({"vm": {"affinity": [{**RULE, "operator": "="}]}}, "vm",
     'VM "affinity.operator" has invalid operator'),
    ({"vm": {"affinity": [{**RULE, "valueType": "like"}]}}, "vm",
     'VM "affinity.valueType" has invalid value'),
    ({"vm": {"locality": []}}, "vm", 'VM "locality" is has wrong type'),
    ({"vm": {"locality": {"near": 1}}}, "vm",
     'VM "locality.near" is neither string nor array'),
    ({"vm": {"locality": {"far": "x"}}}, "vm", 'VM "locality.far" is not a UUID'),
    ({"vm": {"locality": {"far": [OWNER, "x"]}}}, "vm",
     'VM "locality.far" contains an malformed UUID'),
    ({"vm": {"locality": {"strict": "yes"}}}, "vm",
     'VM "locality.strict" is given, but not boolean'),
    ({"vm": {"nic_tags": "admin"}}, "vm", 'VM "nic_tags" is not an array'),
    ({"vm": {"nic_tags": [1]}}, "vm", 'VM "nic_tags" contains invalid type in array'),
    ({"vm": {"vm_uuid": "x"}}, "vm", '"vm.vm_uuid" is an invalid UUID'),
    ({"vm": {"internal_metadata": "x"}}, "vm", '"vm.internal_metadata" is not a hash'),
    ({"vm": {"internal_metadata": {"docker:volumesfrom": "["}}}, "vm",
     f'"{METADATA}" is not valid JSON'),
    ({"vm": {"internal_metadata": {"docker:volumesfrom": "{}"}}}, "vm",
     f'"{METADATA}" does not contain an array'),
    ({"image": {"requirements": {"min_ram": 1024.02}}}, "vm",
     '"vm.ram" is smaller than "image.requirements.min_ram"'),
    ({"image": {"requirements": {"max_ram": 1023.98}}}, "vm",
     '"vm.ram" is larger than "image.requirements.max_ram"'),
    ({"servers": ["x"]}, "servers", "invalid server UUID"),
    ({"servers": [1]}, "servers", "invalid server UUID"),
    ({"nic_tag_requirements": "x"}, "nic_tag_requirements",
     'property "": string value found, but a array is required'),
    ({"nic_tag_requirements": ["external"]}, "nic_tag_requirements",
     'property "0": external - string value found, but a array is required'),
    ({"nic_tag_requirements": [["a"], [5]]}, "nic_tag_requirements",
     'property "1[0]": 5 - number value found, but a string is required'),
    ({"nic_tag_requirements": [[""]]}, "nic_tag_requirements",
     'property "0[0]": must be at least 1 characters long'),
    ({"nic_tags": [""]}, "nic_tags", "invalid nic_tag"),
    ({"nic_tags": [None]}, "nic_tags", "invalid nic_tag"),
]  # fmt: skip


def parameters(changes: dict[str, Any]) -> dict[str, Any]:
    """Good parameters with some changed."""
    given: dict[str, Any] = {"image": {}, "nic_tags": [], **changes}
    vm = changes.get("vm", {})
    given["vm"] = vm if vm is None else {"owner_uuid": OWNER, "ram": 1024, **vm}
    return given


@pytest.mark.parametrize(("changes", "field", "message"), TABLE)
def test_invalid(changes: dict[str, Any], field: str, message: str) -> None:
    """One field and one message: the first check that fails."""
    with pytest.raises(InvalidRequest) as caught:
        check_request(**parameters(changes))
    assert (caught.value.field, str(caught.value)) == (field, message)


@pytest.mark.parametrize(
    "changes",
    [
        {"vm": {"quota": 0, "cpu_cap": None, "locality": {"near": "", "far": []}}},
        {"vm": {"traits": [], "affinity": [RULE], "internal_metadata": {}}},
        {"vm": {"ram": 1023.99}, "image": {"requirements": {"min_ram": 1024, "max_ram": 1024}}},
        {"package": {"overprovision_cpu": "4.5", "overprovision_io": 0, "traits": ""}},
        {"package": {"min_platform": '{"7.0": "20250101T000000Z"}'}},
        {"servers": [OWNER.upper()], "nic_tag_requirements": [["a", "b"], []]},
    ],
)
def test_valid(changes: dict[str, Any]) -> None:
    """Edges of what is allowed."""
    check_request(**parameters(changes))


def test_the_checks_have_an_order() -> None:
    """Image, package, vm, servers, requirements, tags: each is told of only when those before hold."""
    given = {
        "image": [],
        "package": [],
        "vm": None,
        "servers": ["x"],
        "nic_tag_requirements": "x",
        "nic_tags": [1],
    }
    good = {
        "image": {},
        "package": {},
        "vm": {"owner_uuid": OWNER, "ram": 1},
        "servers": [],
        "nic_tag_requirements": [],
    }
    seen = []
    for name in [*good, "nic_tags"]:
        with pytest.raises(InvalidRequest) as caught:
            check_request(**given)
        seen.append(caught.value.field)
        given[name] = good.get(name)
    assert seen == [*good, "nic_tags"]


def test_requests_are_copied_and_normalised() -> None:
    """The caller's objects stay; ratios are numbers under the servers' names; tags are replaced."""
    given = parameters(
        {
            "vm": {"nic_tags": ["old"]},
            "nic_tags": ["new"],
            "package": {"overprovision_memory": "1.5", "overprovision_network": 2, "traits": "{}"},
        }
    )
    checked = check_request(**given)
    assert checked.vm["nic_tags"] == ["new"]
    assert checked.vm["brand"] == "joyent"
    assert checked.package == {"traits": {}, "overprovision_ram": 1.5, "overprovision_net": 2.0}
    assert given["vm"]["nic_tags"] == ["old"]
    assert "brand" not in given["vm"]
    assert check_request(**parameters({"package": {}})).package == {"overprovision_ram": 1.0}


def test_declared_types_are_told_all_at_once() -> None:
    """Missing and wrong parameters, in declared order, with the API's words."""
    absent = "value is not an object. (was: [object Undefined])"
    assert check_types({}) == {
        "image": absent,
        "vm": absent,
        "nic_tags": "value was not an array",
    }
    wrong = {"servers": "x", "package": 1, "image": [], "vm": None, "nic_tags": {}}
    assert list(check_types({**wrong, "nic_tag_requirements": True}).items()) == [
        ("servers", "value was not an array"),
        ("package", "value is not an object. (was: [object Number])"),
        ("image", "value is not an object. (was: [object Array])"),
        ("vm", "value is not an object. (was: [object Null])"),
        ("nic_tag_requirements", "value was not an array"),
        ("nic_tags", "value was not an array"),
    ]
    assert check_types({"image": {}, "vm": {}, "nic_tags": []}) == {}


@pytest.mark.parametrize(
    ("changes", "field", "message"),
    [
        ({"servers": None}, "servers", "servers[0]"),
        ({"servers": "x"}, "servers", "must be a list"),
        ({"servers": [1]}, "servers", "servers[0] must be an object"),
        ({"servers": [{}]}, "servers", "servers[0] has no uuid"),
        ({"servers": [{"uuid": "a"}, {"uuid": "a"}]}, "servers", "servers[1] has the uuid"),
        ({"tickets": {}}, "tickets", "must be a list"),
        ({"defaults": []}, "defaults", "must be an object"),
        ({"defaults": {"filter_headnode": "maybe"}}, "defaults", "filter_headnode is not boolean"),
        ({"settings": {"os_policy": "lax"}}, "settings", "os_policy is not one of"),
        ({"description": {"pipe": []}}, "description", "must be a list"),
        ({"description": ["pipe"]}, "description", "sexp too short"),
        ({"description": ["pipe", "guess"]}, "description", "Unrecognized algorithm: guess"),
        ({"vm": {}}, "vm", 'VM "owner_uuid" is not a valid UUID'),
    ],
)
def test_invalid_cases(changes: dict[str, Any], field: str, message: str) -> None:
    """A case that cannot be run names the field and what is wrong with it."""
    case = {"servers": [], "vm": {"owner_uuid": OWNER, "ram": 1}, **changes}
    if changes.get("servers", "") is None:
        case["servers"] = [None]
    answer = allocate_case(case)
    assert answer["invalid"] == field
    assert message in answer["message"]


def test_a_case_must_be_an_object() -> None:
    """Anything else is said to be invalid."""
    assert allocate_case([])["invalid"] == "case"
    assert allocate_case({"vm": {}})["invalid"] == "servers"
