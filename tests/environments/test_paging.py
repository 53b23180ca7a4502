"""Pages and filters of lists over HTTP (catalog-api.md, Beyond upstream)."""

from typing import Any

import pytest

Api = Any  # the fixture of conftest.py


async def pages(api: Api, path: str, key: str, **query: Any) -> list[list[str]]:
    """The names (or ids) of all pages, following the markers."""
    found: list[list[str]] = []
    marker = None
    while True:
        given = {**query, **({"marker": marker} if marker else {})}
        text = "&".join(f"{name}={value}" for name, value in given.items())
        answer = await api.call("GET", f"{path}?{text}")
        assert answer.status == 200, answer.text
        page = answer.json()
        found.append([one.get("name") or one["id"] for one in page[key]])
        marker = page.get("next_marker")
        if marker is None:
            return found


async def test_environments_come_in_pages(api: Api) -> None:
    """Without a limit the list is whole; with one, pages follow each other and the last has no marker."""
    for name in "abcde":
        await api.environment(name)
    await api.environment("hers", user="eve")
    whole = (await api.call("GET", "/environments")).json()
    assert list(whole) == ["environments"]
    assert [one["name"] for one in whole["environments"]] == list("abcde")
    path = "/environments"
    assert await pages(api, path, "environments", limit=2) == [["a", "b"], ["c", "d"], ["e"]]
    assert await pages(api, path, "environments", limit=5) == [list("abcde")]
    assert await pages(api, path, "environments", name="c") == [["c"]]


async def test_a_list_is_whole_however_long_it_is(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What belongs to its rows is looked up for so many at a time as a statement may name."""
    monkeypatch.setattr("vetro.environments.paging.MOST", 2)
    for name in "abcde":
        await api.environment(name)
    whole = (await api.call("GET", "/environments")).json()
    assert [(one["name"], one["status"]) for one in whole["environments"]] == [
        (name, "ready") for name in "abcde"
    ]


async def test_pages_neither_skip_nor_repeat_while_rows_come_and_go(api: Api) -> None:
    """A row that is made or removed between two pages changes nothing about the others."""
    ids = {name: await api.environment(name) for name in "abcd"}
    first = (await api.call("GET", "/environments?limit=2")).json()
    await api.call("DELETE", f"/environments/{ids['a']}?abandon=true")
    await api.environment("e")
    path = f"/environments?limit=2&marker={first['next_marker']}"
    second = (await api.call("GET", path)).json()
    assert [one["name"] for one in second["environments"]] == ["c", "d"]
    path = f"/environments?limit=2&marker={second['next_marker']}"
    await api.call("DELETE", f"/environments/{ids['d']}?abandon=true")
    gone = await api.call("GET", path)
    assert (gone.status, gone.json()["error"]["type"]) == (404, "MarkerNotFound")


@pytest.mark.parametrize("order", ["sort_dir=asc", "sort_dir=desc", "sort_keys=created"])
async def test_pages_of_categories_hold_while_categories_come_and_go(api: Api, order: str) -> None:
    """Those that are there all the time appear once each, whatever is made or removed between."""
    path = "/catalog/categories"

    async def make(name: str) -> str:
        return (await api.call("POST", path, {"name": name}, user="root")).json()["id"]

    ids = {name: await make(name) for name in "bdfhj"}
    whole = (await api.call("GET", f"{path}?{order}")).json()["categories"]
    first = (await api.call("GET", f"{path}?{order}&limit=2")).json()
    assert [one["id"] for one in first["categories"]] == [one["id"] for one in whole[:2]]
    gone = whole[0]["name"]
    assert (await api.call("DELETE", f"{path}/{ids[gone]}", user="root")).status == 200
    for name in "ak":
        await make(name)
    seen = [one["name"] for one in first["categories"]]
    marker = first["next_marker"]
    while marker:
        answer = await api.call("GET", f"{path}?{order}&limit=2&marker={marker}")
        seen += [one["name"] for one in answer.json()["categories"]]
        marker = answer.json().get("next_marker")
    kept = [one["name"] for one in whole]
    assert [name for name in seen if name in kept] == kept
    assert len(seen) == len(set(seen))
    # A page that ends at a category that is gone has no next one: the list is begun again.
    answer = await api.call("GET", f"{path}?{order}&marker={ids[gone]}")
    assert answer.status == 404


async def test_pages_of_templates_hold_while_templates_come_and_go(api: Api) -> None:
    """As those of environments and packages do."""
    made: dict[str, str] = {}
    for name in "abcd":
        made[name] = (await api.call("POST", "/templates", {"name": name})).json()["id"]
    first = (await api.call("GET", "/templates?limit=2")).json()
    await api.call("DELETE", f"/templates/{made['a']}")
    await api.call("POST", "/templates", {"name": "e"})
    rest = await api.call("GET", f"/templates?limit=9&marker={first['next_marker']}")
    names = [one["name"] for one in (*first["templates"], *rest.json()["templates"])]
    assert names == list("abcde")


async def test_a_computed_status_filters_and_pages(api: Api) -> None:
    """``status`` is that which the list shows; pages of it are as full as any."""
    for number in range(6):
        environment = await api.environment(f"e{number}")
        if number % 2:
            await api.session(environment)
    path = "/environments"
    shown = await pages(api, path, "environments", status="pending", limit=2)
    assert shown == [["e1", "e3"], ["e5"]]
    assert await pages(api, path, "environments", status="deploy%20failure") == [[]]


async def test_deployments_come_in_pages_of_a_state(api: Api) -> None:
    """Newest first, of one environment or of the project, by state and by environment's name."""
    made: list[str] = []
    for name in ("a", "b", "a2"):
        environment, _ = await api.submitted(name, name="web")
        if name != "a2":
            await api.finish()
        deployments = f"/environments/{environment}/deployments"
        made.insert(0, (await api.call("GET", deployments)).json()["deployments"][0]["id"])
    path, key = "/deployments", "deployments"
    assert await pages(api, path, key, limit=1) == [[one] for one in made]
    assert await pages(api, path, key, status="success", limit=1) == [[made[1]], [made[2]]]
    assert await pages(api, path, key, name="b") == [[made[1]]]


async def test_templates_come_in_pages(api: Api) -> None:
    """Of those that the caller may see."""
    for name in "abc":
        await api.call("POST", "/templates", {"name": name})
    assert await pages(api, "/templates", "templates", limit=2) == [["a", "b"], ["c"]]
    assert await pages(api, "/templates", "templates", name="b", is_public="no") == [["b"]]


@pytest.mark.parametrize(
    ("query", "status"),
    [
        *(("limit=0", 400), ("limit=-1", 400), ("limit=1_0", 400), ("limit=x", 400)),
        *(("status=nope", 400), ("marker=nope", 404), ("limit=99999999999999", 200)),
    ],
)
@pytest.mark.parametrize("path", ["/environments", "/deployments"])
async def test_wrong_pages_are_refused(api: Api, path: str, query: str, status: int) -> None:
    """A limit that is not a number above zero and an unknown status are 400, an unknown marker 404."""
    answer = await api.call("GET", f"{path}?{query}")
    assert answer.status == status, answer.text


async def test_a_marker_of_another_project_is_unknown(api: Api) -> None:
    """A marker tells nothing about rows that the caller cannot see."""
    hers = await api.environment("hers", user="eve")
    assert (await api.call("GET", f"/environments?marker={hers}")).status == 404
