"""Stores of files: in a directory, in the database, in a bucket of an S3-compatible store."""

import asyncio
import errno
import hashlib
import os
import secrets
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import func, select

from vetro.blobs import (
    MIGRATIONS,
    BlobMissing,
    BlobsFull,
    BlobsSection,
    BlobStore,
    BlobsUnavailable,
    DirectoryBlobs,
    open_blobs,
)
from vetro.blobs.in_database import AT_ONCE, PART_BYTES
from vetro.blobs.tables import blob_parts, blobs
from vetro.storage import Database, ManualClock, migrate

S3 = os.environ.get("VETRO_TEST_S3_URL")
DAY = 86_400.0
Machine = Callable[[str], BlobStore]


def section(store: str, endpoint: str = "http://127.0.0.1:1") -> BlobsSection:
    """The settings of a store; each has names of its own in the bucket."""
    return BlobsSection(
        store=store,
        bucket="vetro",
        prefix=f"tests/{secrets.token_hex(8)}",
        endpoint=endpoint,
        access_key="S3RVER",
        secret_key="S3RVER",
    )


@pytest.fixture
def clock() -> ManualClock:
    """A clock that tests move."""
    return ManualClock()


@pytest.fixture
async def database(database_url: str, clock: ManualClock) -> AsyncGenerator[Database]:
    """A database with the tables of files."""
    opened = await Database.open(database_url, clock=clock)
    await migrate(opened, [MIGRATIONS])
    yield opened
    await opened.close()


@pytest.fixture(params=["directory", "database", pytest.param("s3", marks=pytest.mark.s3)])
def kind(request: pytest.FixtureRequest) -> str:
    """Every kind of store."""
    if request.param == "s3" and S3 is None:
        pytest.skip("VETRO_TEST_S3_URL is not set; tools/with-s3.sh sets it")
    return str(request.param)


@pytest.fixture
def machine(kind: str, database: Database, tmp_path: Path) -> Machine:
    """The store as services on one database have it, each on its machine."""
    given = section(kind, S3 or "")

    def opened(name: str) -> BlobStore:
        # What is in a directory is shared.
        directory = tmp_path / ("shared" if kind == "directory" else name)
        return open_blobs(given, "packages", directory, database)

    return opened


async def add(store: BlobStore, content: bytes, name: str = "") -> str:
    """Add a file that was uploaded; its digest."""
    digest = hashlib.sha256(content).hexdigest()
    upload = store.directory / f"upload-{secrets.token_hex(4)}"
    upload.touch(mode=0o600)
    upload.write_bytes(content)
    await store.adopt(upload, name or f"{digest}.zip", sha256=digest)
    assert not upload.exists()
    return digest


async def test_a_file_is_read_on_another_machine(machine: Machine) -> None:
    """What one service adopted another one fetches, byte for byte, and lists; removed, it is in no store."""
    here, there = machine("one"), machine("two")
    content = secrets.token_bytes(PART_BYTES * AT_ONCE + PART_BYTES // 2)
    digest = await add(here, content)
    name = f"{digest}.zip"
    empty = await add(here, b"")
    for store in (here, there):
        assert (await store.fetch(name, sha256=digest)).read_bytes() == content
        assert (await store.fetch(f"{empty}.zip", sha256=empty)).read_bytes() == b""
        assert await store.exists(name)
        found = {one.name: one.bytes for one in await store.listing()}
        assert found == {name: len(content), f"{empty}.zip": 0}
    assert (await there.fetch(name, sha256=digest)).stat().st_mode & 0o077 == 0
    target = there.directory / ".copied"
    await there.copy_to(name, target)
    assert target.read_bytes() == content
    await here.remove(name)
    await here.remove(name)
    assert not await there.exists(name)
    assert [one.name for one in await there.listing()] == [f"{empty}.zip"]
    with pytest.raises(BlobMissing, match=name):
        await there.copy_to(name, target.with_name(".again"))


async def test_a_small_file_is_stored_by_its_content(machine: Machine) -> None:
    """Content is stored like a file, also where it is already; nothing else stays in the directory."""
    here, there = machine("one"), machine("two")
    content = b"a small archive"
    digest = hashlib.sha256(content).hexdigest()
    for _ in range(2):
        await here.add(content, f"{digest}.zip", sha256=digest)
    await here.add(b"of any name", "other.zip")
    assert (await there.fetch(f"{digest}.zip", sha256=digest)).read_bytes() == content
    assert (await there.fetch("other.zip")).read_bytes() == b"of any name"
    assert {one.name for one in await here.listing()} == {f"{digest}.zip", "other.zip"}
    assert not [path.name for path in here.directory.iterdir() if path.name.startswith(".")]


async def test_half_of_a_small_file_is_replaced(tmp_path: Path) -> None:
    """What a process that was killed left under the name of a digest is not taken for the whole."""
    store = DirectoryBlobs(tmp_path, ".zip")
    content = b"a small archive"
    digest = hashlib.sha256(content).hexdigest()
    store.path(f"{digest}.zip").write_bytes(content[:5])
    await store.add(content, f"{digest}.zip", sha256=digest)
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [content]


async def test_a_small_file_for_a_full_disk_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No part of a file stays that the disk has no room for; HTTP faces answer such an error with 507."""

    def full(_descriptor: int, _content: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    store = DirectoryBlobs(tmp_path, ".zip")
    monkeypatch.setattr(os, "write", full)
    with pytest.raises(OSError, match="No space left on device"):
        await store.add(b"content", "a.zip", sha256="d" * 64)
    assert list(tmp_path.iterdir()) == []


async def test_a_file_that_was_replaced_is_fetched_again(machine: Machine) -> None:
    """A copy of the older content is not taken for the newer one."""
    here, there = machine("one"), machine("two")
    older = await add(here, b"older", "image.zip")
    assert (await there.fetch("image.zip", sha256=older)).read_bytes() == b"older"
    newer = await add(here, b"newer", "image.zip")
    assert (await there.fetch("image.zip", sha256=newer)).read_bytes() == b"newer"
    assert (await there.fetch("image.zip")).read_bytes() == b"newer"


@pytest.mark.parametrize("kind", ["database"], indirect=True)
async def test_a_file_in_the_database_is_there_with_its_row(
    machine: Machine, database: Database
) -> None:
    """A transaction that is rolled back leaves no file; one that is committed keeps it."""
    store = machine("one")
    upload = store.directory / "upload"
    upload.write_bytes(b"content")
    with pytest.raises(RuntimeError, match="on purpose"):
        async with database.transaction() as tx:
            await store.adopt(upload, "a.zip", sha256="d" * 64, tx=tx)
            raise RuntimeError("on purpose")
    assert not await store.exists("a.zip")
    async with database.transaction() as tx:
        digest = await add_in(tx, store, b"content")
        assert (await machine("two").fetch("a.zip", sha256=digest, tx=tx)).exists()
    assert await store.exists("a.zip")
    async with database.transaction() as tx:
        await store.remove("a.zip", tx=tx)
    async with database.read() as tx:
        assert (await tx.execute(select(func.count()).select_from(blob_parts))).scalar_one() == 0


async def add_in(tx: object, store: BlobStore, content: bytes) -> str:
    """Add a file in a transaction."""
    digest = hashlib.sha256(content).hexdigest()
    upload = store.directory / "upload"
    upload.write_bytes(content)
    await store.adopt(upload, "a.zip", sha256=digest, tx=tx)  # pyright: ignore[reportArgumentType]
    return digest


@pytest.mark.parametrize("kind", ["database"], indirect=True)
async def test_parts_of_interrupted_uploads_are_discarded(
    machine: Machine, database: Database, clock: ManualClock
) -> None:
    """Parts that belong to no file go after a day; those of files and of uploads that run stay."""
    store = machine("one")
    kept = await add(store, b"kept")
    async with database.transaction() as tx:
        await tx.execute(blobs.delete().where(blobs.c.key == "none"))
        for name in ("old", "new"):
            if name == "new":
                clock.advance(DAY + 1)
            row = {"content_id": name, "number": 0, "content": b"?", "stored": clock.now()}
            await tx.execute(blob_parts.insert(), [row])
    assert await store.discard_unfinished(DAY) == 1
    async with database.read() as tx:
        left = {one for (one,) in await tx.execute(select(blob_parts.c.content_id))}
    assert "new" in left
    assert "old" not in left
    assert (await machine("two").fetch(f"{kept}.zip", sha256=kept)).read_bytes() == b"kept"


@pytest.mark.parametrize("kind", ["database"], indirect=True)
async def test_copies_make_room_for_others(
    machine: Machine, database: Database, tmp_path: Path
) -> None:
    """Beyond the limit the copies that were not used for longest are removed; those in use stay."""
    digests = [await add(machine("one"), bytes([number]) * 2**19) for number in range(4)]
    limited = replace(section("database"), cache_mib=1)
    store = open_blobs(limited, "packages", tmp_path / "small", database)
    for age, digest in zip((9000, 7200, 60), digests, strict=False):
        path = await store.fetch(f"{digest}.zip", sha256=digest)
        os.utime(path, (time.time() - age, time.time() - age))
    await store.fetch(f"{digests[3]}.zip", sha256=digests[3])
    left = {path.stem for path in (tmp_path / "small").glob("*.zip")}
    assert left == {digests[2], digests[3]}
    assert (await store.fetch(f"{digests[0]}.zip", sha256=digests[0])).exists()


@pytest.mark.parametrize(
    "kind", ["database", pytest.param("s3", marks=pytest.mark.s3)], indirect=True
)
async def test_a_damaged_file_is_refused(machine: Machine) -> None:
    """Content that has another digest than its row says is not used; the error says so."""
    here, there = machine("one"), machine("two")
    upload = here.directory / "upload"
    upload.write_bytes(b"other")
    wanted = hashlib.sha256(b"wanted").hexdigest()
    await here.adopt(upload, f"{wanted}.zip")
    with pytest.raises(BlobMissing, match=f"is damaged: its SHA-256 is .*, not {wanted}: restore"):
        await there.fetch(f"{wanted}.zip", sha256=wanted)
    assert list(there.directory.iterdir()) == []


@pytest.mark.parametrize(
    "kind", ["database", pytest.param("s3", marks=pytest.mark.s3)], indirect=True
)
async def test_those_who_want_one_file_at_once_fetch_it_once(machine: Machine) -> None:
    """Ten readers at once get the same file, whole."""
    content = secrets.token_bytes(2**20)
    digest = await add(machine("one"), content)
    store = machine("two")
    paths = await asyncio.gather(*(store.fetch(f"{digest}.zip", sha256=digest) for _ in range(10)))
    assert {path.read_bytes() for path in paths} == {content}


@asynccontextmanager
async def answering(status: str, body: str) -> AsyncGenerator[str]:
    """A store that gives every request one answer; its address."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = [line for line in head.decode().lower().split("\r\n") if "content-length" in line]
        if length:
            await reader.readexactly(int(length[0].split(":")[1]))
        said = (
            f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n{body}"
        )
        writer.write(said.encode())
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"


@pytest.mark.parametrize(
    ("status", "body", "error", "said"),
    [
        ("507 Insufficient Storage", "", BlobsFull, "has no room for packages/a.zip"),
        ("403 Forbidden", "<Error><Code>QuotaExceeded</Code></Error>", BlobsFull, "has no room"),
        (
            "403 Forbidden",
            "<Error><Code>AccessDenied</Code></Error>",
            BlobsUnavailable,
            "AccessDenied",
        ),
        ("404 Not Found", "<Error><Code>NoSuchBucket</Code></Error>", BlobMissing, "has no file"),
    ],
)
async def test_errors_of_a_bucket_say_what_and_where(
    status: str,
    body: str,
    error: type[Exception],
    said: str,
    database: Database,
    tmp_path: Path,
) -> None:
    """A full bucket, refused rights and a missing bucket name the bucket, its address and the reason."""
    async with answering(status, body) as endpoint:
        store = open_blobs(section("s3", endpoint), "packages", tmp_path / "here", database)
        upload = store.directory / "upload"
        upload.write_bytes(b"content")
        with pytest.raises(error, match=f"the bucket vetro at {endpoint}") as caught:
            await store.adopt(upload, "a.zip", sha256="d" * 64)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
    assert [path.name for path in store.directory.iterdir()] == ["upload"]


async def test_a_store_that_is_away_is_a_connection_error(
    database: Database, tmp_path: Path
) -> None:
    """HTTP faces answer 503 for it; copies that are there are read all the same."""
    store = open_blobs(section("s3"), "packages", tmp_path / "here", database)
    digest = hashlib.sha256(b"here").hexdigest()
    (tmp_path / "here" / f"{digest}.zip").write_bytes(b"here")
    assert (await store.fetch(f"{digest}.zip", sha256=digest)).read_bytes() == b"here"
    with pytest.raises(
        ConnectionError, match="the bucket vetro at http://127.0.0.1:1 cannot be used"
    ):
        await store.exists("other.zip")
