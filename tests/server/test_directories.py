"""A directory that takes no files any more: what needs it is refused, readiness names it."""

from __future__ import annotations

import secrets
import shutil
import zipfile
from collections.abc import Callable
from io import BytesIO
from pathlib import Path

import pytest

from vetro.blobs import BLOB_SUFFIXES
from vetro.http.client import Response
from vetro.server import data_directory
from vetro.server.readiness import Readiness
from vetro.server.settings import load_settings

from .access_table import Place, archive, image, package
from .test_access import place  # noqa: F401 a fixture

pytestmark = pytest.mark.usefixtures("quick_passwords")
Harm = Callable[[Path], None]


def removed(directory: Path) -> None:
    """It was removed by hand, or its disk is not mounted."""
    shutil.rmtree(directory)


def blocked(directory: Path) -> None:
    """Something else has its name."""
    removed(directory)
    directory.write_text("")


def closed(directory: Path) -> None:
    """Nobody may write there, root neither."""
    removed(directory)
    directory.symlink_to("/sys")


def large(name: str) -> bytes:
    """A package that is no small upload."""
    buffer = BytesIO(archive(name))
    with zipfile.ZipFile(buffer, "a") as opened:
        opened.writestr("Resources/weight.bin", secrets.token_bytes(100_000))
    return buffer.getvalue()


@pytest.mark.parametrize("happens", [removed, blocked, closed])
async def test_what_needs_a_directory_that_takes_nothing_is_refused(
    place: Place,  # noqa: F811
    happens: Harm,
) -> None:
    """503 that says which and why, and no record of it stays; nothing is made in its place."""
    data = place.file.parent
    made = await package(place)
    pictured = (await image(public=True)(place))["uuid"]
    fresh = await place.ok("root", "POST", "/compute/images", {"name": "new", "public": True})
    before = place.rows()
    for name in ("packages", "images"):
        happens(data / name)
    answers = {
        "small": await upload(place, archive("own.Small")),
        "large": await upload(place, large("own.Large")),
        "checked": await upload(place, large("own.Checked"), "/v1/catalog/checks"),
        "import": await place.call("ann", "POST", "/v1/catalog/imports", {"name": "own.None"}),
        "bundle": await place.call("ann", "POST", "/v1/catalog/bundles", {"source": "none"}),
        "image": await place.call(
            "root", "PUT", f"/compute/images/{fresh['uuid']}/file", b"data"
        ),
    }  # fmt: skip
    if happens is not closed:  # there it is only this file that is missing: 404
        path = f"/v1/catalog/packages/{made['package_id']}/download"
        answers["download"] = await place.call("ann", "GET", path)
        answers["its file"] = await place.call("root", "GET", f"/compute/images/{pictured}/file")
    assert {name: one.status for name, one in answers.items()} == dict.fromkeys(answers, 503)
    for name, answer in answers.items():
        wanted = "images" if name in ("image", "its file") else "packages"
        assert f"cannot use its files in {wanted} (" in answer.text, name
        assert "nothing of this request was stored" in answer.text
    assert place.rows() == before
    assert (data / "packages").is_dir() is (happens is closed)
    assert (await place.call("ann", "GET", "/v1/catalog/packages")).status == 200
    if happens is removed:
        data_directory.prepare(data)
        assert (await upload(place, archive("own.Small"))).status == 200


async def upload(place: Place, content: bytes, path: str = "/v1/catalog/packages") -> Response:  # noqa: F811
    """The answer to a package."""
    return await place.http.request(
        "POST", path, files=[("m", (None, "{}")), ("a", ("a.zip", content))],
        headers={"X-Auth-Token": place.tokens["ann"]},
    )  # fmt: skip


@pytest.mark.parametrize("happens", [removed, blocked, closed])
async def test_readiness_names_each_directory_that_takes_nothing(
    tmp_path: Path, happens: Harm
) -> None:
    """With the reason; once it is back, nothing is missing."""
    data, shared = tmp_path / "data", tmp_path / "shared"
    settings = load_settings(
        {"server.data_dir": str(data), "server.shared_dir": str(shared)}, environ={}
    )
    data_directory.prepare(data, shared)
    missing = Readiness(settings, None, BLOB_SUFFIXES, has_node=True)
    assert await missing() == {}
    for directory in (
        data / "node", data / "notify", shared / "packages", shared / "images",
        shared / "volume-backups", shared, data,
    ):  # fmt: skip
        happens(directory)
        said = (await missing())["files"]
        assert f"{directory} cannot be written: " in said
        assert "refused (503)" in said
        if happens is not removed:
            directory.unlink()
        data_directory.prepare(data, shared)
        assert await missing() == {}


@pytest.mark.parametrize("store", ["s3", "database"])
async def test_a_process_is_ready_with_the_copies_that_it_makes(tmp_path: Path, store: str) -> None:
    """Of files elsewhere each process keeps copies of some purposes or of none; what it had is named."""
    data, shared = tmp_path / "data", tmp_path / "shared"
    settings = load_settings(
        {
            "server.data_dir": str(data), "server.shared_dir": str(shared), "blobs.store": store,
            "blobs.bucket": "vetro", "blobs.endpoint": "http://127.0.0.1:9",
        },
        environ={},
    )  # fmt: skip
    data_directory.prepare(data, shared)
    missing = Readiness(settings, None, ("images", "volume-backups"))
    blocked(data / "node")  # another user's, as whose the node runs
    blocked(shared)  # only keys are there, which are read
    assert await missing() == {}
    images = settings.blob_directory("images")
    images.mkdir(parents=True)
    assert await missing() == {}
    removed(images)
    assert f"{images} cannot be written: " in (await missing())["files"]
