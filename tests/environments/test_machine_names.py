"""Host names of machines: each is given once, wherever an object comes from (core-library.md §5.2)."""

from typing import Any

import pytest

from vetro.environments.machine_names import host_name, next_name

Api = Any  # the fixture of conftest.py

INSTANCE = "io.murano.resources.LinuxMuranoInstance"
PATCH = "application/env-model-json-patch"


def machine(id_: str, name: str, **properties: Any) -> dict[str, Any]:
    return {"?": {"id": id_, "type": INSTANCE}, "name": name, "flavor": "s", **properties}


def site(id_: str, host: str, /, **properties: Any) -> dict[str, Any]:
    """An application with a machine ``m-ID`` of that host name."""
    block = {"id": id_, "type": "org.App", "name": f"site {id_}"}
    return {"?": block, "instance": machine(f"m-{id_}", host), **properties}


async def hosts(api: Api, environment: str, session: str) -> list[str]:
    """The host names in a session."""
    rows = (await api.call("GET", f"/environments/{environment}/services", session=session)).json()
    return [one["instance"]["name"] for one in rows]


def refused(answer: Any) -> str:
    """The text of a refusal that names both components and the path of the property."""
    assert answer.status == 409, answer.text
    error = answer.json()["error"]
    assert error["type"] == "HostNameTaken"
    return error["message"]


@pytest.mark.parametrize("name", ["web", "WEB", " web ", "web.", "-web", "web_"], ids=repr)
async def test_a_second_component_does_not_get_the_name_of_a_machine(api: Api, name: str) -> None:
    """However it is spelt, when guests would have the same host name; nothing is changed."""
    environment, session = await api.opened()
    path = f"/environments/{environment}/services"
    assert (await api.call("POST", path, site("a", "web"), session=session)).status == 200
    answer = await api.call("POST", path, site("b", name), session=session)
    text = refused(answer)
    for said in ("site a (instance.name)", "site b (instance.name)", "web-#"):
        assert said in text
    assert await hosts(api, environment, session) == ["web"]


@pytest.mark.parametrize("one", ["web.example.com", "web-2", "w", "веб"])
def test_other_names_are_other_hosts(one: str) -> None:
    """What differs for a guest is not the same name."""
    assert host_name(one) not in (host_name("web"), host_name("web.example.org"), host_name("бар"))


DOORS = ["add", "two at once", "into a list", "put", "put all", "patch", "edit"]


@pytest.mark.parametrize("door", DOORS)
async def test_every_way_into_a_session_is_looked_at(api: Api, door: str) -> None:
    """Adding, replacing, patching and renaming: a name that is taken is refused, and one that is free not."""
    environment, session = await api.opened()
    path = f"/environments/{environment}/services"
    first = site("a", "web", others=[])
    assert (await api.call("POST", path, [first, site("c", "db")], session=session)).status == 200

    async def ask(name: str) -> Any:
        new = site("b", name)
        calls: dict[str, tuple[str, str, Any, dict[str, str]]] = {
            "add": ("POST", path, new, {}),
            "two at once": ("POST", path, [new, site("d", f"{name}-d")], {}),
            "into a list": ("POST", f"{path}/a/others", machine("x", name), {}),
            "put": ("PUT", f"{path}/c", site("c", name), {}),
            "put all": ("PUT", path, [first, new], {}),
            "patch": (
                "PATCH", f"/environments/{environment}/model/",
                [{"op": "add", "path": "/services/-", "value": new}], {"type": PATCH},
            ),
            "edit": ("PUT", f"{path}/c/instance/name", name, {}),
        }  # fmt: skip
        method, where, body, headers = calls[door]
        return await api.call(method, where, body, session=session, **headers)

    assert "site a (instance.name)" in refused(await ask("web"))
    assert await hosts(api, environment, session) == ["web", "db"]
    answer = await ask("other")
    assert answer.status == 200, answer.text


async def test_two_new_components_do_not_share_a_name(api: Api) -> None:
    """Nor two machines of one component."""
    environment, session = await api.opened()
    path = f"/environments/{environment}/services"
    both = [site("a", "web"), site("b", "web")]
    assert "site b" in refused(await api.call("POST", path, both, session=session))
    list_ = site("a", "one", others=[machine("x", "two"), machine("y", "two")])
    text = refused(await api.call("POST", path, list_, session=session))
    assert "others.0.name" in text
    assert "others.1.name" in text
    answer = await api.call("POST", "/environments", {"name": "n", "services": both})
    assert "site b" in refused(answer)


async def test_a_component_in_the_place_of_another_has_its_name(api: Api) -> None:
    """What is replaced, removed or renamed gives its name back; names of other regions are others'."""
    environment, session = await api.opened()
    path = f"/environments/{environment}/services"
    assert (await api.call("POST", path, site("a", "web"), session=session)).status == 200
    assert (await api.call("PUT", f"{path}/a", site("b", "web"), session=session)).status == 200
    far = site("c", "web")
    far["instance"]["regionName"] = "far"
    assert (await api.call("POST", path, far, session=session)).status == 200
    assert (await api.call("DELETE", f"{path}/b", session=session)).status == 200
    assert (await api.call("POST", path, site("d", "web"), session=session)).status == 200
    assert (await api.call("PUT", f"{path}/d/instance/name", "old", session=session)).status == 200
    assert (await api.call("POST", path, site("e", "web"), session=session)).status == 200


async def test_patterns_count_on(api: Api) -> None:
    """A ``#`` becomes the lowest number that no machine has, of those that leave neither; once for all."""
    environment, session = await api.opened()
    path = f"/environments/{environment}/services"
    for id_ in ("a", "b", "c"):
        answer = await api.call("POST", path, site(id_, "web-#"), session=session)
        assert answer.status == 200, answer.text
    assert answer.json()["instance"]["name"] == "web-3"
    assert await hosts(api, environment, session) == ["web-1", "web-2", "web-3"]
    # Written once more as the author had it: the machine keeps its name.
    assert (await api.call("PUT", f"{path}/b", site("b", "web-#"), session=session)).status == 200
    assert await hosts(api, environment, session) == ["web-1", "web-2", "web-3"]
    await api.deploy(environment, session)
    await api.finish()
    session = await api.session(environment)
    assert (await api.call("DELETE", f"{path}/a", session=session)).status == 200
    assert (await api.call("POST", path, site("d", "web-#"), session=session)).status == 200
    assert await hosts(api, environment, session) == ["web-2", "web-3", "web-4"]


async def test_templates_are_looked_at(api: Api) -> None:
    """A template does not have a name twice, and makes no environment that has; its ``#`` count on there."""
    both = [site("a", "web"), site("b", "web")]
    answer = await api.call("POST", "/templates", {"name": "t", "services": both})
    assert "site b" in refused(answer)
    several = [site("a", "web-#"), site("b", "web-#"), site("c", "db")]
    made = (await api.call("POST", "/templates", {"name": "t", "services": several})).json()
    answer = await api.call("POST", f"/templates/{made['id']}/services", site("d", "db"))
    assert "site c" in refused(answer)
    path = f"/templates/{made['id']}/create-environment"
    new = (await api.call("POST", path, {"name": "of t"})).json()
    assert await hosts(api, new["environment_id"], new["session_id"]) == ["web-1", "web-2", "db"]


async def test_names_that_were_given_twice_before_stop_nothing_else(api: Api) -> None:
    """An environment of an earlier version can be changed, and so be mended."""
    environment, session = await api.configured()
    await api.deploy(environment, session)
    lease, task = await api.take()
    from vetro.environments import TaskResult

    root = {**task.model["Objects"], "applications": [site("a", "web"), site("b", "web")]}
    await api.rooms.tasks.finish_task(lease, TaskResult({**task.model, "Objects": root}))
    session = await api.session(environment)
    path = f"/environments/{environment}/services"
    assert (await api.call("PUT", f"{path}/a/port", 80, session=session)).status == 200
    assert "site a" in refused(await api.call("POST", path, site("c", "web"), session=session))
    answer = await api.call("PUT", f"{path}/b/instance/name", "other", session=session)
    assert answer.status == 200
    answer = await api.call("PUT", f"{path}/b/instance/name", "web", session=session)
    assert "site a" in refused(answer)


async def test_changes_that_are_carried_over_take_nobodys_name(api: Api) -> None:
    """Another session was deployed with the name meanwhile."""
    environment, session = await api.opened()
    other = await api.session(environment, "bob")
    path = f"/environments/{environment}/services"
    assert (await api.call("POST", path, site("a", "web"), session=session)).status == 200
    await api.call("POST", path, site("b", "web"), session=other, user="bob")
    await api.deploy(environment, other)
    await api.finish()
    rebase = f"/environments/{environment}/sessions/{session}/rebase"
    assert "site b" in refused(await api.call("POST", rebase))


async def test_changes_that_were_offered_one_number_at_a_time_are_carried_over(api: Api) -> None:
    """Two sessions of one moment: the second machine counts on; a name without a number stays."""
    environment, first = await api.opened()
    second = await api.session(environment)
    path = f"/environments/{environment}/services"
    await api.call("POST", path, site("a", "web-#"), session=first)
    for id_, name in (("b", "web-#"), ("c", "web-#"), ("d", "db-7-x"), ("e", "own")):
        await api.call("POST", path, site(id_, name), session=second)
    assert await hosts(api, environment, second) == ["web-1", "web-2", "db-7-x", "own"]
    await api.call("POST", path, site("f", "DB-7_x"), session=first)
    await api.deploy(environment, first)
    await api.finish()
    answer = await api.call("POST", f"/environments/{environment}/sessions/{second}/rebase")
    assert answer.status == 200, answer.text
    assert await hosts(api, environment, answer.json()["id"]) == [
        *("web-1", "DB-7_x"),
        *("web-3", "web-2", "db-8-x", "own"),
    ]


@pytest.mark.parametrize(
    "name", ["l" * 63, "l" * 70 + "-#", "l" * 60 + "-999", "#" + "l" * 70, "ü" * 80 + "#"]
)
def test_a_number_finds_room_in_the_longest_name(name: str) -> None:
    """A guest cuts names off; the number stays, so each name is another one."""
    taken: set[str] = set()
    for _ in range(12):
        found = next_name(name.replace("#", "1"), lambda one: host_name(one) in taken)
        assert host_name(found) not in taken
        taken.add(host_name(found))
    assert len(taken) == 12
