"""Packages that environments use: who keeps them from being deleted, and what stays for whom."""

import json
from pathlib import Path
from typing import Any

import pytest

from vetro.catalog import Catalog
from vetro.environments import EnvironmentUses

Api = Any  # the fixture of conftest.py
NAME = "org.acme.App"


async def deployed(api: Api, name: str, pins: dict[str, list[str]], user: str = "ann") -> str:
    """An environment whose last run used these packages; its id."""
    environment = await api.environment(name, user)
    session = await api.session(environment, user)
    body = {"?": {"type": f"{NAME}/1.0.0@{NAME}"}}
    path = f"/environments/{environment}"
    await api.call("POST", f"{path}/services", body, session=session, user=user)
    await api.call("POST", f"{path}/sessions/{session}/deploy", user=user)
    await api.finish(SystemData={"Packages": pins})
    return environment


def files(tmp_path: Path) -> int:
    """How many archives are kept."""
    return len(list((tmp_path / "packages").iterdir()))


async def test_a_package_in_use_leaves_the_catalog_only_by_force_and_stays_for_its_users(
    api: Api, package_zip: Any, tmp_path: Path
) -> None:
    """409 names the environments; by force it is hidden until the last of them is removed."""
    row = (await api.upload(package_zip())).json()
    path = f"/catalog/packages/{row['id']}"
    environment = await deployed(api, "dev", {NAME: ["1.0.0"]})
    refused = await api.call("DELETE", path)
    assert refused.status == 409
    error = refused.json()["error"]
    assert (error["type"], error["environments"]) == (
        "PackageInUse",
        [{"id": environment, "name": "dev"}],
    )
    assert f"dev ({environment})" in error["message"]
    assert "force=true" in error["message"]
    assert (await api.call("GET", path)).status == 200

    assert (await api.call("DELETE", f"{path}?force=true")).status == 200
    for part in ("", "/download", "/ui"):
        assert (await api.call("GET", path + part)).status == 404
    assert (await api.call("DELETE", path)).status == 404
    assert (await api.call("GET", "/catalog/packages?owned=true")).json()["packages"] == []
    assert files(tmp_path) == 1
    catalog = Catalog(api.database, tmp_path / "packages")
    pins = {NAME: {"1.0.0"}}
    for find in (catalog.find_package, catalog.find_package_for_class):
        assert (await find(NAME, "1.0.0", "p", pins)) is not None
        assert (await find(NAME, "1.0.0", "p")) is None
        assert (await find(NAME, "1.0.0", "p", {NAME: {"2.0.0"}})) is None
        assert (await find(NAME, "1.0.0", "q", pins)) is None

    # Its name is free, for another version and for other packages with its classes.
    assert (await api.upload(package_zip(version="2.0.0"))).status == 200
    newest = await catalog.find_package(NAME, "*", "p", pins)
    assert newest is not None
    assert newest.version == "2.0.0"

    await api.call("DELETE", f"/environments/{environment}?abandon=true")
    assert await catalog.drop_unused_packages(EnvironmentUses(api.database)) == 1
    assert files(tmp_path) == 1
    assert (await catalog.find_package(NAME, "1.0.0", "p", pins)) is None


async def test_the_same_version_uploaded_again_takes_the_deleted_ones_place(
    api: Api, package_zip: Any, tmp_path: Path
) -> None:
    """After a forced deletion and an upload, environments use the new package."""
    row = (await api.upload(package_zip())).json()
    await deployed(api, "dev", {NAME: ["1.0.0"]})
    await api.call("DELETE", f"/catalog/packages/{row['id']}?force=true")
    assert (await api.upload(package_zip(klass="Name: App\nProperties: {}\n"))).status == 200
    catalog = Catalog(api.database, tmp_path / "packages")
    found = await catalog.find_package(NAME, "1.0.0", "p", {NAME: {"1.0.0"}})
    assert found is not None
    assert "Properties" in found.read_class("App.yaml")
    assert files(tmp_path) == 1


@pytest.mark.parametrize(
    ("header", "refused"),
    [
        ({"type": NAME}, True),
        ({"type": f"{NAME}/1.0.0@{NAME}"}, True),
        ({"type": NAME, "classVersion": "1"}, True),
        ({"type": NAME, "classVersion": "2.0.0"}, False),
        ({"type": NAME, "package": "org.other"}, False),
        ({"type": "org.acme.Other"}, False),
    ],
)
async def test_what_an_open_session_is_going_to_deploy_is_in_use(
    api: Api, package_zip: Any, header: dict[str, str], refused: bool
) -> None:
    """An undeployed object keeps the package of its class, if its version can be this one."""
    row = (await api.upload(package_zip())).json()
    environment, session = await api.opened("dev")
    inner = {"?": {"type": "org.acme.Outer"}, "parts": [{"inner": {"?": header}}]}
    await api.call("POST", f"/environments/{environment}/services", inner, session=session)
    answer = await api.call("DELETE", f"/catalog/packages/{row['id']}")
    assert answer.status == (409 if refused else 200)
    if refused:
        await api.call("DELETE", f"/environments/{environment}/sessions/{session}")
        assert (await api.call("DELETE", f"/catalog/packages/{row['id']}")).status == 200


async def test_environments_of_other_projects_count_for_public_packages_only(
    api: Api, package_zip: Any
) -> None:
    """A public package counts users in other projects without names; a private one has none."""
    private = (await api.upload(package_zip())).json()
    public = await api.upload(package_zip(), json.dumps({"is_public": True}), user="root")
    shared = f"/catalog/packages/{public.json()['id']}"
    await deployed(api, "secret", {NAME: ["1.0.0"]}, user="eve")
    own = await deployed(api, "dev", {NAME: ["1.0.0"]})
    refused = await api.call("DELETE", f"/catalog/packages/{private['id']}")
    assert [one["id"] for one in refused.json()["error"]["environments"]] == [own]
    # dev has a package of its own project: only eve's environment uses the public one.
    named = (await api.call("DELETE", shared, user="root")).json()["error"]
    assert [one["name"] for one in named["environments"]] == ["secret"]
    patch = [{"op": "replace", "path": "/is_public", "value": True}]
    await api.call("DELETE", f"/catalog/packages/{private['id']}?force=true")
    other = (await api.upload(package_zip("org.acme.Two"))).json()
    await api.call(
        "PATCH",
        f"/catalog/packages/{other['id']}",
        patch,
        type="application/murano-packages-json-patch",
        user="root",
    )
    await deployed(api, "more", {"org.acme.Two": ["1.0.0"]}, user="eve")
    counted = (await api.call("DELETE", f"/catalog/packages/{other['id']}")).json()["error"]
    assert counted["environments"] == []
    assert "1 of other projects" in counted["message"]
    assert "more" not in counted["message"]


async def test_a_disabled_package_stays_for_environments_that_use_it(
    api: Api, package_zip: Any, tmp_path: Path
) -> None:
    """New objects cannot use it; deployed ones can be changed and destroyed."""
    row = (await api.upload(package_zip())).json()
    patch = [{"op": "replace", "path": "/enabled", "value": False}]
    kind = "application/murano-packages-json-patch"
    await api.call("PATCH", f"/catalog/packages/{row['id']}", patch, type=kind)
    catalog = Catalog(api.database, tmp_path / "packages")
    assert await catalog.find_package(NAME, "1", "p") is None
    assert await catalog.find_package(NAME, "1", "p", {NAME: ["1.0.0"]}) is not None


async def test_a_package_that_nobody_uses_is_gone_at_once(
    api: Api, package_zip: Any, tmp_path: Path
) -> None:
    """Deletion without users leaves no row, archive, category or tag."""
    await api.call("POST", "/catalog/categories", {"name": "Web"}, user="root")
    row = (await api.upload(package_zip(), json.dumps({"categories": ["Web"]}))).json()
    assert (await api.call("DELETE", f"/catalog/packages/{row['id']}")).status == 200
    assert files(tmp_path) == 0
    (category,) = (await api.call("GET", "/catalog/categories")).json()["categories"]
    assert category["package_count"] == 0
    path = f"/catalog/categories/{category['id']}"
    assert (await api.call("DELETE", path, user="root")).status == 200


@pytest.mark.parametrize("what", ["is_public", "enabled"])
async def test_a_public_package_is_taken_from_other_projects_by_force_only(
    api: Api, package_zip: Any, what: str
) -> None:
    """Making it private or disabling it is a 409 that counts their environments."""
    row = (await api.upload(package_zip(), json.dumps({"is_public": True}), user="root")).json()
    path = f"/catalog/packages/{row['id']}"
    kind = "application/murano-packages-json-patch"
    taken = [
        {"op": "replace", "path": f"/{what}", "value": False},
        {"op": "replace", "path": "/name", "value": "Else"},
    ]
    for name in ("one", "two"):
        await deployed(api, name, {NAME: ["1.0.0"]}, user="eve")
    refused = await api.call("PATCH", path, taken, type=kind, user="root")
    assert refused.status == 409
    error = refused.json()["error"]
    assert error["type"] == "PackageInUse"
    assert "used by 2 environments" in error["message"]
    assert "force=true" in error["message"]
    kept = (await api.call("GET", path, user="root")).json()
    assert (kept[what], kept["name"]) == (True, row["name"])
    # What takes nothing from anybody needs no force.
    renamed = [{"op": "replace", "path": "/name", "value": "Other"}]
    assert (await api.call("PATCH", path, renamed, type=kind, user="root")).status == 200
    forced = await api.call("PATCH", f"{path}?force=true", taken, type=kind, user="root")
    assert (forced.status, forced.json()[what], forced.json()["name"]) == (200, False, "Else")


@pytest.mark.parametrize("what", ["is_public", "enabled"])
async def test_what_only_its_own_project_uses_is_the_projects_to_withdraw(
    api: Api, package_zip: Any, what: str
) -> None:
    """Environments with a package of their own, or without this one, do not count."""
    row = (await api.upload(package_zip(), json.dumps({"is_public": True}), user="root")).json()
    await deployed(api, "own", {NAME: ["1.0.0"]}, user="root")
    await api.environment("other", "eve")
    patch = [{"op": "replace", "path": f"/{what}", "value": False}]
    kind = "application/murano-packages-json-patch"
    path = f"/catalog/packages/{row['id']}"
    assert (await api.call("PATCH", path, patch, type=kind, user="root")).status == 200


async def test_what_is_remembered_of_models_follows_each_write(api: Api, package_zip: Any) -> None:
    """Between two deletions a session adds an object, its environment is renamed, it is dropped."""
    row = (await api.upload(package_zip())).json()
    environment, other = await api.environment("dev"), await api.environment("other")
    path, package = f"/environments/{environment}", f"/catalog/packages/{row['id']}"

    async def users() -> list[dict[str, str]]:
        refused = await api.call("DELETE", package)
        return [] if refused.status == 200 else refused.json()["error"]["environments"]

    session = await api.session(environment)
    body = {"?": {"type": f"{NAME}/1.0.0@{NAME}"}}
    await api.call("POST", f"{path}/services", body, session=session)
    assert await users() == [{"id": environment, "name": "dev"}]
    await api.call("PUT", path, {"name": "renamed"})
    assert await users() == [{"id": environment, "name": "renamed"}]
    held = await api.session(other)
    await api.call("POST", f"/environments/{other}/services", body, session=held)
    assert {one["name"] for one in await users()} == {"renamed", "other"}
    await api.call("DELETE", f"{path}/sessions/{session}")
    assert await users() == [{"id": other, "name": "other"}]
    await api.call("DELETE", f"/environments/{other}?abandon=true")
    assert await users() == []
