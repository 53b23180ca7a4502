"""Packages and categories over HTTP."""

import asyncio
import io
import json
import zipfile
from typing import Any

import pytest

Api = Any  # the fixture of conftest.py


async def test_a_package_is_uploaded_shown_and_downloaded(api: Api, package_zip: Any) -> None:
    """The upload comes back byte for byte, with its manifest as the object."""
    content = package_zip()
    answer = await api.upload(content, json.dumps({"tags": ["more"]}))
    assert answer.status == 200, answer.text
    row = answer.json()
    assert row["fully_qualified_name"] == "org.acme.App"
    assert (row["version"], row["type"], row["tags"]) == ("1.0.0", "Application", ["web", "more"])
    assert row["class_definitions"] == ["org.acme.App"]
    path = f"/catalog/packages/{row['id']}"
    assert (await api.call("GET", path)).json() == row
    assert (await api.call("GET", f"{path}/download")).content == content
    ui = await api.call("GET", f"{path}/ui")
    label = ui.headers["content-type"]
    assert ui.text.startswith("Version: 2\n")
    assert label == "text/plain; charset=utf-8"
    assert (await api.call("GET", f"{path}/logo")).content == b""
    assert (await api.call("GET", f"{path}/readme")).content == b""
    assert (await api.call("DELETE", path)).status == 200
    assert (await api.call("GET", path)).status == 404


def heat_zip(template: str) -> bytes:
    """A Heat package."""
    manifest = "Format: Heat.HOT/1.0\nType: Application\nFullName: org.acme.Hot\nDescription: d\n"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("manifest.yaml", manifest)
        archive.writestr("template.yaml", template)
    return buffer.getvalue()


async def test_a_heat_package_has_the_class_and_the_form_of_its_template(api: Api) -> None:
    """The catalog finds it by its generated class and serves its generated form; a bad one is a 400."""
    template = "parameters:\n  size: {type: number, default: 2}\nresources: {}\n"
    answer = await api.upload(heat_zip(template))
    assert answer.status == 200, answer.text
    row = answer.json()
    assert row["class_definitions"] == ["org.acme.Hot"]
    found = await api.call("GET", "/catalog/packages?class_name=org.acme.Hot")
    assert [one["id"] for one in found.json()["packages"]] == [row["id"]]
    assert '"initial": 2' in (await api.call("GET", f"/catalog/packages/{row['id']}/ui")).text

    answer = await api.upload(heat_zip("parameters:\n  size: {type: text}\nresources: {}\n"))
    assert answer.status == 400
    assert "template.yaml:2:9" in answer.json()["error"]["message"]
    assert "Unsupported parameter type of size" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ("{", "metadata"),
        ('{"other": 1}', "other"),
        ('{"tags": "x"}', "tags"),
        ('{"tags": ["a", "a"]}', "twice"),
        ('{"categories": ["none"]}', "doesn't exist"),
    ],
)
async def test_bad_metadata_is_refused(
    api: Api, package_zip: Any, metadata: str, message: str
) -> None:
    """The JSON part of an upload is checked; nothing is added."""
    answer = await api.upload(package_zip(), metadata)
    assert answer.status == 400
    assert message in answer.json()["error"]["message"]
    assert (await api.call("GET", "/catalog/packages")).json()["packages"] == []


async def test_bad_archives_are_refused(api: Api, package_zip: Any, tmp_path: Any) -> None:
    """An invalid package is a 400 with the reason and leaves no file."""
    for content, message in (
        (b"no zip", "not a zip archive"),
        (package_zip(klass="a: [\n"), "Classes/App.yaml:2"),
    ):
        answer = await api.upload(content)
        assert answer.status == 400
        assert message in answer.json()["error"]["message"]
    assert (await api.upload(b"")).status == 400
    assert (await api.upload(b"x" * (6 * 2**20))).status == 413
    assert list((tmp_path / "packages").iterdir()) == []
    assert (await api.call("POST", "/catalog/packages", {})).status == 400


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ("a: [\n", "UI/ui.yaml:2"),
        ("[1]\n", "a form is a map"),
        ("Version: 2\n", "Application section is required"),
        ("Version: 2\nApplication: {'?': {type: a.B}}\nForms: {a: 1}\n", "UI/ui.yaml:3"),
        ("x" * 2**20 + ": 1\n", "larger than 1048576 bytes"),
    ],
)
async def test_a_form_that_is_none_is_refused(
    api: Api, package_zip: Any, tmp_path: Any, form: str, said: str
) -> None:
    """The upload is refused with 400 and the place of the mistake."""
    answer = await api.upload(package_zip(form=form))
    assert answer.status == 400
    assert said in answer.json()["error"]["message"]
    assert list((tmp_path / "packages").iterdir()) == []


@pytest.mark.parametrize(
    "form",
    [
        "Version: 1\nforms: []\n",
        "Version: 2.9\nApplication: {'?': {type: a.B}}\n",
        "Application: {'?': {type: a.B}}\nUnknown: 1\n",
    ],
)
async def test_a_form_of_another_time_is_no_mistake(api: Api, package_zip: Any, form: str) -> None:
    """Old and new versions and unknown keys give only advice, and the package is accepted."""
    assert (await api.upload(package_zip(form=form))).status == 200


def listed(count: int) -> str:
    """So many tags, as YAML."""
    return "[" + ", ".join(f"t{number}" for number in range(count)) + "]"


async def test_tags_have_a_bound(api: Api, package_zip: Any) -> None:
    """Too many tags in manifest, upload, both together or a change are refused."""
    many = json.dumps({"tags": [f"m{number}" for number in range(101)]})
    for content, metadata in (
        (package_zip(tags=listed(101)), None),
        (package_zip(tags=listed(20_000)), None),
        (package_zip(), many),
        (package_zip(tags=listed(60)), json.dumps({"tags": [f"m{n}" for n in range(60)]})),
        (package_zip(), json.dumps({"tags": ["x" * 81]})),
        (package_zip(), json.dumps({"tags": [""]})),
    ):
        answer = await api.upload(content, metadata)
        assert answer.status == 400, answer.text
    row = (await api.upload(package_zip(tags=listed(100)))).json()
    assert len(row["tags"]) == 100
    kind = "application/murano-packages-json-patch"
    for op, tags in (("add", ["more"]), ("replace", [f"m{number}" for number in range(101)])):
        patch = [{"op": op, "path": "/tags", "value": tags}]
        path = f"/catalog/packages/{row['id']}"
        assert (await api.call("PATCH", path, patch, type=kind)).status == 400


async def test_packages_are_checked_beside_the_event_loop(
    api: Api, package_zip: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Archives that are not tiny are opened and checked in threads without an event loop."""
    from vetro.catalog import adding, store

    monkeypatch.setattr(adding, "QUICK_BYTES", 0)
    for room, name in (
        (adding, "open_package"),
        (adding, "check_upload"),
        (adding, "sha256"),
        (store, "open_package"),
    ):
        real = getattr(room, name)

        def beside(*given: Any, real: Any = real, **named: Any) -> Any:
            with pytest.raises(RuntimeError, match="no running event loop"):
                asyncio.get_running_loop()
            return real(*given, **named)

        monkeypatch.setattr(room, name, beside)
    row = (await api.upload(package_zip())).json()
    for part in ("ui", "logo", "readme", "download"):
        assert (await api.call("GET", f"/catalog/packages/{row['id']}/{part}")).status == 200


async def test_names_versions_and_classes_conflict_within_a_project(
    api: Api, package_zip: Any
) -> None:
    """The same version again is 409; a new version or another project is not."""
    assert (await api.upload(package_zip())).status == 200
    assert (await api.upload(package_zip())).status == 409
    assert (await api.upload(package_zip(version="2.0.0"))).status == 200
    assert (await api.upload(package_zip(), user="eve")).status == 200


async def test_private_packages_of_others_are_hidden(api: Api, package_zip: Any) -> None:
    """Another project sees public packages only and changes none."""
    row = (await api.upload(package_zip())).json()
    path = f"/catalog/packages/{row['id']}"
    for part in ("", "/download", "/ui", "/logo"):
        assert (await api.call("GET", path + part, user="eve")).status == 403
    assert (await api.call("DELETE", path, user="eve")).status == 403
    patch = [{"op": "replace", "path": "/is_public", "value": True}]
    kind = "application/murano-packages-json-patch"
    assert (await api.call("PATCH", path, patch, type=kind)).status == 403
    assert (await api.call("PATCH", path, patch, type=kind, user="root")).status == 200
    assert (await api.call("GET", path, user="eve")).status == 200
    assert (await api.call("PATCH", path, patch, type=kind, user="eve")).status == 403


async def test_packages_are_searched_and_paged(api: Api, package_zip: Any) -> None:
    """Filters, words, order and markers work together."""
    names = [f"org.acme.{name}" for name in ("Alpha", "Beta", "Gamma")]
    for name in names:
        assert (await api.upload(package_zip(name))).status == 200

    async def found(query: str) -> list[str]:
        answer = await api.call("GET", f"/catalog/packages?{query}")
        return [row["name"] for row in answer.json()["packages"]]

    assert await found("catalog=true") == ["Alpha", "Beta", "Gamma"]
    assert await found("search=gam;alp") == ["Alpha", "Gamma"]
    assert await found("fqn=org.acme.Beta") == ["Beta"]
    assert await found("class_name=org.acme.Gamma") == ["Gamma"]
    assert await found("type=library") == []
    assert await found("tag=in:web,other&sort_dir=desc") == ["Gamma", "Beta", "Alpha"]
    first = (await api.call("GET", "/catalog/packages?limit=2")).json()
    assert [row["name"] for row in first["packages"]] == ["Alpha", "Beta"]
    assert await found(f"limit=2&marker={first['next_marker']}") == ["Gamma"]
    assert (await api.call("GET", "/catalog/packages?marker=none")).status == 404
    assert (await api.call("GET", "/catalog/packages?limit=0")).status == 400
    assert (await api.call("GET", "/catalog/packages?sort_dir=up")).status == 400


@pytest.mark.parametrize(
    ("stored", "asked"),
    [
        ("0.0.0", ["0", "0.0", "0.0.0", " 0 "]),
        ("1.0.0", ["1", "1.0", "1.0.0"]),
        ("2.3.0-rc.1", ["2.3-rc.1", "2.3.0-rc.1"]),
    ],
)
async def test_a_version_is_found_however_it_is_written(
    api: Api, package_zip: Any, stored: str, asked: list[str]
) -> None:
    """A search with a version that lacks parts finds the package (update on conflict)."""
    assert (await api.upload(package_zip(version=asked[0].strip()))).status == 200
    assert (await api.upload(package_zip(version=stored))).status == 409
    for text in asked:
        path = f"/catalog/packages?fqn=org.acme.App&owned=True&version={text}"
        (row,) = (await api.call("GET", path)).json()["packages"]
        assert row["version"] == stored
    for text in ("9", "", "*", "none", ">=0"):
        path = f"/catalog/packages?fqn=org.acme.App&version={text}"
        assert (await api.call("GET", path)).json()["packages"] == []


async def test_a_patch_changes_all_or_nothing(api: Api, package_zip: Any) -> None:
    """Allowed operations work; a bad one anywhere leaves the package as it was."""
    row = (await api.upload(package_zip())).json()
    path = f"/catalog/packages/{row['id']}"

    async def patch(*operations: Any) -> Any:
        kind = "application/murano-packages-json-patch"
        return await api.call("PATCH", path, list(operations), type=kind)

    changed = await patch(
        {"op": "add", "path": "/tags", "value": ["x", "web"]},
        {"op": "replace", "path": "/name", "value": "New"},
    )
    assert (changed.json()["tags"], changed.json()["name"]) == (["web", "x"], "New")
    good = {"op": "replace", "path": "/name", "value": "Other"}
    for bad, status in (
        ({"op": "replace", "path": "/author", "value": "x"}, 403),
        ({"op": "add", "path": "/name", "value": "x"}, 403),
        ({"op": "replace", "path": "/enabled", "value": 1}, 400),
        ({"op": "remove", "path": "/tags", "value": ["none"]}, 404),
        ({"op": "replace", "path": "/a/b", "value": 1}, 400),
        ("x", 400),
    ):
        assert (await patch(good, bad)).status == status
    assert (await api.call("GET", path)).json()["name"] == "New"
    assert (await api.call("PATCH", path, [])).status == 400


async def test_categories(api: Api, package_zip: Any) -> None:
    """Administrators create categories, which count their packages and are kept while used."""
    assert (await api.call("POST", "/catalog/categories", {"name": "Web"})).status == 403
    made = await api.call("POST", "/catalog/categories", {"name": "Web"}, user="root")
    assert made.json()["package_count"] == 0
    assert (
        await api.call("POST", "/catalog/categories", {"name": "Web"}, user="root")
    ).status == 409
    assert (await api.call("POST", "/catalog/categories", {}, user="root")).status == 400
    long = await api.call("POST", "/catalog/categories", {"name": "x" * 81}, user="root")
    assert long.status == 400
    assert long.json()["error"]["message"] == "Category name should be 80 characters maximum"
    await api.upload(package_zip(), json.dumps({"categories": ["Web"]}))
    path = f"/catalog/categories/{made.json()['id']}"
    shown = (await api.call("GET", path)).json()
    assert (shown["package_count"], shown["packages"][0]["name"]) == (1, "App")
    assert (await api.call("GET", path, user="eve")).json()["packages"] == []
    assert (await api.call("DELETE", path, user="root")).status == 403
    assert (await api.call("GET", "/catalog/categories?nonsense=1")).status == 400


@pytest.mark.parametrize("path", ["/nope", "/nope/a/b", "/v2/environments", "/v2/"])
async def test_what_begins_with_no_version_is_told_the_versions(api: Api, path: str) -> None:
    """Paths without a version get 300 without a token (§1); versioned paths need a token."""
    for method in ("GET", "POST", "DELETE"):
        answer = await api.http.request(method, path)
        assert answer.status == 300
        assert [one["id"] for one in answer.json()["versions"]] == ["v1.0"]
    assert (await api.http.request("GET", f"/v1{path}")).status == 401
    assert (await api.call("GET", "/nope")).json()["error"]["type"] == "NoSuchPath"


async def test_parts_of_a_package_are_not_sent_twice(api: Api, package_zip: Any) -> None:
    """Archive, form and logo get 304 for a known tag; the archive also supports ranges."""
    content = package_zip()
    path = f"/v1/catalog/packages/{(await api.upload(content)).json()['id']}"
    token = {"X-Auth-Token": "ann"}
    for part in ("download", "ui", "logo"):
        first = await api.http.request("GET", f"{path}/{part}", headers=token)
        again = {**token, "If-None-Match": first.headers["etag"], "Accept": "image/png"}
        assert (await api.http.request("GET", f"{path}/{part}", headers=again)).status == 304
    lost = {**token, "Range": "bytes=10-"}
    rest = await api.http.request("GET", f"{path}/download", headers=lost)
    assert (rest.status, rest.content) == (206, content[10:])


async def test_discovery_is_open(api: Api) -> None:
    """The versions need no token; everything else needs one."""
    answer = await api.http.request("GET", "/")
    assert (answer.status, answer.json()["versions"][0]["id"]) == (300, "v1.0")
    assert (await api.http.request("GET", "/v1/")).status == 200
    assert (await api.http.request("GET", "/v1/environments")).status == 401


async def test_a_check_lists_every_finding_and_adds_nothing(
    api: Api, package_zip: Any, tmp_path: Any
) -> None:
    """Each finding has its place and the lines around it; the archive is neither kept nor added."""
    bad = package_zip(klass="Name: x\nProperties:\n  a: {}\n  b:\n    Contrakt: $.int()\n")
    answer = await api.upload(bad, path="/v1/catalog/checks")
    assert answer.status == 200
    places = {(one["file"], one["line"]) for one in answer.json()["findings"]}
    assert {("Classes/App.yaml", 3), ("Classes/App.yaml", 5)} <= places
    found = next(one for one in answer.json()["findings"] if one["line"] == 5)
    assert found["level"] == "error"
    assert [5, "    Contrakt: $.int()"] in found["excerpt"]
    (none,) = (await api.upload(b"no zip", path="/v1/catalog/checks")).json()["findings"]
    assert "not a zip archive" in none["message"]
    (large,) = (
        await api.upload(package_zip(form="x" * 2**20 + ": 1\n"), path="/v1/catalog/checks")
    ).json()["findings"]
    assert "larger than 1048576 bytes" in large["message"]
    assert list((tmp_path / "packages").iterdir()) == []
    assert (await api.call("GET", "/catalog/packages")).json()["packages"] == []


async def test_a_package_says_what_its_form_needs(api: Api, package_zip: Any) -> None:
    """The limits of its sizes and its licence; a form that cannot be read has none."""
    form = (
        "Version: 2\nApplication: {'?': {type: org.acme.App}}\nForms:\n  - main:\n      fields:\n"
        "        - {name: license, type: string, hidden: true, required: false, description: Free}\n"
        "        - {name: size, type: flavor, label: Size, requirements: {min_memory_mb: 2048}}\n"
    )
    made = (await api.upload(package_zip(form=form))).json()["id"]
    answer = await api.call("GET", f"/catalog/packages/{made}/needs")
    assert answer.status == 200, answer.text
    assert answer.json() == {
        "sizes": [{"label": "Size", "limits": {"min_memory_mb": 2048}}],
        "license": "Free",
    }
    old = package_zip("org.acme.Old", form="Version: 1\nforms: []\n")
    other = (await api.upload(old)).json()["id"]
    answer = await api.call("GET", f"/catalog/packages/{other}/needs")
    assert answer.json() == {"sizes": [], "license": None}


async def test_a_category_lists_the_packages_that_its_reader_may_see(
    api: Api, package_zip: Any
) -> None:
    """One's own, disabled ones too, and public ones; administrators see why it cannot be deleted (§6.3)."""
    made = await api.call("POST", "/catalog/categories", {"name": "Web"}, user="root")
    for name, user, more in (
        ("own", "ann", ""),
        ("disabled", "ann", ', "enabled": false'),
        ("private", "eve", ""),
        ("public", "root", ', "is_public": true'),
    ):
        metadata = f'{{"categories": ["Web"]{more}}}'
        answer = await api.upload(package_zip(f"org.{name}.App"), metadata, user=user)
        assert answer.status == 200, answer.text
    path = f"/catalog/categories/{made.json()['id']}"
    for user, names in (
        ("ann", {"own", "disabled", "public"}),
        ("eve", {"private", "public"}),
        ("root", {"own", "disabled", "private", "public"}),
    ):
        shown = (await api.call("GET", path, user=user)).json()
        assert {one["fully_qualified_name"].split(".")[1] for one in shown["packages"]} == names
        assert shown["package_count"] == 4
