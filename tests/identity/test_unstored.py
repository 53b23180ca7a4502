"""Logging in while the database takes nothing: the token says itself what it is good for."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import delete, text, update
from sqlalchemy.engine import make_url

from vetro.http import Unauthorized
from vetro.identity import MIGRATIONS, Identity, IdentitySection, tables, unstored
from vetro.identity.login import Login
from vetro.storage import (
    Database,
    DatabaseFull,
    DatabaseReadOnly,
    Keyring,
    ManualClock,
    migrate,
)

PASSWORD = "a long password"
ADMIN = {"name": "admin", "domain": {"id": "default"}, "password": PASSWORD}
SCOPE = {"project": {"name": "admin", "domain": {"id": "default"}}}
BODY = {"auth": {"identity": {"methods": ["password"], "password": {"user": ADMIN}},
                 "scope": SCOPE}}  # fmt: skip


class Place:
    """An identity service of two processes on one database."""

    def __init__(self, file: Path, first: Database, second: Database) -> None:
        self.file = file
        self.first = first
        self.logins = [Login(one, Identity(one).tokens, []) for one in (first, second)]
        self.tokens = [one.tokens for one in self.logins]

    def gone(self) -> None:
        """From now on nothing can be stored."""
        self.file.rename(self.file.with_name("gone.db"))

    def back(self) -> None:
        """The file is there again."""
        self.file.with_name("gone.db").rename(self.file)

    async def log_in(self, body: Any = BODY) -> str:
        """A token from the first process."""
        return (await self.logins[0].log_in(body, "here"))[0]


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    """An administrator on a disk that has room."""
    keyring = Keyring(tmp_path / "keys")
    keyring.create()
    clock = ManualClock(datetime.now(UTC))
    url = f"sqlite:///{tmp_path}/vetro.db"
    opened = [await Database.open(url, keyring=keyring, clock=clock) for _ in range(2)]
    await migrate(opened[0], [MIGRATIONS])
    settings = IdentitySection(admin_password=PASSWORD)
    await Identity(opened[0], settings).bootstrap_admin()
    yield Place(tmp_path / "vetro.db", *opened)
    for one in opened:
        await one.close()


async def test_a_token_that_cannot_be_stored_is_known_to_every_process(place: Place) -> None:
    """It is good for minutes, for what its user may, and begets no longer life."""
    place.gone()
    token = await place.log_in()
    for tokens in place.tokens:
        principal = await tokens.authenticate(token)
        assert principal is not None
        assert (principal.user_name, principal.project_name) == ("admin", "admin")
        assert principal.is_admin
    again = {"auth": {"identity": {"methods": ["token"], "token": {"id": token}}, "scope": SCOPE}}
    place.first.clock.advance(unstored.LIFETIME.total_seconds() - 60)  # type: ignore[attr-defined]
    second = await place.log_in(again)
    assert await place.tokens[1].authenticate(second) is not None
    place.first.clock.advance(61)  # type: ignore[attr-defined]
    for one in (token, second):
        for tokens in place.tokens:
            assert await tokens.authenticate(one) is None


async def test_a_full_disk_lets_people_log_in(place: Place) -> None:
    """Other writes are refused meanwhile."""
    async with place.first.transaction() as tx:
        pages = (await tx.execute(text("PRAGMA page_count"))).scalar_one()
        await tx.execute(text(f"PRAGMA max_page_count={pages}"))
    with pytest.raises(DatabaseFull):
        async with place.first.transaction() as tx:
            await tx.execute(text("CREATE TABLE more (x)"))
            await tx.execute(text("INSERT INTO more VALUES (zeroblob(100000))"))
    for _ in range(30):
        token = await place.log_in()
        if unstored.is_unstored(token):
            break
    assert unstored.is_unstored(token)
    assert await place.tokens[1].authenticate(token) is not None


async def test_a_wrong_password_stays_wrong(place: Place) -> None:
    """Nor is anything else believed that looks like such a token."""
    place.gone()
    user = {**ADMIN, "password": "another one"}
    wrong = {"auth": {"identity": {"methods": ["password"], "password": {"user": user}}}}
    with pytest.raises(Unauthorized):
        await place.log_in(wrong)
    good = await place.log_in()
    keyring = place.first.keyring
    assert keyring is not None
    said = unstored.opened(keyring, good, place.first.clock.now())
    assert said is not None
    from msgspec import json

    # What can be had in a sealed column is no token.
    stored = "unstored." + keyring.seal(json.encode(said))
    for forged in (
        "unstored.",
        "unstored.x",
        good[:-4] + "AAAA",
        good.lower(),
        stored,
        "unstored.ü",
    ):
        assert await place.tokens[0].authenticate(forged) is None


async def role_taken(tx: Any) -> None:
    """The user has no roles any more."""
    await tx.execute(delete(tables.assignments))


async def password_changed(tx: Any) -> None:
    """The user has another password."""
    await tx.execute(update(tables.users).values(password_hash="another"))


async def user_disabled(tx: Any) -> None:
    """The user may not log in."""
    await tx.execute(update(tables.users).values(enabled=False))


async def project_disabled(tx: Any) -> None:
    """The project is closed."""
    await tx.execute(update(tables.projects).values(enabled=False))


async def user_deleted(tx: Any) -> None:
    """The user is gone."""
    await tx.execute(delete(tables.users))


@pytest.mark.parametrize(
    "end", [role_taken, password_changed, user_disabled, project_disabled, user_deleted]
)
async def test_an_unstored_token_ends_as_others_do(
    place: Place, end: Callable[[Any], Awaitable[None]]
) -> None:
    """With what its user may, as soon as that can be stored."""
    place.gone()
    token = await place.log_in()
    place.back()
    assert await place.tokens[1].authenticate(token) is not None
    async with place.first.transaction() as tx:
        await end(tx)
    place.first.clock.advance(6)  # type: ignore[attr-defined]
    for tokens in place.tokens:
        assert await tokens.authenticate(token) is None


async def test_logging_out_ends_an_unstored_token(place: Place) -> None:
    """In the process that was asked; a second time there is nothing to end."""
    place.gone()
    token = await place.log_in()
    assert await place.tokens[0].revoke(token)
    assert await place.tokens[0].authenticate(token) is None
    assert not await place.tokens[0].revoke(token)
    # Nor does it live on in another spelling.
    mark, _, rest = token.partition(":")
    for other in (
        f"{token}=",
        f"{token}!",
        f"{token}\t",
        f"{token[:-4]}-{token[-4:]}",
        f"{mark}:{mark}:{rest}",
    ):
        assert await place.tokens[0].authenticate(other) is None


async def test_without_keys_nobody_logs_in(tmp_path: Path) -> None:
    """There is nothing to seal a token with: the refusal is the database's."""
    url = f"sqlite:///{tmp_path}/vetro.db"
    database = await Database.open(url)
    await migrate(database, [MIGRATIONS])
    await Identity(database, IdentitySection(admin_password=PASSWORD)).bootstrap_admin()
    (tmp_path / "vetro.db").unlink()
    with pytest.raises(DatabaseReadOnly):
        await Login(database, Identity(database).tokens, []).log_in(BODY, "here")
    await database.close()


@pytest.mark.postgres
@pytest.mark.parametrize("database_url", ["postgresql"], indirect=True)
async def test_a_read_only_server_lets_people_log_in(database_url: str, tmp_path: Path) -> None:
    """As a standby does: what needs no token to be stored goes on."""
    keyring = Keyring(tmp_path / "keys")
    keyring.create()
    first = await Database.open(database_url, keyring=keyring)
    await migrate(first, [MIGRATIONS])
    await Identity(first, IdentitySection(admin_password=PASSWORD)).bootstrap_admin()
    async with first.transaction() as tx:
        name = make_url(database_url).database
        await tx.execute(text(f'ALTER DATABASE "{name}" SET default_transaction_read_only = on'))
    await first.close()
    second = await Database.open(database_url, keyring=keyring)
    login = Login(second, Identity(second).tokens, [])
    for _ in range(3):
        token, _ = await login.log_in(BODY, "here")
        assert unstored.is_unstored(token)
        assert await login.tokens.authenticate(token) is not None
    await second.close()
