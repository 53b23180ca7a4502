"""Steps as bytes: the same as steps as objects, whatever the servers are called and score."""

from typing import Any

import msgspec
import pytest
from tests.compute.allocation.conftest import OWNER

from vetro.compute.allocation import (
    Allocator,
    Defaults,
    Fleet,
    Outcome,
    candidates_of,
    check_request,
    read_defaults,
    seeded,
)


def fleet_of(build: Any, names: list[str]) -> Fleet:
    """Servers: one in seven does not run, one in five has a trait, free room differs."""
    return Fleet(
        build.server(
            uuid=name,
            status="unknown" if number % 7 == 0 else "running",
            traits={"ssd": True} if number % 5 == 0 else {},
            memory_total_bytes=(64 + number) * 2**30,
            sysinfo={"System Type": "Linux", "VM Brands": ["lx"]},
        )
        for number, name in enumerate(names)
    )


def explained(fleet: Fleet, defaults: Defaults | None = None) -> Outcome:
    """An allocation over a fleet."""
    vm = {"owner_uuid": OWNER, "ram": 1024, "cpu_cap": 100, "quota": 10, "brand": "lx"}
    return Allocator(defaults).allocate(
        fleet,
        check_request(vm=vm, image={}, package=None, nic_tags=[]),
        candidates=candidates_of(fleet, headnodes=False),
        shuffle=True,
        random=seeded(1),
    )


UUIDS = [f"00000000-0000-4000-8000-{number:012x}" for number in range(60)]


@pytest.mark.parametrize(
    "names",
    [
        pytest.param(UUIDS, id="uuids"),
        pytest.param(["one", *UUIDS], id="a short name"),
        pytest.param([*UUIDS, '"' * 36], id="a name that JSON escapes"),
        pytest.param([*UUIDS, "é" * 36], id="a name that is not ASCII"),
        pytest.param([], id="nobody"),
    ],
)
@pytest.mark.parametrize("weight", [1, 0.5, 9.99, 10, 250], ids=str)
def test_bytes_say_what_the_objects_say(build: Any, names: list[str], weight: float) -> None:
    """Every list, reason and score, in the same order; big scores and odd names too."""
    defaults = read_defaults({"weight_unreserved_ram": weight, "weight_unreserved_disk": 1})
    outcome = explained(fleet_of(build, names), defaults)
    whole = b"".join(outcome.steps_as_bytes())
    assert msgspec.json.decode(whole) == outcome.steps_json()
    # The order of the reasons as well, which equality of objects does not see.
    assert whole == msgspec.json.encode(outcome.steps_json())


def test_the_usual_names_are_taken_from_the_table(build: Any) -> None:
    """What is quick is used: a list of uuids and a scorer's lines need no Python texts."""
    outcome = explained(fleet_of(build, UUIDS))
    scorers = [step for step in outcome.steps if step.title.startswith("Score servers")]
    assert outcome.steps[0].names.table() is not None
    texts = [step for step in scorers if "skip" not in step.texts()]
    assert texts
    for step in texts:
        quick: Any = step.reasons
        assert quick.as_bytes(step.names) == msgspec.json.encode(step.texts())


def test_an_explanation_keeps_its_names_when_the_fleet_changes(build: Any) -> None:
    """What is rendered later tells of the servers that were there, though others came since."""
    fleet = fleet_of(build, UUIDS[:5])
    outcome = explained(fleet)
    then = outcome.steps_json()
    fleet.update([build.server(uuid=UUIDS[9])], [UUIDS[0], UUIDS[1]])
    assert msgspec.json.decode(b"".join(outcome.steps_as_bytes())) == then
