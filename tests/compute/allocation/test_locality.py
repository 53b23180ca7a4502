"""Near, far and affinity (§6)."""

from typing import Any

import pytest

HARD, SOFT = "hard-filter-locality-hints", "soft-filter-locality-hints"
AFFINITY = "calculate-affinity"
IGNORED = " (ignored b/c non-strict)"
DOCKER_ID = "deadbeef00001111222233334444555566667777888899990000aaaabbbbcccc"


@pytest.fixture
def place(build: Any) -> Any:
    """Servers a, b, c: the owner's VMs 1 and 2 on a, 3 on b; another's VM 9 on c."""

    def mine(alias: str, **changes: Any) -> Any:
        return build.held(owner_uuid=build.owner, alias=alias, **changes)

    docker = "deadbeef-0000-1111-2222-333344445555"
    return [
        build.server(
            "a",
            vms={
                build.uuid("1"): mine("web1", tags={"role": "web"}),
                build.uuid("2"): mine("db1", tags={"role": "db", "docker:label:tier": "back"}),
            },
        ),
        build.server(
            "b",
            vms={
                build.uuid("3"): mine("web2", tags={"role": "web", "n": 3}),
                docker: mine(
                    "box", docker=True, internal_metadata={"docker:id": DOCKER_ID}, tags={}
                ),
                build.uuid("4"): mine("old", state="destroyed", tags={"role": "gone"}),
            },
        ),
        build.server("c", vms={build.uuid("9"): build.held(alias="web1", tags={"role": "x"})}),
    ]


def short(build: Any, text: str) -> str:
    """uuids as the names they stand for."""
    for name in "123459":
        text = text.replace(build.uuid(name), name)
    return text


# plugin, near, far, strict, names left, reasons
TABLE: list[tuple[str, Any, Any, Any, str, dict[str, str]]] = [
    (HARD, None, None, None, "abc", {"skip": "No strict locality requested"}),
    (HARD, "1", None, False, "abc", {"skip": "No strict locality requested"}),
    (HARD, None, None, True, "abc", {"skip": "No near or far localities requested"}),
    (HARD, None, "1", True, "bc", {"a": "exclude: inst!=1"}),
    (HARD, None, ["2", "3", "1"], True, "c", {"a": "exclude: inst!=2", "b": "exclude: inst!=3"}),
    (HARD, ["1"], None, True, "a", {"a": "include: inst==1"}),
    (HARD, ["1", "2"], None, True, "a", {"a": "include: inst==1,2"}),
    (HARD, ["1", "3"], None, True, "", {"*": "exclude: inst==1,3"}),
    (HARD, ["1", "9"], None, True, "", {"*": "exclude: inst==1,9"}),
    (HARD, ["9"], None, True, "", {"*": "exclude: inst==9"}),
    (HARD, None, ["9"], True, "abc", {}),
    (HARD, ["1"], ["2"], True, "", {"a": "exclude: inst!=2", "*": "exclude: inst==1"}),
    (SOFT, "1", None, True, "abc", {"skip": "Strict locality requested and no spreading needed"}),
    (
        SOFT,
        None,
        None,
        None,
        "c",
        {"a": "exclude: spread by owner", "b": "exclude: spread by owner"},
    ),
    (
        SOFT,
        None,
        None,
        True,
        "c",
        {"a": "exclude: spread by owner", "b": "exclude: spread by owner"},
    ),
    (SOFT, ["1"], None, None, "a", {"a": "include: inst==~1"}),
    (
        SOFT,
        ["3", "2", "1"],
        None,
        False,
        "ab",
        {"a": "include: inst==~2", "b": "include: inst==~3"},
    ),
    (SOFT, ["9"], None, None, "abc", {"*": f"exclude: inst==~9{IGNORED}"}),
    (SOFT, ["9", "5", "5"], None, None, "abc", {"*": f"exclude: inst==~9,5,...{IGNORED}"}),
    (SOFT, None, ["1"], None, "bc", {"a": "exclude: inst!=1"}),
    (
        SOFT,
        ["1"],
        ["2"],
        None,
        "bc",
        {"a": "exclude: inst!=2", "*": f"exclude: inst==~1{IGNORED}"},
    ),
]


@pytest.mark.parametrize(("plugin", "near", "far", "strict", "left", "reasons"), TABLE)
def test_locality(
    build: Any,
    place: Any,
    plugin: str,
    near: Any,
    far: Any,
    strict: Any,
    left: str,
    reasons: dict[str, str],
) -> None:
    """Strict hints are obeyed, the others as far as they leave a server; others' VMs do not count."""

    def uuids(names: Any) -> Any:
        return [build.uuid(one) for one in names] if isinstance(names, list) else build.uuid(names)

    given = {"near": near, "far": far}
    locality: dict[str, Any] = {
        name: uuids(names) for name, names in given.items() if names is not None
    }
    if strict is not None:
        locality["strict"] = strict
    done = build.pipeline(plugin, place, vm={"locality": locality})
    assert done.left == left
    assert {name: short(build, text) for name, text in done.reasons.items()} == reasons


def test_soft_hints_that_leave_nobody_are_ignored(build: Any, place: Any) -> None:
    """Far from everything, and spreading over full servers: all are kept, and it is said."""
    far = {"far": [build.uuid("1"), build.uuid("3")]}
    done = build.pipeline(SOFT, place[:2], vm={"locality": far})
    assert done.left == "ab"
    assert short(build, done.reasons["b"]) == f"exclude: inst!=3{IGNORED}"
    done = build.pipeline(SOFT, place[:2])
    assert (done.left, done.reasons) == ("ab", {"*": f"exclude: spread by owner{IGNORED}"})


def rule(key: str, operator: str, value: str, kind: str = "exact", *, soft: bool = False) -> Any:
    """One affinity rule."""
    return {"key": key, "operator": operator, "value": value, "valueType": kind, "isSoft": soft}


# rules, names near, names far, strict
FOUND: list[tuple[list[Any], str, str, bool]] = [
    ([rule("instance", "==", "web1")], "1", "", True),
    ([rule("container", "!=", "web1")], "", "1", True),
    ([rule("instance", "==", "web*", "glob")], "13", "", True),
    ([rule("instance", "==", "/^w.b[12]$/", "re")], "13", "", True),
    ([rule("instance", "==", "web1", soft=True)], "1", "", False),
    ([rule("instance", "!=", "nobody")], "", "", True),
    ([rule("instance", "==", "nobody", soft=True)], "", "", False),
    ([rule("role", "==", "web")], "13", "", True),
    ([rule("role", "!=", "w*", "glob")], "", "13", True),
    ([rule("tier", "==", "/^ba/", "re")], "2", "", True),
    ([rule("n", "==", "3")], "3", "", True),
    ([rule("image", "==", "nobody")], "", "", True),
    ([rule("role", "==", "web"), rule("instance", "==", "web1")], "13", "", True),
    ([rule("role", "==", "gone", soft=True)], "", "", False),
    ([rule("role", "==", "x", soft=True)], "", "", False),
]


@pytest.mark.parametrize(("rules", "near", "far", "strict"), FOUND)
def test_affinity_becomes_locality(
    build: Any, place: Any, rules: list[Any], near: str, far: str, strict: bool
) -> None:
    """Rules find the owner's live VMs by alias, tag and label, exactly, by glob or by pattern."""
    from vetro.compute.allocation import Allocator, Fleet, check_request

    allocator = Allocator(description=["pipe", AFFINITY])
    vm = {"owner_uuid": build.owner, "ram": 1, "affinity": rules}
    checked = check_request(vm=vm, image={})
    assert allocator.allocate(Fleet(place), checked).chosen is not None
    assert checked.vm["locality"] == {
        "strict": strict,
        "near": [build.uuid(name) for name in near],
        "far": [build.uuid(name) for name in far],
    }


@pytest.mark.parametrize(
    ("rules", "error"),
    [
        (
            [rule("instance", "==", "nobody")],
            'no active containers found matching "nobody" for affinity "instance==nobody"',
        ),
        (
            [rule("role", "==", "cache")],
            'no active containers found matching tag "role=cache" for affinity "role==cache"',
        ),
        (
            [rule("instance", "==", "9" * 64)],
            f'no active containers found matching "{"9" * 64}" for affinity "instance=={"9" * 64}"',
        ),
        ([rule("role", "==", "/(a/", "re")], "a ')' is missing at 2 in the pattern '(a'"),
    ],
)
def test_hard_rules_that_find_nothing_fail(
    build: Any, place: Any, rules: list[Any], error: str
) -> None:
    """No server is left, and the message is the request's error."""
    done = build.pipeline(AFFINITY, place, vm={"affinity": rules})
    assert (done.left, done.reasons) == ("", {"*": error})
    assert done.result["error"] == f"No compute resources available: {error}"


@pytest.mark.parametrize("value", [DOCKER_ID, "deadbeef", "deadbeef-0000-1111-2222-333344445555"])
def test_docker_ids(build: Any, place: Any, value: str) -> None:
    """A container is named by its uuid, its docker id or an unambiguous beginning of that."""
    done = build.pipeline(
        [AFFINITY, HARD], place, vm={"affinity": [rule("container", "==", value)]}
    )
    assert done.left == "b"


def test_an_ambiguous_docker_id_is_an_error(build: Any, place: Any) -> None:
    """Two containers begin alike: neither is guessed."""
    extra = {"docker:id": "deadbeef" + "1" * 56}
    twin = build.held(owner_uuid=build.owner, docker=True, internal_metadata=extra)
    place[2]["vms"][build.uuid("5")] = twin
    done = build.pipeline(AFFINITY, place, vm={"affinity": [rule("container", "==", "deadbeef")]})
    assert done.reasons["*"].startswith("Multiple matches: deadbeef=")


def test_without_affinity_nothing_happens(build: Any, place: Any) -> None:
    """No rules: a skip; an empty list: nothing at all."""
    assert build.pipeline(AFFINITY, place).reasons == {"skip": "No affinity found"}
    assert build.pipeline(AFFINITY, place, vm={"affinity": []}).reasons == {}


def test_hard_and_soft_rules_are_both_honoured(build: Any, place: Any) -> None:
    """Hard first, then soft; with ``affinity_mix`` hard the soft ones are dropped."""
    rules = [rule("instance", "!=", "web1"), rule("instance", "==", "web2", soft=True)]
    steps = [AFFINITY, HARD, SOFT]
    done = build.pipeline(steps, place, vm={"affinity": rules})
    assert done.left == "b"
    done = build.pipeline(steps, place, vm={"affinity": rules}, settings={"affinity_mix": "hard"})
    assert done.left == "bc"


@pytest.mark.parametrize(
    ("filters", "left", "reasons"),
    [
        ({}, "abc", {"skip": "No filter_owner_server default to run"}),
        (
            {"mine": "server.hostname == 'x'"},
            "b",
            {"*": "Servers pass filter for owner mine: server.hostname == 'x'"},
        ),
        ({"other": "server.hostname == 'x'"}, "ac", {"b": "Removed by filter for owner other"}),
        (
            {"mine": "server.nothing.there == 1"},
            "",
            {"*": "Error running filter for owner mine: server.nothing.there == 1"},
        ),
        (
            {"other": "server.nothing.there == 1"},
            "",
            {"*": "Error running filter for owner other: server.nothing.there == 1"},
        ),
    ],
)
def test_owner_filters(
    build: Any, filters: dict[str, str], left: str, reasons: dict[str, str]
) -> None:
    """An owner's servers are theirs alone; an expression that fails stops the allocation."""
    names = {"mine": build.owner, "other": build.other}
    servers = [build.server("a"), build.server("b", hostname="x"), build.server("c")]
    done = build.pipeline(
        "hard-filter-owners-servers",
        servers,
        defaults={"filter_owner_server": {names[name]: text for name, text in filters.items()}},
    )
    shown = {
        name: text.replace(build.owner, "mine").replace(build.other, "other")
        for name, text in done.reasons.items()
    }
    assert (done.left, shown) == (left, reasons)
