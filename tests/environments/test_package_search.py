"""Searches of packages: what is found, in which order, and pages that hold when rows change."""

import json
from pathlib import Path
from typing import Any

import pytest

from vetro.catalog import Catalog
from vetro.environments import ApiSection, environments_face
from vetro.http import assemble
from vetro.http.client import HttpClient

from .conftest import Api, Users


async def put(api: Api, package_zip: Any, name: str, **more: Any) -> str:
    """Upload a package; its id."""
    metadata = json.dumps({key: value for key, value in more.items() if key != "user"})
    answer = await api.upload(package_zip(name), metadata, user=more.get("user", "ann"))
    assert answer.status == 200, answer.text
    return answer.json()["id"]


async def found(api: Api, query: str, user: str = "ann") -> list[str]:
    """The names of a page of packages."""
    answer = await api.call("GET", f"/catalog/packages?{query}", user=user)
    assert answer.status == 200, answer.text
    return [row["name"] for row in answer.json()["packages"]]


async def test_words_are_found_anywhere_best_field_first(api: Api, package_zip: Any) -> None:
    """A part of a word is enough, in any case; a hit in the name goes before one in the tags."""
    await put(api, package_zip, "org.acme.Zebra", tags=["database"])
    await put(api, package_zip, "org.acme.DataBase")
    await put(api, package_zip, "org.other.Ärger")
    assert await found(api, "search=ATABAS") == ["DataBase", "Zebra"]
    assert await found(api, "search=none,%20zeb;ärg") == ["Zebra", "Ärger"]
    assert await found(api, "search=acme.d") == ["DataBase"]
    assert await found(api, "search=eb") == ["Zebra", "DataBase", "Ärger"]
    assert await found(api, "search=x") == []


@pytest.mark.parametrize(
    "word", ["%25%25%25", "_____", "%22%22%22", "a%20OR%20b", "\\\\\\", "'''", "%26%21%28"]
)
async def test_words_are_no_patterns(api: Api, package_zip: Any, word: str) -> None:
    """Wildcards and the operators of full-text queries are ordinary characters."""
    await put(api, package_zip, "org.acme.App")
    assert await found(api, f"search={word}") == []
    await api.call(
        "PATCH", f"/catalog/packages/{await put(api, package_zip, 'org.acme.B')}",
        [{"op": "replace", "path": "/description", "value": "100%%% a OR b ''' \\\\\\ _____ \"\"\" &!("}],
        type="application/murano-packages-json-patch",
    )  # fmt: skip
    assert await found(api, f"search={word}") == ["B"]


async def test_the_index_follows_changes(api: Api, package_zip: Any) -> None:
    """What is changed is found by its new texts only, and what is deleted is not found at all."""
    id_ = await put(api, package_zip, "org.acme.App", tags=["before"])
    await api.call(
        "PATCH", f"/catalog/packages/{id_}",
        [{"op": "replace", "path": "/tags", "value": ["after"]}],
        type="application/murano-packages-json-patch",
    )  # fmt: skip
    assert await found(api, "search=before") == []
    assert await found(api, "search=after") == ["App"]
    assert (await api.call("DELETE", f"/catalog/packages/{id_}")).status == 200
    assert await found(api, "search=after") == []


@pytest.mark.parametrize("search", ["", "&search=acme"])
@pytest.mark.parametrize("order", ["", "&order_by=created", "&order_by=fqn&sort_dir=desc"])
async def test_pages_hold_while_rows_come_and_go(
    api: Api, package_zip: Any, search: str, order: str
) -> None:
    """Each package is seen once, although others are added and removed between two pages."""
    ids = {name: await put(api, package_zip, f"org.acme.{name}") for name in "BDFHJ"}
    seen: list[str] = []
    marker, number = "", 0
    while True:
        query = f"/catalog/packages?limit=2{search}{order}{marker}"
        page = (await api.call("GET", query)).json()
        seen += [row["name"] for row in page["packages"]]
        if "next_marker" not in page:
            break
        marker = f"&marker={page['next_marker']}"
        number += 1
        added = await put(api, package_zip, f"org.acme.A{number}")
        await api.call("DELETE", f"/catalog/packages/{added}")
        await put(api, package_zip, f"org.acme.Z{number}")
        if number == 1:
            gone = next(one for one in "FB" if one not in seen)
            await api.call("DELETE", f"/catalog/packages/{ids[gone]}")
    assert len(seen) == len(set(seen))
    assert set("BDFHJ") - {gone} <= set(seen)
    assert sorted(seen, reverse="desc" in order) == seen or "created" in order
    assert (await api.call("GET", f"/catalog/packages?marker={ids[gone]}{search}")).status == 404


async def test_a_marker_tells_nothing_of_other_projects(api: Api, package_zip: Any) -> None:
    """A private package of another project is an unknown marker."""
    hidden = await put(api, package_zip, "org.acme.App", user="eve")
    answer = await api.call("GET", f"/catalog/packages?marker={hidden}")
    assert answer.status == 404
    assert "App" not in answer.text


async def test_filters_combine(api: Api, package_zip: Any) -> None:
    """Disabled packages are shown on request; class, type, name and owner filter exactly."""
    await put(api, package_zip, "org.acme.App", enabled=False)
    await put(api, package_zip, "org.acme.Bob", user="root", is_public=True)
    assert await found(api, "") == ["Bob"]
    assert await found(api, "include_disabled=true") == ["App", "Bob"]
    assert await found(api, "include_disabled=true&owned=True") == ["App"]
    assert await found(api, "class_name=org.acme.Bob&type=aPPlication&catalog=true") == ["Bob"]
    assert await found(api, "class_name=org.acme.Bo") == []
    assert await found(api, "type=library") == []
    assert await found(api, "name=Bob&fqn=org.acme.Bob&version=1.0.0") == ["Bob"]
    assert await found(api, "category=in:&include_disabled=true") == []
    assert await found(api, "order_by=nonsense&unknown=1") == ["Bob"]


async def test_operators_set_the_sizes_of_pages_and_packages(
    api: Api, package_zip: Any, tmp_path: Path
) -> None:
    """Without a limit a page has the one size, with any at most the other; larger archives are 400."""
    for name in ("A", "B", "C", "D"):
        await put(api, package_zip, f"org.acme.{name}")
    section = ApiSection(package_size_limit=0.5, limit_param_default=2, api_limit_max=3)
    packages = Catalog(api.database, tmp_path / "packages")
    assembly = assemble([environments_face(packages, api.rooms.tasks, Users(), api=section)])
    async with assembly.running(), HttpClient(app=assembly, base_url="http://test") as http:
        small = Api(http, api.database, api.rooms)
        assert await found(small, "") == ["A", "B"]
        assert await found(small, "limit=100") == ["A", "B", "C"]
        answer = await small.upload(package_zip("org.acme.E") + bytes(2**19))
        assert (answer.status, "The limit is 0.5 MiB" in answer.text) == (400, True)


async def test_operators_set_the_size_of_every_body(
    api: Api, package_zip: Any, tmp_path: Path
) -> None:
    """Whatever the call: up to the size a body is read, announced or not; beyond it is 413."""
    environment, session = await api.opened("e")
    packages = Catalog(api.database, tmp_path / "packages")
    for most in (0.5, 12.0):
        section = ApiSection(max_request_body_size=most)
        face = environments_face(packages, api.rooms.tasks, Users(), api=section)
        assembly = assemble([face])
        async with assembly.running(), HttpClient(app=assembly, base_url="http://test") as http:
            other = Api(http, api.database, api.rooms)
            for size, status in ((int(most * 2**20) - 200, 200), (int(most * 2**20), 413)):
                body = {"?": {"type": "org.App", "id": f"{most}"}, "x": "x" * size}
                path = f"/environments/{environment}/services"
                answer = await other.call("POST", path, body, session=session)
                assert answer.status == status, answer.text[:300]
                named = {"name": "x" * size}
                answer = await other.call("POST", "/catalog/categories", named, user="root")
                assert answer.status == (400 if status == 200 else 413)
            if most < 1:
                answer = await other.upload(package_zip() + bytes(2**19))
                assert answer.status == 413
