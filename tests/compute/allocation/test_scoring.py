"""Scorers: who is raised by how much, and the choice (§7)."""

from typing import Any

import pytest

GIB = 2**30
RAM, DISK, OWNERS = "score-unreserved-ram", "score-unreserved-disk", "score-num-owner-zones"
PLATFORM, REBOOT, RANDOM = "score-current-platform", "score-next-reboot", "score-uniform-random"
SPREAD = "pkg or default set to spread with: "
# Free memory: a most, b least, c between; free disk the other way round.
ROOM = [
    {"memory_total_bytes": 64 * GIB, "disk_pool_alloc_bytes": 500 * GIB},
    {"memory_total_bytes": 16 * GIB, "disk_pool_alloc_bytes": 100 * GIB},
    {"memory_total_bytes": 32 * GIB, "disk_pool_alloc_bytes": 300 * GIB},
]


def scores(done: Any) -> dict[str, float]:
    """Scores by name."""
    return {uuid[-1]: score for uuid, score in done.result["scores"].items()}


# plugin, changes of servers, request, scores or skip text
TABLE: list[tuple[str, list[dict[str, Any]], dict[str, Any], Any]] = [
    (RAM, ROOM, {}, {"a": 2.0, "b": 0.0, "c": 1.0}),
    (RAM, ROOM, {"defaults": {"weight_unreserved_ram": -3}}, {"a": 0.0, "b": 3.0, "c": 1.5}),
    (RAM, ROOM, {"settings": {"weight_sign": "upstream"}}, {"a": 0.0, "b": 2.0, "c": 1.0}),
    (
        RAM,
        ROOM,
        {"settings": {"weight_sign": "upstream"}, "defaults": {"weight_unreserved_ram": -2}},
        {"a": 2.0, "b": 0.0, "c": 1.0},
    ),
    (RAM, ROOM[:1], {}, {"a": 2.0}),
    (RAM, ROOM, {"defaults": {"server_spread": "min-ram"}}, {"a": 0.0, "b": 2.0, "c": 1.0}),
    (RAM, ROOM, {"defaults": {"server_spread": "max-ram"}}, {"a": 2.0, "b": 0.0, "c": 1.0}),
    (
        RAM,
        ROOM,
        {"defaults": {"server_spread": "max-ram"}, "settings": {"weight_sign": "upstream"}},
        {"a": 2.0, "b": 0.0, "c": 1.0},
    ),
    (
        RAM,
        ROOM,
        {
            "defaults": {"server_spread": "max-ram"},
            "package": {"alloc_server_spread": "min-ram"},
        },
        {"a": 0.0, "b": 2.0, "c": 1.0},
    ),
    (
        RAM,
        ROOM,
        {"defaults": {"server_spread": "random"}},
        "pkg or default set to score with other plugin",
    ),
    (
        RAM,
        ROOM,
        {"defaults": {"weight_unreserved_ram": "0"}},
        "Resolved score weight to 0.00; no changes",
    ),
    (DISK, ROOM, {}, {"a": 0.0, "b": 1.0, "c": 0.5}),
    (DISK, ROOM, {"settings": {"weight_sign": "upstream"}}, {"a": 1.0, "b": 0.0, "c": 0.5}),
    (DISK, ROOM, {"package": {"alloc_server_spread": "min-ram"}}, SPREAD + "min-ram"),
    (
        DISK,
        ROOM,
        {"defaults": {"weight_unreserved_disk": 0}},
        "Resolved score weight to 0.00; no changes",
    ),
    (OWNERS, [{}, {}], {}, "Resolved score weight to 0.00; no changes"),
    (OWNERS, [{}, {}], {"defaults": {"server_spread": "max-ram"}}, SPREAD + "max-ram"),
    (
        OWNERS,
        [{"mine": 2}, {"mine": 0}, {"mine": 1}],
        {"defaults": {"weight_num_owner_zones": 3}},
        {"a": 0.0, "b": 3.0, "c": 1.5},
    ),
    (
        OWNERS,
        [{"mine": 2}, {"mine": 0}, {"mine": 1}],
        {"defaults": {"weight_num_owner_zones": -3}},
        {"a": 3.0, "b": 0.0, "c": 1.5},
    ),
    (
        OWNERS,
        [{"mine": 2}, {"mine": 0}],
        {"defaults": {"server_spread": "min-owner"}},
        {"a": 0.0, "b": 2.0},
    ),
    (PLATFORM, [{}], {}, "One or fewer servers"),
    (
        PLATFORM,
        [{"day": "20250101"}, {"day": "20250103"}, {"day": "20250102"}],
        {},
        {"a": 0.0, "b": 1.0, "c": 0.5},
    ),
    (
        PLATFORM,
        [{"day": "20250101"}, {"day": "20250103"}, {"day": "20250102"}],
        {"defaults": {"weight_current_platform": -4}},
        {"a": 4.0, "b": 0.0, "c": 2.0},
    ),
    (PLATFORM, [{}, {}], {"defaults": {"weight_current_platform": -4}}, {"a": -4.0, "b": -4.0}),
    (
        PLATFORM,
        [{"day": "20250101"}, {"day": "20250103"}],
        {"defaults": {"weight_current_platform": 0}},
        {"a": 0.0, "b": 0.0},
    ),
    (
        PLATFORM,
        [{"day": "odd"}, {"day": "20250101"}, {"day": "20250103"}],
        {},
        {"a": 0.0, "b": 0.0, "c": 1.0},
    ),
    (PLATFORM, [{"day": "odd"}, {"day": "odder"}], {}, {"a": 1.0, "b": 1.0}),
    (REBOOT, [{}], {}, "One or fewer servers"),
    (REBOOT, [{}, {}], {}, {"a": 0.5, "b": 0.5}),
    (
        REBOOT,
        # none; the latest; 6 days before that; 8 days before it; in the past
        [
            {},
            {"next_reboot": "2026-03-30T00:00:00.000Z"},
            {"next_reboot": "2026-03-24T00:00:00.000Z"},
            {"next_reboot": "2026-03-22T00:00:00.000Z"},
            {
                "next_reboot": "2026-03-22T00:00:00.000Z",
                "last_boot": "2026-03-23T00:00:00.000Z",
            },
        ],
        {"defaults": {"weight_next_reboot": 4}},
        {"a": 4.0, "b": 2.0, "c": 2.0, "d": 0.0, "e": 4.0},
    ),
    (
        REBOOT,
        [
            {"next_reboot": "2026-03-30T00:00:00.000Z"},
            {"next_reboot": "2026-03-23T00:00:00.000Z"},
        ],
        {"defaults": {"weight_next_reboot": -4}},
        {"a": 0.0, "b": 4.0},
    ),
    (RANDOM, [{}, {}], {"defaults": {"weight_uniform_random": 0}},
     "Resolved score weight to 0; no changes"),
    (RANDOM, [{}, {}], {"defaults": {"server_spread": "min-ram"}}, SPREAD + "min-ram"),
    (RANDOM, [{}], {"defaults": {"server_spread": "random"}}, {"a": 2.0}),
]  # fmt: skip


@pytest.mark.parametrize(
    ("plugin", "changes", "request_", "expected"),
    TABLE,
    ids=[f"{row[0]}-{at}" for at, row in enumerate(TABLE)],
)
def test_scorer(
    build: Any, plugin: str, changes: list[Any], request_: dict[str, Any], expected: Any
) -> None:
    """Each scorer adds what its weight and the order of its values say, or says why nothing."""
    servers = []
    for name, change in zip("abcdef", changes, strict=False):
        given = dict(change)
        mine, day = given.pop("mine", 0), given.pop("day", None)
        stamp = {"sysinfo": {"Live Image": f"{day}T000000Z"}} if day else {}
        held = {build.uuid(f"{name}{at}"): build.held(owner_uuid=build.owner) for at in range(mine)}
        servers.append(build.server(name, vms=held, **stamp, **given))
    done = build.pipeline(plugin, servers, **request_)
    if isinstance(expected, str):
        assert done.reasons == {"skip": expected}
        assert set(scores(done).values()) == {0.0}
    else:
        assert scores(done) == expected
        assert set(done.reasons) == set(expected)
        for name, text in done.reasons.items():
            more = format(expected[name], ".2f")
            assert text.startswith(f"increased score by {more} to {more}")


def test_owner_zones_are_counted_in_the_reason(build: Any) -> None:
    """The text says how many VMs of the owner there are."""
    held = {build.uuid("1"): build.held(owner_uuid=build.owner)}
    servers = [build.server("a", vms=held), build.server("b")]
    done = build.pipeline(OWNERS, servers, defaults={"weight_num_owner_zones": 1})
    assert done.reasons == {
        "a": "increased score by 0.00 to 0.00; 1 owner zones found",
        "b": "increased score by 1.00 to 1.00; 0 owner zones found",
    }


def test_scores_add_up_and_the_latest_of_equals_wins(build: Any) -> None:
    """Totals are in the reasons; with equal scores the server latest in the list is chosen."""
    servers = [build.server(name, **room) for name, room in zip("abc", ROOM, strict=True)]
    done = build.pipeline([RAM, DISK], servers)
    assert scores(done) == {"a": 2.0, "b": 1.0, "c": 1.5}
    assert done.reasons["a"] == "increased score by 0.00 to 2.00"
    assert done.reasons["b"] == "increased score by 1.00 to 1.00"
    assert done.result["chosen"] == build.uuid("a")
    alike = [build.server(name) for name in "abc"]
    assert build.pipeline("identity", alike).result["chosen"] == build.uuid("c")
    assert build.pipeline("identity", alike[::-1]).result["chosen"] == build.uuid("a")


def test_equal_values_keep_the_order_of_the_list(build: Any) -> None:
    """Servers alike get the ramp in list order."""
    done = build.pipeline(RAM, [build.server(name) for name in "abcde"])
    assert scores(done) == {"a": 2.0, "b": 1.5, "c": 1.0, "d": 0.5, "e": 0.0}


def test_two_decimals_round_half_away_from_zero(build: Any) -> None:
    """0.125 is 0.13, and 1.005, which is a little less than that, is 1.00."""
    from vetro.compute.allocation.wording import fixed2

    assert [fixed2(value) for value in (0.125, 1.005, -0.125, 2.0, 0.335)] == [
        "0.13",
        "1.00",
        "-0.13",
        "2.00",
        "0.34",
    ]
    done = build.pipeline(RAM, [build.server("a")], defaults={"weight_unreserved_ram": 0.125})
    assert done.reasons == {"a": "increased score by 0.13 to 0.13"}


def test_chance_is_repeatable_and_fair(build: Any) -> None:
    """The same seed gives the same scores; over many seeds every server wins sometimes."""
    servers = [build.server(name) for name in "abcd"]

    def run(seed: Any) -> dict[str, Any]:
        return build.pipeline(RANDOM, servers, seed=seed).result

    assert run(7) == run(7)
    assert {run(seed)["chosen"][-1] for seed in range(40)} == set("abcd")
    assert {run("text")["chosen"], run(-3)["chosen"]} <= {build.uuid(name) for name in "abcd"}
