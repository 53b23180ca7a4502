"""Public keys of projects, by their names."""

from __future__ import annotations

from sqlalchemy import delete, select

from vetro.compute.tables import keypairs
from vetro.compute.values.faults import not_found
from vetro.storage import Database, StoredRow


async def keypairs_of(database: Database, owner: str) -> list[StoredRow]:
    """The key pairs of a project, in the order of their names."""
    query = select(keypairs).where(keypairs.c.owner_uuid == owner).order_by(keypairs.c.name)
    async with database.read() as tx:
        return list(await tx.execute(query))


async def find_keypair(database: Database, owner: str, name: str) -> StoredRow:
    """A key pair of a project. Errors: 404."""
    for row in await keypairs_of(database, owner):
        if row.name == name:
            return row
    raise not_found(f"key pair {name} not found")


async def remove_keypair(
    database: Database, owner: str, name: str, made_by: str | None = None
) -> None:
    """Remove a key pair of a project; with a maker: only the one that it made. Errors: 404."""
    mine = (keypairs.c.owner_uuid == owner) & (keypairs.c.name == name)
    if made_by is not None:
        mine &= keypairs.c.made_by == made_by
    async with database.transaction() as tx:
        if (await tx.execute(delete(keypairs).where(mine))).rowcount == 0:
            raise not_found(f"key pair {name} not found")
