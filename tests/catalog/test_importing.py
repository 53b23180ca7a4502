"""What an import takes from a repository and from addresses, without the service around it."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.shelf import Shelf as Repository

from vetro.catalog.importing import Imports, Sources
from vetro.http import BadRequest, NotFound

Shelf = Any  # the fixture of conftest.py


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    """An empty repository behind an address."""
    (tmp_path / "repository").mkdir()
    made = Repository(tmp_path / "repository")
    yield made
    made.close()


@pytest.fixture
def imports(shelf: Shelf, repository: Repository) -> Imports:
    """Imports from the repository."""
    return Imports(shelf.catalog, Sources(repository.url), 10**6)


def results(answer: Any) -> list[tuple[str, str]]:
    """Name and result of each outcome."""
    return [(one["name"], one["result"]) for one in answer["outcomes"]]


async def test_a_package_is_added_once(
    imports: Imports, repository: Repository, shelf: Shelf, user: Any
) -> None:
    """With its images and categories; the second time it is known, and nothing is left on disk."""
    images = "Images: [{Name: big, DiskFormat: qcow2, ContainerFormat: bare}]"
    repository.add("org.a", "1.2.0", images=images)
    body = {"name": "org.a", "version": "1.2.0"}
    added = await imports.run(user("p"), body, may_publish=False)
    (one,) = added["outcomes"]
    assert (one["result"], one["images"]) == ("imported", ["big"])
    assert results(await imports.run(user("p"), body, may_publish=False)) == [("org.a", "known")]
    assert shelf.kept() == 1


async def test_what_is_required_comes_first(
    imports: Imports, repository: Repository, user: Any
) -> None:
    """What is there is not fetched, what every engine has neither, and what is nowhere is said."""
    repository.add("org.a", "1.2.0")
    repository.add("org.b", "1.0.0", org_a="=1.2.0", io_murano="0", org_none="0")
    body = {"name": "org.b", "version": "1.0.0"}
    assert results(await imports.run(user("p"), body, may_publish=False)) == [
        ("org.none", "missing"),
        ("org.a", "imported"),
        ("org.b", "imported"),
    ]
    again = await imports.run(user("p"), body, may_publish=False)
    assert ("org.a", "imported") not in results(again)


async def test_a_user_imports_from_the_repository_only(
    imports: Imports, repository: Repository, user: Any
) -> None:
    """Another address is refused with what to do; an operator may name any."""
    address = f"{repository.url.replace('127.0.0.1', 'localhost')}/apps/org.a.1.2.0.zip"
    repository.add("org.a", "1.2.0")
    (refused,) = (await imports.run(user("p"), {"url": address}, may_publish=False))["outcomes"]
    assert refused["result"] == "failed"
    assert "only an operator may import from there" in refused["reason"]
    assert imports.described(user("p")) == {"url": repository.url, "any_address": False}
    operator = user("o", admin=True)
    assert imports.described(operator)["any_address"] is True
    assert results(await imports.run(operator, {"url": address}, may_publish=True)) == [
        ("org.a", "imported")
    ]


@pytest.mark.parametrize(
    ("sources", "address", "allowed"),
    [
        (Sources("http://r"), "http://r/apps/a.zip", True),
        (Sources("http://r/"), "http://r/apps/a.zip", True),
        (Sources("http://r"), "http://r.evil/a.zip", False),
        (Sources("http://r/x"), "http://r/x/../secret", False),
        (Sources("http://r/x"), "http://r/x/%2E%2e/secret", False),
        (Sources("", ("http://m/",)), "http://m/a.zip", True),
        (Sources("", ("http://m",)), "http://m.evil/a.zip", False),
        (Sources(), "http://r/a.zip", False),
    ],
)
def test_addresses_below_what_is_allowed(sources: Sources, address: str, allowed: bool) -> None:
    """Of the repository, or of a listed beginning that ends with a slash; never out of it."""
    assert sources.allows(address) is allowed


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "Give the name of a package"),
        ({"name": "a", "version": ">>1"}, "version: "),
        ({"name": 5}, "The body is wrong"),
        ({"name": "a", "other": 1}, "The body is wrong"),
        ([], "The body is wrong"),
    ],
)
async def test_bodies_that_say_nothing(imports: Imports, user: Any, body: Any, said: str) -> None:
    """They are refused with what is missing or wrong."""
    with pytest.raises(BadRequest, match=said):
        await imports.run(user("p"), body, may_publish=False)


async def test_bundles_are_read(imports: Imports, repository: Repository, user: Any) -> None:
    """From text and by name; both at once, none, a missing and a broken one are refused."""
    text = '{"Packages": [{"Name": "org.a", "Version": "1.2.0"}]}'
    (repository.directory / "bundles").mkdir()
    (repository.directory / "bundles" / "all.bundle").write_text(text)
    for body in ({"text": text}, {"source": "all"}):
        found = await imports.bundle(user("p"), body)
        assert [one["name"] for one in found["packages"]] == ["org.a"]
    for body in ({}, {"text": text, "source": "all"}):
        with pytest.raises(BadRequest, match="Give either text or source"):
            await imports.bundle(user("p"), body)
    with pytest.raises(NotFound, match="The bundle cannot be fetched: .*404"):
        await imports.bundle(user("p"), {"source": "other"})
    with pytest.raises(BadRequest, match="The bundle cannot be read"):
        await imports.bundle(user("p"), {"text": "{"})
