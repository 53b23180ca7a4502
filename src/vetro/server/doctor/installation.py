"""An installation: its directories, its database, its keys, and the services that it needs."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import stat
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

from cryptography import x509
from sqlalchemy import make_url, text
from sqlalchemy.exc import SQLAlchemyError

import vetro
from vetro.http.client import SyncClient, TransportError
from vetro.messaging import Mailboxes
from vetro.server import data_directory, file_modes
from vetro.server.blobs import try_store
from vetro.server.doctor.findings import Finding, error, ok, warning
from vetro.server.errors import StartError
from vetro.server.former_doors import place_of
from vetro.server.installation import KEYS, migration_sets
from vetro.server.listeners import reachable, url_at
from vetro.server.node import mutual_tls
from vetro.server.settings import Settings
from vetro.server.starting import TO_REACH
from vetro.storage import Database, StorageError, pending_migrations, sqlite_file

#: Bytes that a disk should have free: one image of a small system.
ROOM = 2**30
CLOCKS_DIFFER = 2.0
CONNECT_SECONDS = 5.0
_DAY = 86_400


async def examine_installation(settings: Settings) -> AsyncIterator[Finding]:
    """Look at everything that the settings name."""
    for finding in await asyncio.to_thread(lambda: list(_directories(settings))):
        yield finding
    for finding in _readable_files(settings):
        yield finding
    async for finding in _database(settings):
        yield finding
    if settings.blobs.store != "directory" and settings.data_dir.is_dir():
        yield await _files(settings)
    service = await asyncio.to_thread(_service, settings)
    yield service
    if service.level == "ok":
        async for finding in _former_doors(settings):
            yield finding
    yield _dashboard()
    for finding in _certificates(settings):
        yield finding
    for subject, host, port in _named(settings):
        yield await _reached(subject, host, port)


def _directories(settings: Settings) -> Iterator[Finding]:
    places = {settings.shared_dir: "shared directory", settings.data_dir: "data directory"}
    for place, name in places.items():
        if not place.is_dir():
            yield warning(
                name, f"{place} does not exist", "The first start of 'vetro up' makes it."
            )
            continue
        owner = place.stat().st_uid
        if not os.access(place, os.R_OK | os.W_OK | os.X_OK):
            yield error(
                name, f"{place} may not be used by you", "Run it as the user of the service."
            )
            continue
        if owner != os.geteuid():
            yield warning(
                name,
                f"{place} belongs to user {owner}, and you are {os.geteuid()}",
                "Run it as the user of the service.",
            )
        if place.stat().st_mode & data_directory.OTHERS_WRITE:
            yield error(
                name,
                f"other users of this machine may write into {place}",
                f"chmod go-w {place}, or choose a directory of its own.",
            )
        loose = [str(path.relative_to(place)) for path in file_modes.open_to_others(place)]
        if loose:
            yield warning(
                name,
                f"other users of this machine can read {', '.join(loose[:5])}",
                "A start closes them; change the passwords if there are such users.",
            )
        free = shutil.disk_usage(place).free
        inodes = os.statvfs(place)
        if free < ROOM or (inodes.f_files and not inodes.f_favail):
            yield error(
                "disk",
                f"{place} has {free / 2**20:.0f} MiB and {inodes.f_favail} inodes free",
                "Make room (docs/operating.md says what lies where).",
            )
        else:
            yield ok(name, f"{place}, {free / 2**30:.1f} GiB free")


def _readable_files(settings: Settings) -> Iterator[Finding]:
    """Files outside the data directory that a start does not close: they are the operator's."""
    key = Path(settings.tls.key) if settings.tls.key else None
    for name, path in (("settings file", settings.file), ("tls.key", key)):
        if path is not None and path.is_file() and path.stat().st_mode & stat.S_IROTH:
            yield warning(
                name,
                f"other users of this machine can read {path}",
                f"If it has secrets: chmod o-r {path}; change them if there are such users.",
            )


async def _database(settings: Settings) -> AsyncIterator[Finding]:
    kept = sqlite_file(settings.database_url)
    if kept is not None and not kept.exists():
        if (settings.data_dir / "admin-openrc").exists():
            yield error(
                "database",
                f"{kept} is missing, but the rest of the installation exists",
                "Restore it: vetro restore (docs/operating.md).",
            )
        else:
            yield ok("database", "none yet: the first start makes it")
        return
    if kept is not None:
        shown = f"SQLite in {kept}"
    else:
        url = make_url(settings.database_url)
        shown = f"PostgreSQL at {url.host}/{url.database}"
    try:
        database = await Database.open(settings.database_url, use=settings.database_use)
    except (StorageError, OSError) as failed:
        yield error(
            "database",
            f"{shown} cannot be opened: {failed}",
            TO_REACH,
        )
        return
    try:
        newer, older = await pending_migrations(database, migration_sets())
        if newer:
            yield error(
                "database",
                f"{shown} belongs to a newer Vetro ({', '.join(newer)})",
                "Run that version, or restore a backup from before.",
            )
        elif older:
            yield warning(
                "database",
                f"{shown} lacks {len(older)} migrations of this version",
                "The next start makes them; 'vetro backup' before it.",
            )
        else:
            yield ok("database", shown)
        async with database.read() as tx:
            if kept is not None:
                said = (await tx.execute(text("PRAGMA quick_check(1)"))).scalar_one()
                if said != "ok":
                    yield error(
                        "database", f"it is damaged: {said}", "Stop, and 'vetro restore' a backup."
                    )
            else:
                query = text("SELECT extract(epoch FROM clock_timestamp())")
                apart = abs(float((await tx.execute(query)).scalar_one()) - time.time())
                if apart > CLOCKS_DIFFER:
                    yield warning(
                        "clock",
                        f"this machine's clock and the database's are {apart:.0f} s apart",
                        "Let both be set by NTP (chrony, systemd-timesyncd).",
                    )
    except StorageError as failed:
        yield error("database", f"{shown}: {failed}", "See the database's log.")
    finally:
        await database.close()
    if not (settings.shared_dir / KEYS).exists():
        yield error(
            "keys",
            f"{settings.shared_dir / KEYS} is gone: secrets in the database cannot be read",
            "Restore it from a backup (docs/secrets.md), or set server.shared_dir.",
        )


async def _files(settings: Settings) -> Finding:
    """Whether the store of files takes a file and gives it back."""
    with TemporaryDirectory(dir=settings.data_dir, prefix=".doctor-") as place:
        why = await try_store(settings, Path(place) / "probe")
    if not why:
        return ok("files", f"kept in: {settings.blobs.store} (written, read, removed)")
    return error(
        "files",
        f"packages and images cannot be stored or read: {why}",
        "See [blobs] in docs/settings.md: the address, the bucket, its keys and their rights.",
    )


def _service(settings: Settings) -> Finding:
    """Whether the service of these settings runs and is ready; or whether its port is free."""
    url = url_at(reachable(settings.server.host), settings.server.port)
    client = SyncClient(timeout_seconds=CONNECT_SECONDS)
    try:
        answer = client.request("GET", f"{url}/readyz")
    except TransportError:
        return _stopped(settings, url)
    finally:
        client.close()
    if answer.status == 200:
        return ok("service", f"ready at {url}")
    if answer.status == 503:
        return error("service", f"{url} is not ready: {answer.text.strip()}", "See its log.")
    return error(
        "service",
        f"something that is not Vetro answers at {url} ({answer.status})",
        "Choose another port: server.port.",
    )


def _stopped(settings: Settings, url: str) -> Finding:
    if not settings.data_dir.is_dir():
        return ok("service", "not started yet")
    try:
        data_directory.lock(settings.data_dir).close()
    except (StartError, OSError) as held:
        return error(
            "service",
            f"does not answer at {url}: {held}",
            "See its log; the settings may name another address than the one it has.",
        )
    return warning("service", f"does not run: nothing answers at {url}", "Start it: vetro up.")


async def _former_doors(settings: Settings) -> AsyncIterator[Finding]:
    """Doors where machines come to their mailboxes, and nobody answers; the service runs."""
    try:
        database = await Database.open(settings.database_url, use=settings.database_use)
    except (StorageError, OSError):
        return  # the finding about the database says so
    try:
        doors = await Mailboxes(database).doors()
    except SQLAlchemyError:
        return  # of another version, which the finding about the database says
    finally:
        await database.close()
    for door, count in doors.items():
        place = place_of(door)
        if place is None:
            continue  # a name, which leads to who knows what
        found = await _reached("mailboxes", *place)
        machines = "1 machine comes" if count == 1 else f"{count} machines come"
        if found.level == "ok":
            yield ok("mailboxes", f"{door} answers: {machines} there")
        else:
            yield warning(
                "mailboxes",
                f"{machines} to {door}, where nobody answers",
                "Start vetro up where it was, or free the port for it, and deploy their environments once.",
            )


def _dashboard() -> Finding:
    if (Path(vetro.__file__).parent / "_dashboard/index.html").exists():
        return ok("dashboard", "built")
    return warning(
        "dashboard", "not built: /dashboard/ says how", "With Node 18 or newer: make dashboard."
    )


def _certificates(settings: Settings) -> Iterator[Finding]:
    try:
        tls = mutual_tls(settings.tls)
    except StartError as wrong:
        yield error("tls", str(wrong), wrong.hint or "docs/compute/node.md")
        return
    if tls is None:
        return
    own = x509.load_pem_x509_certificate(tls.certificate.read_bytes())
    left = own.not_valid_after_utc.timestamp() - time.time()
    if left < 0:
        yield error("tls", f"{settings.tls.certificate} has expired", "Make a new certificate.")
    elif left < 30 * _DAY:
        yield warning(
            "tls",
            f"{settings.tls.certificate} expires in {left / _DAY:.0f} days",
            "Make a new certificate in time.",
        )
    else:
        yield ok("tls", f"the certificate is valid for {left / _DAY:.0f} days")


def _named(settings: Settings) -> Iterator[tuple[str, str, int]]:
    """The other services that the settings name: subject, host, port."""
    if settings.rabbitmq.host:
        yield "rabbitmq.host", settings.rabbitmq.host, settings.rabbitmq.port
        if settings.rabbitmq.management_url:
            yield _place("rabbitmq.management_url", settings.rabbitmq.management_url)
    if settings.identity.url:
        yield _place("identity.url", settings.identity.url)


def _place(subject: str, url: str) -> tuple[str, str, int]:
    parts = urlsplit(url)
    return subject, parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)


async def _reached(subject: str, host: str, port: int) -> Finding:
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            _reader, writer = await asyncio.open_connection(host, port)
    except (OSError, TimeoutError, socket.gaierror) as failed:
        why = "no answer" if isinstance(failed, TimeoutError) else failed.strerror or str(failed)
        return error(
            subject, f"{host}:{port} cannot be reached: {why}", "Is it up, and the address right?"
        )
    writer.close()
    return ok(subject, f"{host}:{port} answers")
