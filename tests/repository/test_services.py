"""The admin calls for services: manifests, archives, validity (metadata-repository.md §3, §8)."""

import asyncio
import io
import lzma
import tarfile
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest

from vetro.http import assemble
from vetro.http.client import HttpClient
from vetro.repository import Repository, RepositorySection, repository_face, repository_policy
from vetro.storage import Database

from .conftest import SHIPPED, Api, Users, opened, pack, unpack

MANIFEST = "full_service_name: my.app\nservice_display_name: Mine\n"


def link(kind: bytes, name: str = "scripts/x", to: str = "/etc/passwd") -> tarfile.TarInfo:
    """A member that is not a file."""
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, to
    return member


async def test_every_visible_service_is_listed(api: Api) -> None:
    """The list has all manifests with their own keys, sorted, without the lists of files."""
    services = (await api.ok("GET", "/admin/services"))["services"]
    assert [one["full_service_name"] for one in services] == ["demoService", "webServer"]
    assert services[0] == {
        "full_service_name": "demoService",
        "service_display_name": "Demo Service",
        "description": "A <b>demo</b>",
        "author": "Vetro",
        "version": 0.1,
        "service_version": 1,
        "enabled": True,
        "valid": True,
    }
    files = await api.ok("GET", "/admin/services/webServer")
    assert files == {
        "ui": ["Web.yaml"],
        "workflows": ["Common.xml", "Web.xml"],
        "heat": ["Demo.template"],
        "agent": [],
        "scripts": [],
    }


async def test_put_creates_and_replaces(api: Api) -> None:
    """PUT stores the whole manifest with defaults where nothing is given, and keeps unknown keys."""
    await api.ok("PUT", "/admin/services/my.app", json={"service_display_name": "Ä", "x": [1]})
    assert await api.ok("GET", "/admin/services/my.app/info") == {
        "full_service_name": "my.app",
        "service_display_name": "Ä",
        "description": "",
        "author": "",
        "version": 0.1,
        "service_version": 1,
        "enabled": True,
        "x": [1],
        "valid": True,
        "errors": [],
        "warnings": [],
    }
    stored = (await api.call("GET", "/admin/manifests/my.app-manifest.yaml")).content.decode()
    assert "service_display_name: Ä\n" in stored
    body = {
        "full_service_name": "",
        "service_display_name": "B",
        "enabled": False,
        "service_version": "",
        "description": None,
        "valid": True,
        "errors": ["x"],
        "workflow": ["Common.xml", "none/x.xml", "Common.xml"],
    }
    await api.ok("PUT", "/admin/services/my.app", json=body)
    info = await api.ok("GET", "/admin/services/my.app/info")
    assert (info["enabled"], info["service_version"], info["description"]) == (False, "", "")
    assert (info["valid"], info["errors"]) == (False, ["workflows/none/x.xml is missing"])
    assert "x" not in info
    files = await api.ok("GET", "/admin/services/my.app")
    assert files["workflows"] == ["Common.xml", "none/x.xml", "Common.xml"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"", "empty"),
        (b"{", "not JSON"),
        (b"[]", "JSON object"),
        (b'"x"', "JSON object"),
        (b'{"service_display_name": "x", "full_service_name": "other"}', "full_service_name"),
        (b"{}", "service_display_name"),
        (b'{"service_display_name": ""}', "service_display_name"),
        (b'{"service_display_name": "x", "ui": "a"}', "not a list"),
        (b'{"service_display_name": "x", "ui": [1]}', "not text"),
        (b'{"service_display_name": "x", "ui": ["../x"]}', "leaves"),
        (b'{"service_display_name": "x", "ui": ["/x"]}', "relative"),
        (b'{"service_display_name": "\\ud800"}', "surrogate"),
        (b"[" * 100_000, "nested deeper"),
        (b'{"service_display_name": "x", "n": ' + b"9" * 5000 + b"}", "not JSON"),
    ],
)
async def test_manifests_that_cannot_be(api: Api, body: bytes, said: str) -> None:
    """A manifest that breaks a rule is 400 with the rule, and nothing is stored."""
    answer = await api.call("PUT", "/admin/services/my.app", body, Content_Type="application/json")
    assert answer.status == 400, answer.text
    assert said in answer.text
    assert (await api.call("GET", "/admin/services/my.app/info")).status == 404


@pytest.mark.parametrize("name", ["x", "a..b", ".ab", "ab.", "a-b", "a%20b", "%C3%A9%C3%A9"])
async def test_names_that_no_service_has(api: Api, name: str) -> None:
    """A name outside the rule is 404 everywhere, and the answer has the rule."""
    for method, path in (("GET", ""), ("GET", "/info"), ("PUT", ""), ("DELETE", "")):
        answer = await api.call(method, f"/admin/services/{name}{path}", b"{}")
        assert answer.status == 404
        assert "at least two letters" in answer.text


async def test_toggling_many_times_at_once(api: Api) -> None:
    """Each toggle flips once, however many run; all other keys stay."""
    before = await api.ok("GET", "/admin/services/webServer/info")
    paths = ("toggle_enabled", "toggleEnabled")
    answers = await asyncio.gather(
        *(api.call("POST", f"/admin/services/webServer/{paths[n % 2]}") for n in range(7))
    )
    assert {one.status for one in answers} == {200}
    assert await api.ok("GET", "/admin/services/webServer/info") == {**before, "enabled": False}
    assert (await api.call("POST", "/admin/services/none.such/toggle_enabled")).status == 404


async def test_uploading_a_service(api: Api) -> None:
    """An archive brings a service with its files; its manifest replaces an older one."""
    files = {
        "./my.app-manifest.yaml": MANIFEST + "workflow: [a/Mine.xml, Common.xml]\n",
        "./workflow/a/Mine.xml": "<workflow/>",
        "./workflows/Common.xml": SHIPPED["workflows/Common.xml"],
        "docs/readme": "x",
    }
    done = await api.ok("POST", "/admin/services/", pack(files))
    assert done == {"result": "success", "warnings": ["docs/readme: ignored, it is of no type"]}
    assert (await api.ok("GET", "/admin/services/my.app/info"))["valid"] is True
    files["./my.app-manifest.yaml"] = MANIFEST + "service_version: 2\nworkflows: [a/Mine.xml]\n"
    form = await api.http.request(
        "POST",
        "/v1/admin/services",
        files={"file": ("x.tar.gz", pack(files))},
        headers={"X-Auth-Token": "ann"},
    )
    assert form.status == 200, form.text
    assert (await api.ok("GET", "/admin/services/my.app/info"))["service_version"] == 2


async def test_other_compressions(api: Api) -> None:
    """A plain tar and one in xz are taken as well."""
    import gzip

    plain = gzip.decompress(pack({"my.app-manifest.yaml": MANIFEST}))
    await api.ok("POST", "/admin/services", plain)
    await api.ok("POST", "/admin/services", lzma.compress(plain))


def bomb() -> bytes:
    """A small archive with a large file."""
    return pack({"my.app-manifest.yaml": MANIFEST, "scripts/x": bytes(3 * 2**20)})


def cut(at: float) -> bytes:
    """An archive whose end is missing."""
    whole = pack({"my.app-manifest.yaml": MANIFEST, "scripts/x": bytes(range(256)) * 100})
    return whole[: int(len(whole) * at)]


ARCHIVES: dict[str, Any] = {
    "empty": b"",
    "garbage": b"garbage" * 1000,
    "gzip of garbage": pack({})[:20],
    "no manifest": pack({"scripts/x": "x"}),
    "no members": pack({}),
    "manifest in a directory": pack({"a/my.app-manifest.yaml": MANIFEST}),
    "two manifests": pack({"my.app-manifest.yaml": MANIFEST, "b.c-manifest.yaml": MANIFEST}),
    "other name": pack({"other-manifest.yaml": MANIFEST}),
    "not a mapping": pack({"my.app-manifest.yaml": "- 1"}),
    "no display name": pack({"my.app-manifest.yaml": "full_service_name: my.app\n"}),
    "short name": pack({"m-manifest.yaml": "full_service_name: m\nservice_display_name: x\n"}),
    "yaml bomb": pack(
        {
            "my.app-manifest.yaml": MANIFEST
            + "a: &a [x,x,x,x,x,x,x,x,x,x]\n"
            + "".join(
                f"{b}: &{b} [{','.join([f'*{a}'] * 10)}]\n"
                for a, b in zip("abcdefgh", "bcdefghi", strict=True)
            )
        }
    ),
    "python object": pack({"my.app-manifest.yaml": MANIFEST + "a: !!python/object:os.system x\n"}),
    "parent": pack({"my.app-manifest.yaml": MANIFEST, "../x": "x"}),
    "parent inside": pack({"my.app-manifest.yaml": MANIFEST, "scripts/../../x": "x"}),
    "absolute": pack({"my.app-manifest.yaml": MANIFEST, "/etc/x": "x"}),
    "backslash": pack({"my.app-manifest.yaml": MANIFEST, "scripts\\x": "x"}),
    "dot file": pack({"my.app-manifest.yaml": MANIFEST, "scripts/.x": "x"}),
    "symlink": pack({"my.app-manifest.yaml": MANIFEST}, link(tarfile.SYMTYPE)),
    "hard link": pack({"my.app-manifest.yaml": MANIFEST}, link(tarfile.LNKTYPE)),
    "device": pack({"my.app-manifest.yaml": MANIFEST}, link(tarfile.CHRTYPE)),
    "fifo": pack({"my.app-manifest.yaml": MANIFEST}, link(tarfile.FIFOTYPE)),
    "type is a file": pack({"my.app-manifest.yaml": MANIFEST, "scripts": "x"}),
    "file and directory": pack({"my.app-manifest.yaml": MANIFEST, "ui/a": "x", "ui/a/b": "x"}),
    "stored file differs": pack(
        {"my.app-manifest.yaml": MANIFEST, "scripts/new": "x", "workflows/Common.xml": "<other/>"}
    ),
    "stored directory": pack({"my.app-manifest.yaml": MANIFEST, "scripts/Linux": "x"}),
    "many members": pack({f"scripts/{n}": "" for n in range(60)}),
    "bomb": bomb(),
    "cut early": cut(0.2),
    "cut late": cut(0.9),
}


@pytest.fixture
async def small(database: Database, shipped: Path) -> AsyncGenerator[Api, None]:
    """A repository with low limits."""
    async for one in opened(database, shipped, archive_members=50, archive_bytes=2**20):
        yield one


async def test_archives_that_cannot_be(small: Api) -> None:
    """Whatever is wrong with an archive: 400 with a reason, and nothing of it is stored."""
    tree = (await small.call("GET", "/admin/export")).content
    for name, archive in ARCHIVES.items():
        answer = await small.call("POST", "/admin/services", archive)
        assert answer.status == 400, (name, answer.status, answer.text)
        assert len(answer.json()["error"]["message"]) > 10, name
        assert (await small.call("GET", "/admin/export")).content == tree, name


async def test_overwrite_replaces_other_content(api: Api) -> None:
    """With overwrite=true a service may bring another content of a shared file."""
    archive = pack({"my.app-manifest.yaml": MANIFEST, "workflows/Common.xml": "<other/>"})
    assert (await api.call("POST", "/admin/services", archive)).status == 400
    await api.ok("POST", "/admin/services?overwrite=true", archive)
    assert (await api.call("GET", "/admin/workflows/Common.xml")).content == b"<other/>"


async def test_deleting_a_service_keeps_what_others_list(api: Api) -> None:
    """Files that only the service lists go with it; keep_files=true leaves them all."""
    await api.ok("DELETE", "/admin/services/webServer?keep_files=true")
    assert "Web.xml" in (await api.ok("GET", "/admin/workflows"))["workflows"]
    await api.ok("DELETE", "/admin/services/demoService", user="eve")
    left = unpack((await api.call("GET", "/admin/export", user="eve")).content)
    assert sorted(left) == [
        "heat_templates/Demo.template",
        "ui_forms/Web.yaml",
        "webServer-manifest.yaml",
        "workflows/Common.xml",
        "workflows/Web.xml",
    ]
    assert (await api.call("DELETE", "/admin/services/demoService", user="eve")).status == 404


@pytest.mark.parametrize(
    ("manifest", "valid", "said"),
    [
        ("enabled: false\n", True, ""),
        ("ui: x\n", False, "not a list"),
        ("ui: [1]\n", False, "not text"),
        ("ui: [../../demoService-manifest.yaml]\n", False, "leaves"),
        ("scripts: [Linux]\n", False, "is a directory"),
        ("scripts:\n", True, ""),
        ("agent: [Needs.template]\n", False, "names scripts/none.sh, which does not exist"),
        ("a: !!binary aGk=\nb: {1: 2}\nc: .nan\nd: 2001-01-01\ne: !!set {x}\n", True, ""),
    ],
)
async def test_what_makes_a_service_valid(api: Api, manifest: str, valid: bool, said: str) -> None:
    """Bad lists, missing files, and what templates name and nobody has make a service invalid."""
    await api.ok("POST", "/admin/agent?filename=Needs.template", b'{"Scripts": ["none.sh"]}')
    body = (MANIFEST + manifest).encode()
    await api.ok("POST", "/admin/manifests?filename=my.app-manifest.yaml", body)
    info = await api.ok("GET", "/admin/services/my.app/info")
    assert info["valid"] is valid, info
    assert said in "".join(info["errors"])
    await api.ok("GET", "/admin/services")
    await api.ok("POST", "/admin/services/my.app/toggle_enabled")
    after = await api.ok("GET", "/admin/services/my.app/info")
    assert {**after, "enabled": 0} == {**info, "enabled": 0}


async def test_unlisted_files_are_warnings_for_the_types_they_are_for(api: Api) -> None:
    """What a service names, does not list and finds with another is a warning with file and line."""
    await api.ok(
        "PUT",
        "/admin/services/my.app",
        json={"service_display_name": "x", "workflows": ["Web.xml", "Demo.xml"]},
    )
    info = await api.ok("GET", "/admin/services/my.app/info")
    assert info["valid"] is True
    assert len(info["warnings"]) == 1  # Demo.xml's rule is for another type
    assert info["warnings"][0].startswith("workflows/Web.xml:1 names heat/Demo.template")


async def test_broken_manifests_do_not_break_others(api: Api) -> None:
    """A manifest that is not YAML, or whose name is another, makes no service and harms none."""
    await api.ok("POST", "/admin/manifests?filename=bad-manifest.yaml", b"a: [")
    await api.ok("POST", "/admin/manifests?filename=my.app-manifest.yaml", b"full_service_name: x")
    await api.ok("POST", "/admin/manifests?filename=notes.txt", b"hello")
    services = (await api.ok("GET", "/admin/services"))["services"]
    assert [one["full_service_name"] for one in services] == ["demoService", "webServer"]
    assert "notes.txt" not in (await api.ok("GET", "/admin/manifests"))["manifests"]
    assert (await api.call("GET", "/admin/manifests/notes.txt")).content == b"hello"
    missing = await api.call("GET", "/admin/services/my.app")
    assert missing.status == 404
    assert "full_service_name is 'x'" in missing.text


async def test_an_old_repository_is_imported_and_exported(api: Api) -> None:
    """The tree of an old repository becomes definitions, at once or not at all, and comes back."""
    tree = {
        "my.app-manifest.yaml": MANIFEST + "heat: [sub/T.template]\n",
        "heat_templates/sub/T.template": "{}",
        "README": "x",
    }
    clash = {**tree, "workflows/Common.xml": "<other/>"}
    assert (await api.call("POST", "/admin/import", pack(clash))).status == 400
    assert (await api.call("GET", "/admin/services/my.app")).status == 404
    await api.ok("POST", "/admin/import", pack(tree))
    assert (await api.ok("GET", "/admin/services/my.app/info"))["valid"] is True
    await api.ok("POST", "/admin/import?replace=true", pack(tree), user="eve")
    exported = unpack((await api.call("GET", "/admin/export", user="eve")).content)
    assert exported == {path: text.encode() for path, text in tree.items() if path != "README"}


async def test_the_role_for_changes(database: Database, shipped: Path) -> None:
    """With a role set, members read and fetch, and only the role and administrators change."""
    async for api in opened(database, shipped, change_role="editor"):
        for user, status in (("ann", 403), ("ed", 200), ("root", 200)):
            assert (await api.call("GET", "/admin/services", user=user)).status == 200
            assert (await api.call("GET", "/client/ui", user=user)).status == 200
            path = "/admin/services/webServer/toggle_enabled"
            assert (await api.call("POST", path, user=user)).status == status


async def test_a_policy_decides_who_fetches_and_administers(
    database: Database, shipped: Path, tmp_path: Path
) -> None:
    """The rules `client:*` and `admin:*` of a policy file hold for all calls of their kind."""
    file = tmp_path / "policy.yaml"
    file.write_text("'client:*': role:editor\n'admin:*': is_admin:True\n")
    repository = Repository(database, RepositorySection(), shipped)
    face = repository_face(repository, Users(), prefix="", policy=repository_policy(file))
    assembly = assemble([face])
    async with assembly.running(), HttpClient(app=assembly, base_url="http://repository") as http:
        api = Api(http, repository)
        for user, fetches, reads in (("ann", 403, 403), ("ed", 200, 403), ("root", 403, 200)):
            assert (await api.call("GET", "/client/ui", user=user)).status == fetches
            assert (await api.call("GET", "/admin/services", user=user)).status == reads
        refused = await api.call("DELETE", "/admin/services/webServer")
        assert (refused.status, "admin:*" in refused.text) == (403, True)


async def test_an_administrators_client_edits_a_service(api: Api) -> None:
    """A file is added to a service and taken out of it, as the administrators' dashboards do it (§11.2)."""
    service = "/admin/services/webServer"
    await api.ok("POST", "/admin/scripts?filename=new.sh", b"#!/bin/sh\n")
    info, files = await api.ok("GET", f"{service}/info"), await api.ok("GET", service)
    files["scripts"].append("new.sh")
    await api.ok("PUT", service, json={**info, **files, "version": "0.1", "service_version": 2})
    assert "templates/agent/scripts/new.sh" in await api.archive("conductor")
    after = await api.ok("GET", f"{service}/info")
    assert (after["service_version"], after["version"], after["valid"]) == (2, "0.1", True)
    files["scripts"].remove("new.sh")
    await api.ok("PUT", service, json={**after, **files})
    await api.ok("DELETE", "/admin/scripts/new.sh")
    assert (await api.ok("GET", service))["scripts"] == []
    assert (await api.ok("GET", f"{service}/info"))["valid"] is True


async def test_deleting_a_manifests_file_keeps_the_others(api: Api) -> None:
    """A manifest that is deleted as a file takes its service along, and no file (§7.4)."""
    await api.ok("DELETE", "/admin/manifests/webServer-manifest.yaml")
    assert (await api.call("GET", "/admin/services/webServer")).status == 404
    assert "Web.xml" in (await api.ok("GET", "/admin/workflows"))["workflows"]
    assert (await api.call("GET", "/admin/ui/Web.yaml")).status == 200


async def test_two_uploads_of_services_at_once(api: Api) -> None:
    """Services that are uploaded at the same time all arrive; of clashing ones one is refused whole."""

    def archive(n: int) -> bytes:
        return pack(
            {
                f"my.app{n}-manifest.yaml": MANIFEST.replace("my.app", f"my.app{n}"),
                "scripts/shared": str(n % 2),
                f"scripts/{n}": "x",
            }
        )

    answers = await asyncio.gather(
        *(api.call("POST", "/admin/services", archive(n)) for n in range(6))
    )
    good = [n for n, one in enumerate(answers) if one.status == 200]
    assert len(good) == 3
    assert {n % 2 for n in good} == {good[0] % 2}
    scripts = (await api.ok("GET", "/admin/scripts"))["scripts"]
    assert sorted(scripts) == sorted(["Linux/run.sh", "shared", *map(str, good)])


def test_truncated_members_are_noticed() -> None:
    """A plain tar that ends between two members is refused: its end is missing."""
    from vetro.repository.incoming import ArchiveError, ArchiveLimits, read_members

    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        entry = tarfile.TarInfo("a")
        archive.addfile(entry)
    with pytest.raises(ArchiveError, match="truncated"):
        read_members(buffer.getvalue()[:512], ArchiveLimits())
