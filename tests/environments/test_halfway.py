"""What is kept of a deployment that was refused after it had begun (decision 0813)."""

from __future__ import annotations

import copy
from typing import Any

from vetro.environments.halfway import halfway


def thing(id_: str, **properties: Any) -> dict[str, Any]:
    """An object."""
    return {"?": {"id": id_, "type": "test.Thing"}, **properties}


def root(networks: Any, *services: Any, key: str = "services") -> dict[str, Any]:
    """The objects of an environment."""
    return thing("env", defaultNetworks=networks, **{key: [*services]})


def engine(objects: dict[str, Any]) -> dict[str, Any]:
    """The objects as an engine has them."""
    made = copy.deepcopy(objects)
    return {
        **{key: one for key, one in made.items() if key != "services"},
        "applications": made["services"],
    }


OLD = thing("old-net", deployed=True)
WEB = thing("web", port=80, address=None, joined=["old-net"], disks={"/a": thing("disk")})
GONE = thing("gone", network="old-net")
DEPLOYED = root({"environment": OLD}, WEB, GONE)
BEFORE: dict[str, Any] = {
    "Objects": DEPLOYED,
    "ObjectsCopy": engine(DEPLOYED),
    "Attributes": [["gone", "c", "kept", 1], ["web", "c", "kept", 1]],
}
WEB_WISHED = thing("web", port=81, address=None, joined=["old-net"], disks={"/b": thing("more")})
WISHED = root({"environment": thing("new-net")}, WEB_WISHED, thing("second", uses="web"))
RAN = root(
    {"environment": thing("new-net", deployed=True)},
    {**WEB_WISHED, "address": "10.0.0.4", "joined": ["new-net"]},
    thing("second", uses="web", made="since"),
)
AFTER = {
    "Objects": engine(RAN),
    "ObjectsCopy": engine(RAN),
    "Attributes": [["web", "c", "kept", 2]],
}


def test_the_environment_is_as_it_was_with_what_its_program_has_written_since() -> None:
    """A user's change is undone, and with it what refers to an object that was made for it."""
    environment, _ = halfway(BEFORE, {"Objects": WISHED}, AFTER)
    assert environment["Objects"] == root(
        {"environment": OLD}, {**WEB, "address": "10.0.0.4"}, GONE
    )


def test_the_session_has_what_was_wished_and_what_became_of_it() -> None:
    """As after any failure: sent again it goes on from there."""
    _, session = halfway(BEFORE, {"Objects": WISHED}, AFTER)
    assert session["Objects"] == RAN


def test_the_next_deployment_finds_what_was_made_and_what_was_to_go() -> None:
    """Both in ``ObjectsCopy``, each once and in the object that it is in; and what was kept of them."""
    environment, session = halfway(BEFORE, {"Objects": WISHED}, AFTER)
    assert environment["ObjectsCopy"] == session["ObjectsCopy"]
    web = {**WEB, "address": "10.0.0.4", "joined": ["new-net"], "?made": [thing("more")]}
    expected = engine(
        root({"environment": OLD}, web, GONE, thing("second", uses="web", made="since"))
    )
    expected["?made"] = [thing("new-net", deployed=True)]
    assert environment["ObjectsCopy"] == expected
    assert environment["Attributes"] == [["web", "c", "kept", 2], ["gone", "c", "kept", 1]]


def test_of_a_first_deployment_the_next_one_finds_all_that_was_made() -> None:
    """Nothing was deployed before it."""
    environment, _ = halfway({"Objects": root({})}, {"Objects": WISHED}, AFTER)
    assert (environment["Objects"], environment["ObjectsCopy"]) == (root({}), AFTER["ObjectsCopy"])


def test_services_of_workflows_wait_and_the_state_of_their_rules_is_kept() -> None:
    """They are flat: what was made is in the environment's state."""
    before: dict[str, Any] = {
        "Kind": "workflow",
        "Objects": {"services": [{"id": "a"}], "state": {}},
    }
    ran = {"services": [{"id": "a"}, {"id": "b"}], "state": {"made": True}}
    after = {"Kind": "workflow", "Objects": ran, "ObjectsCopy": ran}
    environment, session = halfway(before, {"Objects": ran}, after)
    assert environment["Objects"] == {"services": [{"id": "a"}], "state": {"made": True}}
    assert (session["Objects"], environment["ObjectsCopy"]) == (ran, ran)
