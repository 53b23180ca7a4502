"""What the guests' credentials follow from (guest-agent.md §2a)."""

from __future__ import annotations

from sqlalchemy import insert, select, update

from vetro.messaging import Guest, Mailboxes
from vetro.messaging.credentials import _derive, token_hash
from vetro.messaging.tables import mailboxes as rows
from vetro.messaging.tables import secrets
from vetro.storage import Database

LEAKED = b"a secret that everybody could read".ljust(40)


async def of_before(mailboxes: Mailboxes, database: Database, queue: str) -> str:
    """A guest that a version made whose key was in the database in clear; its token."""
    await mailboxes.declare(queue)
    token = _derive(LEAKED, queue, 1)
    async with database.transaction() as tx:
        known = await tx.execute(select(secrets.c.name).where(secrets.c.name == "credentials"))
        if known.first() is None:
            await tx.execute(insert(secrets).values(name="credentials", value=LEAKED))
        await tx.execute(
            update(rows).where(rows.c.queue == queue).values(token_hash=token_hash(token))
        )
    return token


async def test_guests_of_before_keep_their_credentials(
    mailboxes: Mailboxes, elsewhere: Mailboxes, database: Database
) -> None:
    """Deploying again does not change their user data, and their tokens stay valid."""
    token = await of_before(mailboxes, database, "old")
    for boxes in (mailboxes, elsewhere):
        assert await boxes.issue_credential("old") == token
        assert await boxes.credentials.check(token) == Guest("old")


async def test_new_credentials_do_not_follow_from_what_was_read(
    mailboxes: Mailboxes, database: Database
) -> None:
    """The new tokens of new and of old guests are not derived from the old key."""
    token = await of_before(mailboxes, database, "old")
    assert await mailboxes.issue_credential("new") != _derive(LEAKED, "new", 1)
    rotated = await mailboxes.rotate_credential("old")
    assert rotated not in {token, _derive(LEAKED, "old", 2)}
    assert await mailboxes.credentials.check(token) is None
    await mailboxes.revoke("old")
    again = await mailboxes.issue_credential("old")
    assert again not in {rotated, *(_derive(LEAKED, "old", number) for number in range(1, 5))}
    assert await mailboxes.issue_credential("old") == again


async def test_a_new_mailbox_of_an_old_name_has_a_new_credential(
    mailboxes: Mailboxes, database: Database
) -> None:
    """A guest that was removed and created again gets another token."""
    token = await of_before(mailboxes, database, "old")
    await mailboxes.delete("old")
    assert await mailboxes.issue_credential("old") != token
