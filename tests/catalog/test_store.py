"""Packages of several projects: who sees, changes and keeps which, and what their archives do."""

import asyncio
import io
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from sqlalchemy import text
from tests.catalog.conftest import Shelf as AShelf

from vetro.catalog import (
    MIGRATIONS,
    Catalog,
    PackageQuery,
    PackageUser,
    ReplacementMetadata,
    UploadMetadata,
    delete_of_project,
    packages_of_project,
)
from vetro.http import BadRequest, Conflict, Fault, Forbidden, NotFound
from vetro.packages import Signers, sign_archive
from vetro.storage import Database, MigrationSet, StorageError, migrate

Shelf = Any  # the fixture of conftest.py
NAME = "org.acme.App"
ALL = PackageQuery(catalog=True, include_disabled=True, limit=100)


async def names(shelf: Shelf, principal: Any, query: PackageQuery = ALL) -> list[str]:
    """The full names that a search finds, in its order."""
    views, _ = await shelf.catalog.search(principal, query)
    return [view["fully_qualified_name"] for view in views]


async def test_one_project_has_a_version_once(shelf: Shelf) -> None:
    """The same version is refused in its project, and accepted with another version or project."""
    await shelf.add("p")
    with pytest.raises(Conflict, match=f"{NAME} 1.0.0 is in this project's catalog already"):
        await shelf.add("p")
    await shelf.add("p", file=shelf.archive(version="1.0.1"))
    await shelf.add("q")


async def test_uploads_of_one_version_at_once_leave_one_package(shelf: Shelf, user: Any) -> None:
    """Of five simultaneous uploads one is stored, and the others leave no file."""
    made = await asyncio.gather(*(shelf.add("p") for _ in range(5)), return_exceptions=True)
    assert sorted(type(one).__name__ for one in made) == ["Conflict"] * 4 + ["dict"]
    assert await names(shelf, user("p")) == [NAME]
    assert shelf.kept() == 1
    assert list(shelf.directory.glob("upload-*")) == []


async def test_a_class_belongs_to_one_package_of_a_project(shelf: Shelf) -> None:
    """A class is refused that another package declares, and accepted in a version of the same one."""
    await shelf.add("p")
    with pytest.raises(Conflict, match=f"Class {NAME} is declared by package {NAME} already"):
        await shelf.add("p", file=shelf.archive("org.acme.Other", classes=[NAME]))
    await shelf.add("p", file=shelf.archive(version="2.0.0"))
    await shelf.add("q", file=shelf.archive("org.acme.Other", classes=[NAME]))


async def test_only_an_administrator_makes_packages_public(shelf: Shelf, user: Any) -> None:
    """Publishing is refused to members, at the upload and afterwards, and works for administrators."""
    with pytest.raises(Forbidden, match="Only an administrator may make a package public"):
        await shelf.add("p", is_public=True)
    assert shelf.kept() == 0
    row = await shelf.add("p")
    publish = [{"op": "replace", "path": "/is_public", "value": True}]
    with pytest.raises(Forbidden, match="Only an administrator"):
        await shelf.catalog.patch(user("p"), row["id"], publish, shelf.uses)
    assert await names(shelf, user("q")) == []
    await shelf.catalog.patch(user("r", admin=True), row["id"], publish, shelf.uses)
    assert await names(shelf, user("q")) == [NAME]


async def replaced(
    shelf: Shelf, principal: Any, id_: str, file: Path | None = None, **given: Any
) -> dict[str, Any]:
    """Replace a package by an archive, by default the same content with another description."""
    archive = file or shelf.archive(description="second")
    return await shelf.catalog.replace(principal, id_, archive, ReplacementMetadata(**given))


async def test_a_replacement_keeps_what_a_package_is_and_who_uses_it(
    shelf: Shelf, user: Any
) -> None:
    """It has the same id, categories, tags and publicity, the new content, and no archive is left over."""
    await shelf.catalog.categories.add("Web")
    root = user("p", admin=True)
    row = await shelf.catalog.upload(
        root,
        shelf.archive(classes=[NAME, "org.acme.Old"]),
        UploadMetadata(is_public=True, categories=["Web"], tags=["mine"], enabled=False),
    )
    shelf.uses.users = {NAME: [PackageUser("e", "web", "q")]}
    file = shelf.archive(classes=[NAME, "org.acme.New"], description="second")
    new = await replaced(shelf, root, row["id"], file)
    same = ("id", "tags", "categories", "is_public", "enabled", "created", "owner_id")
    assert {key: new[key] for key in same} == {key: row[key] for key in same}
    assert new["description"] == "second"
    assert new["class_definitions"] == [NAME, "org.acme.New"]
    assert new == await shelf.catalog.show(root, row["id"])
    assert await names(
        shelf, root, PackageQuery(search=["second"], include_disabled=True, owned=True)
    ) == [NAME]
    assert shelf.kept() == 1
    found = await shelf.catalog.find_package_for_class(
        "org.acme.New", "1.0.0", "q", {NAME: ["1.0.0"]}
    )
    assert found is not None
    again = await replaced(shelf, root, row["id"], tags=["other"], categories=[])
    assert (again["tags"], again["categories"]) == (["web", "other"], [])


REFUSED: dict[str, tuple[type[Exception], str]] = {
    "member of a public one": (Forbidden, "is public: only an administrator may replace it"),
    "member who publishes": (Forbidden, "Only an administrator may make"),
    "of another project": (Forbidden, "belongs to another project"),
    "other version": (BadRequest, "can only replace a package of that name and version"),
    "other name": (BadRequest, "can only replace a package of that name and version"),
    "class of another package": (Conflict, "is declared by package org.acme.Other already"),
    "unknown category": (BadRequest, "Nowhere"),
    "wrong signature": (BadRequest, "signature"),
    "no archive": (BadRequest, "Couldn't load"),
    "store is full": (StorageError, "full"),
}


@pytest.mark.parametrize("why", REFUSED)
async def test_a_replacement_that_is_refused_changes_nothing(
    shelf: Shelf, user: Any, why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever stands against it, the package, its archive and the rest of the catalog are as before."""
    await shelf.add("p", file=shelf.archive("org.acme.Other"))
    public = why == "member of a public one"
    row = await shelf.add("p", admin=True, is_public=public)
    before, kept = await shelf.catalog.show(user("p"), row["id"]), shelf.kept()
    principal = user("q" if why == "of another project" else "p")
    file = {
        "other version": lambda: shelf.archive(version="1.0.1"),
        "other name": lambda: shelf.archive("org.acme.Third"),
        "class of another package": lambda: shelf.archive(classes=[NAME, "org.acme.Other"]),
    }.get(why, lambda: shelf.archive(description="second"))()
    if why == "no archive":
        file.write_bytes(b"text")
    given: dict[str, Any] = {
        "member who publishes": {"is_public": True},
        "unknown category": {"categories": ["Nowhere"]},
        "wrong signature": {"signature": "{}"},
    }.get(why, {})

    async def full(*_args: object, **_given: object) -> None:
        raise StorageError("the disk is full")

    kind, says = REFUSED[why]
    with monkeypatch.context() as patched:
        if why == "store is full":
            patched.setattr(shelf.catalog.blobs, "adopt", full)
        with pytest.raises(kind, match=says):
            await replaced(shelf, principal, row["id"], file, **given)
    assert await shelf.catalog.show(user("p"), row["id"]) == before
    assert sorted(await names(shelf, user("p"))) == [NAME, "org.acme.Other"]
    assert (await shelf.catalog.open_for(user("p"), row["id"])).full_name == NAME
    assert shelf.kept() == kept
    assert not file.exists()


async def test_a_package_of_another_project_is_private(shelf: Shelf, user: Any) -> None:
    """It is neither listed nor shown, downloaded, changed, deleted, nor found by the engine."""
    row = await shelf.add("p")
    stranger, calls = user("q"), shelf.catalog
    patch = [{"op": "replace", "path": "/name", "value": "Mine"}]
    for refused in (
        calls.show(stranger, row["id"]),
        calls.archive_for(stranger, row["id"]),
        calls.patch(stranger, row["id"], patch, shelf.uses),
        calls.delete(stranger, row["id"], shelf.uses, force=True),
    ):
        with pytest.raises(Forbidden, match="belongs to another project"):
            await refused
    assert await names(shelf, stranger) == []
    assert await calls.find_package(NAME, "1.0", "q") is None
    assert await calls.find_package_for_class(NAME, "1.0", None) is None
    assert await calls.usable("q") == []
    assert (await calls.show(user("r", admin=True), row["id"]))["owner_id"] == "p"


async def test_the_engine_gets_the_nearest_and_newest_package(shelf: Shelf, user: Any) -> None:
    """A project's own package precedes a public one, then the highest version that fits."""
    public = await shelf.add("r", admin=True, file=shelf.archive(version="3.0.0"), is_public=True)
    for version in ("1.0.0", "1.10.0", "1.9.0"):
        await shelf.add("p", file=shelf.archive(version=version))

    async def found(spec: str, project: str | None) -> str | None:
        package = await shelf.catalog.find_package(NAME, spec, project)
        same = await shelf.catalog.find_package_for_class(NAME, spec, project)
        assert (package and package.version) == (same and same.version)
        return package and package.version

    assert await found(">0", "p") == "1.10.0"
    assert await found("<1.10", "p") == "1.9.0"
    assert await found(">=2.0", "p") == "3.0.0"
    assert await found(">=4.0", "p") is None
    assert (await found(">0", "q"), await found(">0", None)) == ("3.0.0", "3.0.0")
    disable = [{"op": "replace", "path": "/enabled", "value": False}]
    root = user("r", admin=True)
    await shelf.catalog.patch(root, public["id"], disable, shelf.uses, force=True)
    assert await found(">=2.0", "p") is None
    assert await shelf.catalog.find_package(NAME, ">=2.0", "p", {NAME: {"3.0.0"}}) is not None


async def test_archives_live_as_long_as_a_package_refers_to_them(shelf: Shelf, user: Any) -> None:
    """Two projects share the file of the same content; the last deletion removes it."""
    file = shelf.archive()
    copy = shelf.directory / "copy.zip"
    copy.write_bytes(file.read_bytes())
    first, second = await shelf.add("p", file=file), await shelf.add("q", file=copy)
    assert shelf.kept() == 1
    await shelf.catalog.delete(user("p"), first["id"], shelf.uses)
    assert shelf.kept() == 1
    assert (await shelf.catalog.open_for(user("q"), second["id"])).full_name == NAME
    await shelf.catalog.delete(user("q"), second["id"], shelf.uses)
    assert shelf.kept() == 0
    with pytest.raises(NotFound, match=f"Package id:{first['id']} does not exist"):
        await shelf.catalog.show(user("p"), first["id"])


async def test_a_used_package_is_deleted_by_force_and_kept_for_its_users(
    shelf: Shelf, user: Any
) -> None:
    """The refusal names those users that the caller may know; the file goes with the last of them."""
    row = await shelf.add("p")
    shelf.uses.users[NAME] = [PackageUser("e1", "mine", "p"), PackageUser("e2", "theirs", "q")]
    with pytest.raises(
        Conflict, match=r"2 environments: mine \(e1\), 1 of other projects\. "
    ) as no:
        await shelf.catalog.delete(user("p"), row["id"], shelf.uses)
    assert no.value.extra == {"environments": [{"id": "e1", "name": "mine"}]}
    await shelf.catalog.delete(user("p"), row["id"], shelf.uses, force=True)
    assert await names(shelf, user("p")) == []
    pins = {NAME: {"1.0.0"}}
    assert await shelf.catalog.find_package(NAME, "1.0", "p") is None
    assert await shelf.catalog.find_package(NAME, "1.0", "p", pins) is not None
    assert await shelf.catalog.drop_unused_packages(shelf.uses) == 0
    shelf.uses.users.clear()
    assert await shelf.catalog.drop_unused_packages(shelf.uses) == 1
    assert shelf.kept() == 0


async def test_a_package_that_is_taken_while_it_is_deleted_keeps_its_archive(
    shelf: Shelf, user: Any
) -> None:
    """Who begins to use a package after its users were asked for is not left without it."""
    row = await shelf.add()
    shelf.uses.answers_soon = False  # so it is asked before anybody else is kept from writing, too
    asked = shelf.uses.of

    async def taken_meanwhile(packages: Any, tx: Any = None) -> Any:
        before = await asked(packages, tx)
        shelf.uses.users[NAME] = [PackageUser("e", "env", "p")]
        return before

    shelf.uses.of = taken_meanwhile
    try:
        await shelf.catalog.delete(user("p"), row["id"], shelf.uses)
    except Conflict:  # where one unit of work writes at a time, it is noticed before
        assert (await shelf.catalog.show(user("p"), row["id"]))["id"] == row["id"]
    assert shelf.kept() == 1


async def test_users_are_asked_for_where_nobody_else_writes(shelf: Shelf, user: Any) -> None:
    """Where one unit of work writes at a time and the answer is at hand, nothing is asked twice."""
    row = await shelf.add()
    asked = shelf.uses.of
    units: list[bool] = []

    async def noted(packages: Any, tx: Any = None) -> Any:
        units.append(tx is not None and not tx.read_only)
        return await asked(packages, tx)

    shelf.uses.of = noted
    await shelf.catalog.delete(user("p"), row["id"], shelf.uses)
    is_alone = shelf.catalog.database.is_sqlite
    assert units == [True] if is_alone else True not in units
    assert shelf.kept() == 0


async def test_a_deleted_version_can_be_uploaded_again(shelf: Shelf, user: Any) -> None:
    """It replaces the deleted package, whose users get the new archive."""
    row = await shelf.add("p")
    shelf.uses.users[NAME] = [PackageUser("e1", "mine", "p")]
    await shelf.catalog.delete(user("p"), row["id"], shelf.uses, force=True)
    again = await shelf.add("p", file=shelf.archive(classes=[NAME, "org.acme.More"]))
    assert again["id"] != row["id"]
    found = await shelf.catalog.find_package_for_class(
        "org.acme.More", "1.0", "p", {NAME: {"1.0.0"}}
    )
    assert found is not None
    assert shelf.kept() == 1


async def test_a_public_package_that_others_use_is_withdrawn_by_force_only(
    shelf: Shelf, user: Any
) -> None:
    """Making it private or disabling it is refused while another project uses it."""
    row = await shelf.add("r", admin=True, is_public=True)
    root = user("r", admin=True)
    shelf.uses.users[NAME] = [PackageUser("e1", "own", "r")]
    for path in ("/enabled", "/is_public"):
        shelf.uses.users[NAME] = [PackageUser("e2", "theirs", "q")]
        withdraw = [{"op": "replace", "path": path, "value": False}]
        with pytest.raises(Conflict, match=r"is used by 1 environment: theirs \(e2\)"):
            await shelf.catalog.patch(root, row["id"], withdraw, shelf.uses)
        view = await shelf.catalog.patch(root, row["id"], withdraw, shelf.uses, force=True)
        assert view[path[1:]] is False
        shelf.uses.users[NAME] = [PackageUser("e1", "own", "r")]
        restore = [{"op": "replace", "path": path, "value": True}]
        await shelf.catalog.patch(root, row["id"], restore, shelf.uses)
        # Its own project's environments do not hinder it, and it is published again.
        await shelf.catalog.patch(root, row["id"], withdraw, shelf.uses)
        await shelf.catalog.patch(root, row["id"], restore, shelf.uses)


async def test_a_patch_with_one_bad_operation_changes_nothing(shelf: Shelf, user: Any) -> None:
    """Operations before the bad one have no effect."""
    row = await shelf.add("p")
    for bad in (
        {"op": "remove", "path": "/tags", "value": ["absent"]},
        {"op": "add", "path": "/categories", "value": ["Absent"]},
        {"op": "replace", "path": "/owner_id", "value": "q"},
    ):
        patch = [{"op": "replace", "path": "/name", "value": "New"}, bad]
        with pytest.raises(Fault):
            await shelf.catalog.patch(user("p"), row["id"], patch, shelf.uses)
        assert (await shelf.catalog.show(user("p"), row["id"]))["name"] == "App"


async def test_pages_of_a_search_have_every_package_once(shelf: Shelf, user: Any) -> None:
    """Pages follow their markers to the end, in either direction; an unknown marker is an error."""
    wanted = [f"org.acme.App{number}" for number in range(5)]
    for name in wanted:
        await shelf.add("p", file=shelf.archive(name))
    for descending in (False, True):
        seen: list[str] = []
        marker: str | None = None
        for _ in range(3):
            query = PackageQuery(limit=2, marker=marker, descending=descending)
            views, marker = await shelf.catalog.search(user("p"), query)
            seen += [view["fully_qualified_name"] for view in views]
        assert marker is None
        assert seen == sorted(wanted, reverse=descending)
    with pytest.raises(NotFound, match="Marker nowhere"):
        await shelf.catalog.search(user("p"), PackageQuery(marker="nowhere"))


async def test_words_find_packages_by_their_best_field(shelf: Shelf, user: Any) -> None:
    """A word in the name precedes one in the description, which precedes one in a tag."""
    for name, description, tags in (
        ("org.acme.A", "", ["apache"]),
        ("org.acme.B", "runs Apache", []),
        ("org.acme.Apache", "", []),
        ("org.acme.C", "", []),
    ):
        file = shelf.archive(name, description=description)
        await shelf.add("p", file=file, tags=tags, description="the manifest's counts")
    found = await names(shelf, user("p"), PackageQuery(search=["APACHE"]))
    assert found == ["org.acme.Apache", "org.acme.B", "org.acme.A"]


async def test_a_category_with_packages_stays(shelf: Shelf, user: Any) -> None:
    """A used category cannot be deleted, and is free again after its package was deleted."""
    category = await shelf.catalog.categories.add("Web")
    with pytest.raises(Conflict, match="Category 'Web' already exists"):
        await shelf.catalog.categories.add("Web")
    with pytest.raises(BadRequest, match="Category 'Absent' doesn't exist"):
        await shelf.add("p", categories=["Absent"])
    row = await shelf.add("p", categories=["Web", "Web"])
    shown = await shelf.catalog.show_category(user("p"), category["id"])
    assert [one["id"] for one in shown["packages"]] == [row["id"]]
    assert (await shelf.catalog.show_category(user("q"), category["id"]))["packages"] == []
    with pytest.raises(Forbidden, match="has packages: it cannot be deleted"):
        await shelf.catalog.categories.delete(category["id"])
    await shelf.catalog.delete(user("p"), row["id"], shelf.uses)
    await shelf.catalog.categories.delete(category["id"])
    assert await shelf.catalog.categories.listing() == []


async def test_a_deleted_project_leaves_no_packages(shelf: Shelf, user: Any) -> None:
    """Its packages are listed with their publicity, then deleted; those of other projects stay."""
    await shelf.add("p", admin=True, is_public=True)
    await shelf.add("p", file=shelf.archive("org.acme.Other"))
    await shelf.add("q")
    async with shelf.catalog.database.read() as tx:
        found = await packages_of_project(tx, "p")
    assert list(found.values()) == [f"{NAME} 1.0.0 (public)", "org.acme.Other 1.0.0"]
    await delete_of_project(shelf.catalog, user("p"), shelf.uses)
    assert await names(shelf, user("p")) == []
    assert await names(shelf, user("q")) == [NAME]
    assert shelf.kept() == 1


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04" + bytes(40), "empty"])
async def test_a_bad_archive_leaves_nothing(shelf: Shelf, user: Any, content: Any) -> None:
    """A file that is not a package is refused; neither the file nor a row stays."""
    file = shelf.directory / "bad.zip"
    if content == "empty":
        buffer = io.BytesIO()
        zipfile.ZipFile(buffer, "w").close()
        content = buffer.getvalue()
    file.write_bytes(content)
    with pytest.raises(BadRequest, match="Couldn't load package from file"):
        await shelf.add("p", file=file)
    assert not file.exists()
    assert shelf.kept() == 0
    assert await names(shelf, user("p")) == []


async def test_a_refusal_names_every_mistake(shelf: Shelf, user: Any) -> None:
    """The manifest, the logo, a class file and the form: all in one answer, with their places."""
    file = shelf.directory / "bad.zip"
    with zipfile.ZipFile(file, "w") as made:
        made.writestr(
            "manifest.yaml",
            "FullName: p.App\nType: Thing\nDescription: d\nTags: 5\nClasses: {p.App: App.yaml}\n",
        )
        made.writestr("logo.png", "no image")
        made.writestr("Classes/App.yaml", "Name: [\n")
        made.writestr("UI/ui.yaml", "Version: 2\n")
        made.writestr("LICENSE", "free")
    with pytest.raises(BadRequest) as caught:
        await shelf.add("p", file=file)
    lines = caught.value.message.splitlines()
    assert "manifest.yaml:2:7: Incorrect package format: Invalid package Type" in lines[0]
    assert [line.partition(": ")[0] for line in lines[1:]] == [
        "Classes/App.yaml:2:1",
        "UI/ui.yaml:1:1",
        "manifest.yaml",
        "manifest.yaml:4:7",
    ]


async def test_what_a_class_inherits_is_found_across_packages(shelf: Shelf, user: Any) -> None:
    """Parents of parents, in packages that the project may use; a circle ends; others' stay unknown."""
    base = shelf.archive("p.Base", classes=["p.Base", "p.Odd"], extends={"p.Base": "q.Secret"})
    await shelf.add("p", admin=True, file=base, is_public=True)
    await shelf.add("q", file=shelf.archive("q.Secret", extends={"q.Secret": "q.Root"}))
    heir = shelf.archive("p.Heir", classes=["p.Heir"], extends={"p.Heir": "p.Base"})
    await shelf.add("p", file=heir)
    for one, other in (("p.A", "p.B"), ("p.B", "p.A")):
        await shelf.add("p", file=shelf.archive(one, extends={one: other}))
    async with shelf.catalog.database.read() as tx:
        for name, found in (
            ("p.Heir", ("p.Base", "q.Secret")),
            ("p.Odd", ("io.murano.Object",)),
            ("p.A", ("p.B",)),
            ("none", ()),
        ):
            assert await shelf.catalog.ancestors(tx, user("p"), name) == found, name
        assert await shelf.catalog.ancestors(tx, user("q"), "p.Base") == ("q.Secret", "q.Root")


async def test_a_refusal_with_many_mistakes_is_bounded(shelf: Shelf) -> None:
    """Twenty are named beside the first; of the others their number."""
    names = [f"p.C{number:02}" for number in range(30)]
    file = shelf.archive("p.App", classes=names)
    with zipfile.ZipFile(file) as whole:
        manifest = whole.read("manifest.yaml")
    with zipfile.ZipFile(file, "w") as made:
        made.writestr("manifest.yaml", manifest)
        for name in names:
            made.writestr(f"Classes/{name}.yaml", "Name: [\n")
    with pytest.raises(BadRequest) as caught:
        await shelf.add("p", file=file)
    lines = caught.value.message.splitlines()
    assert len(lines) == 22
    assert lines[-1] == "and 9 more"


async def test_a_signature_is_shown_with_its_signer(shelf: Shelf, user: Any) -> None:
    """One of another archive is refused; it can be taken away; a new upload has none."""
    key = Ed25519PrivateKey.generate()
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    file = shelf.archive()
    signature = sign_archive(file, pem)
    row = await shelf.add("p", file=file)
    assert row["signature"] is None

    async def patched(*operations: dict[str, Any]) -> Any:
        given = [{"path": "/signature", **one} for one in operations]
        return (await shelf.catalog.patch(user("p"), row["id"], given, shelf.uses))["signature"]

    for wrong, words in (
        ("x", "not a line 'vetro-ed25519 KEY SIGNATURE'"),
        (sign_archive(shelf.archive(version="2"), pem).text(), "sign the file that was uploaded"),
    ):
        with pytest.raises(BadRequest, match=words):
            await patched({"op": "replace", "value": wrong})
    shown = {"key": signature.fingerprint, "signer": None}
    assert await patched({"op": "replace", "value": signature.text()}) == shown
    shelf.catalog.signers = Signers({signature.key: "acme"})
    assert await patched({"path": "/name", "op": "replace", "value": "B"}) == {
        **shown,
        "signer": "acme",
    }
    (view,), _ = await shelf.catalog.search(user("p"), ALL)
    assert view["signature"]["signer"] == "acme"
    assert await patched({"op": "remove"}) is None


async def test_packages_from_before_their_texts_had_numbers_are_found_and_removed(
    tmp_path: Path, user: Any
) -> None:
    """An older SQLite database keeps what its packages are found by; a deleted one leaves nothing."""
    before = MigrationSet(MIGRATIONS.room, tmp_path / "older")
    before.directory.mkdir()
    for file in sorted(MIGRATIONS.directory.glob("[0-9]*.py"))[:5]:
        shutil.copy(file, before.directory)
    database = await Database.open(f"sqlite:///{tmp_path}/catalog.db")
    try:
        await migrate(database, [before])
        shelf = AShelf(Catalog(database, tmp_path / "packages"), tmp_path)
        async with database.transaction() as tx:
            # For the code of now, until the packages are there.
            await tx.execute(text("ALTER TABLE catalog_index ADD is_waiting BOOLEAN DEFAULT 0"))
            await tx.execute(text("ALTER TABLE catalog_packages ADD parents_known BOOLEAN"))
        rows = [await shelf.add("p", file=shelf.archive(f"org.acme.P{n}")) for n in range(3)]
        async with database.transaction() as tx:
            # As versions before this one did: no text waits, and the database chooses the numbers.
            await tx.execute(text("ALTER TABLE catalog_index DROP is_waiting"))
            await tx.execute(text("ALTER TABLE catalog_packages DROP parents_known"))
            await tx.execute(text("DELETE FROM catalog_index_text"))
            await tx.execute(
                text(
                    "INSERT INTO catalog_index_text (package_id, body)"
                    " SELECT package_id, full_name FROM catalog_index"
                )
            )
        await migrate(database, [MIGRATIONS])
        found = PackageQuery(catalog=True, limit=100, search=["acme.p1"])
        assert await names(shelf, user("p"), found) == ["org.acme.P1"]
        for row in rows:
            await shelf.catalog.delete(user("p"), row["id"], shelf.uses)
        async with database.read() as tx:
            left = await tx.execute(text("SELECT count(*) FROM catalog_index_text"))
            assert left.scalar_one() == 0
    finally:
        await database.close()


async def test_what_an_upload_answers_is_what_is_shown_later(shelf: Shelf, user: Any) -> None:
    """The answer is made of what was stored, also of values that JSON has no form for."""
    file = shelf.archive(classes=[f"org.acme.C{number}" for number in range(9)])
    with zipfile.ZipFile(file) as archive:
        content = {name: archive.read(name) for name in archive.namelist()}
    content["manifest.yaml"] += (
        b"Supplier: {Name: a, 5: x, CompanyUrl: {Text: 1.5, Link: {6: ~}}}\n"
    )
    with zipfile.ZipFile(file, "w") as archive:
        for name, one in content.items():
            archive.writestr(name, one)
    added = await shelf.add("p", file=file, tags=["b", "a"], description="ü")
    assert added == await shelf.catalog.show(user("p"), added["id"])
    (found,), _ = await shelf.catalog.search(user("p"), ALL)
    assert added == found
