"""Importing packages from a repository: what the service fetches, for whom, and what comes of it."""

from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.shelf import Shelf

from vetro.catalog import Catalog, Sources
from vetro.environments import ApiSection, environments_face
from vetro.http import assemble
from vetro.http.client import HttpClient

from .conftest import Api, Users


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    """An empty repository."""
    (tmp_path / "repository").mkdir()
    made = Shelf(tmp_path / "repository")
    yield made
    made.close()


@pytest.fixture
async def shop(api: Api, shelf: Shelf, tmp_path: Path) -> AsyncGenerator[Api]:
    """The API with this repository."""
    face = environments_face(
        Catalog(api.database, tmp_path / "archives"),
        api.rooms.tasks,
        Users(),
        api=ApiSection(repository_url=shelf.url),
    )
    assembly = assemble([face])
    async with assembly.running(), HttpClient(app=assembly, base_url="http://shop") as http:
        yield Api(http, api.database, api.rooms)


async def imported(api: Api, body: dict[str, Any], user: str = "ann") -> list[tuple[str, str]]:
    """Name and result of each outcome."""
    answer = await api.call("POST", "/catalog/imports", body, user=user)
    assert answer.status == 200, answer.text
    return [(one["name"], one["result"]) for one in answer.json()["outcomes"]]


async def test_a_package_comes_with_what_it_requires(
    shop: Api, shelf: Shelf, tmp_path: Path
) -> None:
    """Requirements first; what is there is not fetched again; what is missing is said."""
    shelf.add(
        "org.a", "1.2.0", images="Images: [{Name: big, DiskFormat: qcow2, ContainerFormat: bare}]"
    )
    shelf.add("org.b", "1.0.0", org_a=">=1.0", io_murano="0", org_none="0")
    assert (await shop.call("GET", "/catalog/repository")).json() == {
        "url": shelf.url, "any_address": False,
    }  # fmt: skip
    body = {"name": "org.b", "version": "=1.0.0"}
    answer = (await shop.call("POST", "/catalog/imports", body)).json()["outcomes"]
    # Without an index only the exact version of a requirement has a file.
    assert [(one["name"], one["result"]) for one in answer] == [
        ("org.a", "missing"), ("org.none", "missing"), ("org.b", "imported"),
    ]  # fmt: skip
    (first,) = (
        await shop.call("POST", "/catalog/imports", {"name": "org.a", "version": "1.2.0"})
    ).json()["outcomes"]
    assert (first["result"], first["images"]) == ("imported", ["big"])
    assert await imported(shop, body) == [("org.none", "missing"), ("org.b", "known")]
    assert [path.suffix for path in (tmp_path / "archives").iterdir()] == [".zip", ".zip"]


async def test_a_bundle_is_read(shop: Api, shelf: Shelf) -> None:
    """By its text, its name and its address; entries that are none are said."""
    text = '{"Packages": [{"Name": "org.a", "Version": "1.2.0"}, {"Version": "1"}]}'
    (shelf.directory / "bundles").mkdir()
    (shelf.directory / "bundles" / "all.bundle").write_text(text)
    wanted = [{"name": "org.a", "version": "1.2.0", "url": None, "sha256": None}]
    for body in ({"text": text}, {"source": "all"}, {"source": f"{shelf.url}/bundles/all.bundle"}):
        answer = await shop.call("POST", "/catalog/bundles", body)
        assert answer.json()["packages"] == wanted, answer.text
        assert "package 2 has no Name" in answer.json()["skipped"][0]


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("bundles", {}, 400),
        ("bundles", {"text": "x", "source": "y"}, 400),
        ("bundles", {"text": "{"}, 400),
        ("bundles", {"text": "Packages: 1"}, 400),
        ("bundles", {"text": 1}, 400),
        ("bundles", {"source": "../../etc/passwd"}, 404),
        ("bundles", {"source": "none"}, 404),
        ("imports", [], 400),
        ("imports", {"name": 3}, 400),
        ("imports", {}, 400),
        ("imports", {"name": "org.a", "version": "what?"}, 400),
        ("imports", {"name": "org.a", "more": 1}, 400),
    ],
)
async def test_bad_requests_are_refused(shop: Api, path: str, body: Any, status: int) -> None:
    """With a reason, and never by a failure of the service."""
    answer = await shop.call("POST", f"/catalog/{path}", body)
    assert answer.status == status, answer.text


async def test_only_operators_fetch_from_anywhere(shop: Api, api: Api, shelf: Shelf) -> None:
    """An address elsewhere is refused; so is an archive that is another package or has another hash."""
    shelf.add("org.a", "1.2.0")
    inside = f"{shelf.url}/apps/org.a.1.2.0.zip"
    outside = inside.replace("127.0.0.1", "localhost")
    for url in (outside, f"{shelf.url}/apps/%2e%2e/apps/org.a.1.2.0.zip", "file:///etc/passwd"):
        answer = await shop.call("POST", "/catalog/imports", {"name": "org.a", "url": url})
        (outcome,) = answer.json()["outcomes"]
        assert outcome["result"] == "failed"
    for body in (
        {"name": "org.b", "url": inside},
        {"name": "org.a", "url": inside, "sha256": "0" * 64},
        {"name": "org.a", "url": inside, "version": ">=2"},
        {"name": "a/b"},
    ):
        assert (await imported(shop, body))[0][1] == "failed"
    assert await imported(shop, {"name": "org.a", "url": outside}, "root") == [
        ("org.a", "imported")
    ]
    assert await imported(shop, {"name": "org.a", "url": inside, "is_public": True}) == [
        ("org.a", "failed")
    ]
    # Without a repository, too.
    (none,) = (await api.call("POST", "/catalog/imports", {"name": "x"})).json()["outcomes"]
    assert "no repository of packages is set" in none["reason"]


def test_allowed_addresses_end_at_a_border() -> None:
    """A beginning is one of whole parts: another host or directory does not begin like it."""
    sources = Sources(
        "http://good.example/repo", ("https://more.example/x/", "https://half.example")
    )
    assert sources.allows("http://good.example/repo/apps/a.zip")
    assert sources.allows("https://more.example/x/a.zip")
    for address in (
        "http://good.example/repository/a.zip", "http://good.example.evil/repo/a.zip",
        "http://good.example/repo/../secret", "https://half.example/a", "https://half.example.evil/",
    ):  # fmt: skip
        assert not sources.allows(address)
