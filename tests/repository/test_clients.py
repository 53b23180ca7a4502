"""What clients fetch: archives, their hash and their caching (metadata-repository.md §5, §6)."""

import asyncio
import hashlib
import io
import tarfile
from pathlib import Path
from typing import Any

import pytest

from vetro.http import Fault
from vetro.repository import Repository, RepositorySection, store
from vetro.repository.archives import client_archive
from vetro.storage import Database

from .conftest import SHIPPED, Api, opened, pack, unpack


async def test_conductor_gets_what_enabled_services_list(api: Api) -> None:
    """The archive for engines has each listed file once, in the directory of its type."""
    files = await api.archive("conductor")
    assert sorted(files) == [
        "templates/agent/Demo.template",
        "templates/agent/scripts/Linux/run.sh",
        "templates/cf/Demo.template",
        "workflows/Common.xml",
        "workflows/Demo.xml",
        "workflows/Web.xml",
    ]
    assert files["templates/agent/scripts/Linux/run.sh"] == b"#!/bin/sh\n"


async def test_forms_carry_their_service(api: Api) -> None:
    """Forms stand in a directory of their service, with its description, type and name; tags stay."""
    files = await api.archive("ui")
    assert sorted(files) == ["demoService/Demo.yaml", "webServer/Web.yaml"]
    text = files["demoService/Demo.yaml"].decode()
    assert "description: A <b>demo</b>" in text
    assert "type: demoService" in text
    assert "name: Demo Service" in text
    assert "!yaql" in text
    assert text.count("name:") == 1


async def test_hash_etag_and_304(api: Api) -> None:
    """The hash is that of the bytes; a client that has them gets 304 without a body, by hash or by tag."""
    answer = await api.call("GET", "/client/ui")
    sha1 = hashlib.sha1(answer.content).hexdigest()
    assert answer.headers["etag"] == f'"{sha1}"'
    assert answer.headers["x-content-sha1"] == sha1
    assert answer.headers["content-type"] == "application/octet-stream"
    assert int(answer.headers["content-length"]) == len(answer.content)
    for known in (f"?hash={sha1}", f"?hash={sha1.upper()}"):
        same = await api.call("GET", f"/client/ui{known}")
        assert (same.status, same.content) == (304, b"")
        assert same.headers["etag"] == f'"{sha1}"'
    for tags in (f'"{sha1}"', f'"x", "{sha1}"', "*"):
        same = await api.call("GET", "/client/ui", **{"If-None-Match": tags})
        assert (same.status, same.content) == (304, b"")
    for unknown in ("?hash=zz", "?hash=", f"?hash={'0' * 40}", f"?hash={sha1}0"):
        assert (await api.call("GET", f"/client/ui{unknown}")).content == answer.content
    assert (await api.call("GET", "/client/ui", **{"If-None-Match": f'W/"{sha1}"'})).status == 200
    wins = await api.call("GET", "/client/ui?hash=other", **{"If-None-Match": f'"{sha1}"'})
    assert wins.status == 200


async def test_same_content_gives_the_same_archive(
    api: Api, database: Database, shipped: Path
) -> None:
    """The bytes are the same after caches are reset, in another process, and in another project."""
    first = (await api.call("GET", "/client/conductor")).content
    await api.ok("POST", "/admin/reset_caches")
    assert (await api.call("GET", "/client/conductor")).content == first
    other = Repository(database, RepositorySection(), shipped)
    await other.prepare()
    assert (await other.archive("q", "conductor")).content == first
    await api.ok("POST", "/admin/scripts?filename=unused", b"x")
    assert (await api.call("GET", "/client/conductor")).content == first
    with tarfile.open(fileobj=io.BytesIO(first), mode="r:gz") as archive:
        members = archive.getmembers()
    names = [one.name for one in members]
    folders = [one.name for one in members if one.isdir()]
    assert names == sorted(folders) + sorted(set(names) - set(folders))
    assert {(one.uid, one.gid, one.uname, one.mtime) for one in members} == {(0, 0, "", 0)}
    assert {one.mode for one in members} == {0o644, 0o755}
    assert first[4:8] == bytes(4)


async def test_disabled_services_leave_shared_files(api: Api) -> None:
    """A service that is switched off leaves the archives; what others list stays."""
    await api.ok("POST", "/admin/services/webServer/toggle_enabled")
    assert sorted(await api.archive("ui")) == ["demoService/Demo.yaml"]
    files = await api.archive("conductor")
    assert "workflows/Web.xml" not in files
    assert "workflows/Common.xml" in files


async def test_every_change_is_seen_at_once(api: Api) -> None:
    """After a change the old hash is no longer current, for both clients."""
    before = (await api.call("GET", "/client/conductor")).headers["x-content-sha1"]
    await api.ok("PUT", "/admin/scripts/Linux/run.sh?overwrite=true", b"#!/bin/bash\n")
    after = await api.call("GET", f"/client/conductor?hash={before}")
    assert after.status == 200
    assert unpack(after.content)["templates/agent/scripts/Linux/run.sh"] == b"#!/bin/bash\n"


async def test_broken_form_costs_only_its_service(api: Api) -> None:
    """A form that is not YAML keeps its service from the forms, and says why; the rest is served."""
    await api.ok("PUT", "/admin/ui/Web.yaml?overwrite=true", b"a: [")
    assert sorted(await api.archive("ui")) == ["demoService/Demo.yaml"]
    assert "workflows/Web.xml" in await api.archive("conductor")
    info = await api.ok("GET", "/admin/services/webServer/info")
    assert any("ui/Web.yaml:" in one for one in info["errors"])


async def test_nothing_to_ship_is_an_empty_archive(api: Api) -> None:
    """Without services the archives are valid and empty."""
    for name in ("demoService", "webServer"):
        await api.ok("DELETE", f"/admin/services/{name}")
    assert await api.archive("ui") == {}
    assert await api.archive("conductor") == {}


async def test_one_service_travels_to_another_project(api: Api) -> None:
    """The archive of a service can be uploaded in another project, which then has the same."""
    archive = (await api.call("GET", "/client/services/demoService")).content
    assert "ui/Demo.yaml" in unpack(archive)
    before = await api.ok("GET", "/admin/services/demoService/info", user="eve")
    files = await api.ok("GET", "/admin/services/demoService", user="eve")
    await api.ok("DELETE", "/admin/services/demoService", user="eve")
    assert (await api.call("GET", "/client/services/demoService", user="eve")).status == 404
    await api.ok("POST", "/admin/services/", archive, user="eve")
    assert await api.ok("GET", "/admin/services/demoService/info", user="eve") == before
    assert await api.ok("GET", "/admin/services/demoService", user="eve") == files


async def test_projects_do_not_see_each_other(api: Api) -> None:
    """What one project changes, another neither sees nor finds in its archives."""
    hers = (await api.call("GET", "/client/conductor", user="eve")).headers["x-content-sha1"]
    await api.ok("POST", "/admin/workflows?filename=Mine.xml", b"<workflow/>")
    await api.ok("POST", "/admin/services/webServer/toggle_enabled")
    assert (await api.call("GET", f"/client/conductor?hash={hers}", user="eve")).status == 304
    assert (await api.call("GET", "/admin/workflows/Mine.xml", user="eve")).status == 404
    assert "Mine.xml" not in (await api.ok("GET", "/admin/workflows", user="eve"))["workflows"]


async def test_archives_are_built_once(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests at the same time get the same archive, from one build."""
    builds: list[str] = []

    def counted(definitions: Any, client: str, *given: Any) -> bytes:
        builds.append(client)
        return client_archive(definitions, client, *given)

    monkeypatch.setattr(store, "client_archive", counted)
    answers = await asyncio.gather(*(api.call("GET", "/client/conductor") for _ in range(8)))
    assert len({one.content for one in answers}) == 1
    assert builds == ["conductor"]


async def test_unknown_clients_and_services(api: Api) -> None:
    """An unknown client type, a bad name and an unknown service are 404, with a reason."""
    for path in ("/client/other", "/client/services/x", "/client/services/no.such", "/client"):
        answer = await api.call("GET", path)
        assert answer.status == 404, path
    assert "at least two letters" in (await api.call("GET", "/client/services/x")).text


async def test_large_upload_of_shipped_files_is_shared(api: Api, database: Database) -> None:
    """A project that changes one file keeps sharing the contents of all others."""
    from sqlalchemy import func, select

    from vetro.repository.tables import contents

    async def stored() -> int:
        async with database.read() as tx:
            return int((await tx.execute(select(func.count()).select_from(contents))).scalar_one())

    await api.ok("GET", "/admin/services")
    before = await stored()
    await api.ok("POST", "/admin/services", pack({"own.app-manifest.yaml": OWN}))
    assert await stored() == before + 1
    await api.ok("DELETE", "/admin/services/own.app")
    assert await stored() == before


async def test_services_that_nobody_gets_can_be_fetched(api: Api) -> None:
    """A service that is switched off and lacks a file can be downloaded, with the files there are."""
    await api.ok("POST", "/admin/services/demoService/toggle_enabled")
    await api.ok("DELETE", "/admin/workflows/Demo.xml")
    files = unpack((await api.call("GET", "/client/services/demoService")).content)
    assert "workflows/Demo.xml" not in files
    assert sorted(files) == [
        "agent/Demo.template",
        "demoService-manifest.yaml",
        "heat/Demo.template",
        "scripts/Linux/run.sh",
        "ui/Demo.yaml",
        "workflows/Common.xml",
    ]
    assert files["ui/Demo.yaml"] == SHIPPED["ui_forms/Demo.yaml"].encode()


async def test_a_damaged_archive_is_built_again(api: Api, database: Database) -> None:
    """A stored archive whose bytes are not those of its hash counts as absent."""
    from vetro.repository.tables import archives

    good = (await api.call("GET", "/client/conductor")).content
    async with database.transaction() as tx:
        await tx.execute(archives.update().values(content=good[:-9]))
    assert (await api.call("GET", "/client/conductor")).content == good


async def test_directories_are_settings(database: Database, shipped: Path) -> None:
    """An operator names the directories of archives and of trees; empty: the archive's root."""
    settings: dict[str, Any] = {
        "output": {"workflows": "", "heat": "heat"},
        "directories": {"workflows": "xml"},
    }
    (shipped / "workflows").rename(shipped / "xml")
    async for api in opened(database, shipped, **settings):
        files = await api.archive("conductor")
        assert {"Common.xml", "heat/Demo.template", "templates/agent/Demo.template"} < set(files)
        assert "xml/Common.xml" in unpack((await api.call("GET", "/admin/export")).content)
        assert "workflows/Common.xml" in unpack(
            (await api.call("GET", "/client/services/webServer")).content
        )
    for wrong in (
        {"output": {"x": "a"}},
        {"output": {"heat": "../a"}},
        {"directories": {"ui": ""}},
    ):
        with pytest.raises(ValueError, match="repository"):
            Repository(database, RepositorySection(**wrong), shipped)


async def test_forms_of_services(api: Api) -> None:
    """Wizards get title, version and form of services that clients get, and of no others."""
    assert await api.repository.service_form("p", "demoService") == (
        "Demo Service",
        "1",
        SHIPPED["ui_forms/Demo.yaml"],
    )
    await api.ok("PUT", "/admin/services/my.app", json={"service_display_name": "x"})
    await api.ok("POST", "/admin/services/webServer/toggle_enabled")
    await api.ok("DELETE", "/admin/workflows/Demo.xml")
    for name, said in (
        ("none", "no service"),
        ("my.app", "no form"),
        ("webServer", "switched off"),
        ("demoService", "not valid"),
    ):
        with pytest.raises(Fault, match=said):
            await api.repository.service_form("p", name)


OWN = "full_service_name: own.app\nservice_display_name: Own\nworkflows: [Common.xml]\n"
