"""The service's own metadata: settings an operator changes while it runs (compute-node-api.md §1)."""

from __future__ import annotations

import uuid as uuids

from sqlalchemy import insert, select, update

from vetro.compute.allocation.defaults import METADATA as ALLOCATION
from vetro.compute.allocation.defaults import read_defaults
from vetro.compute.allocation.errors import DefaultsError
from vetro.compute.tables import settings
from vetro.compute.values.records import Json, Record, mapping
from vetro.storage import Database, Transaction

NAME = "service-metadata"
SPACE = uuids.UUID("3b7a4a0e-6f53-4b51-9d7e-5f3a9a6c1e02")


def _boolean(value: Json) -> bool:
    return isinstance(value, bool) or str(value).lower() in ("true", "false")


#: Known keys beside the allocator's. Empty texts are defaults.
BOOLEANS = ("FEATURE_USE_CNAGENT_COMMAND_EXECUTE", "SMT_ENABLED_DEFAULT")


class Metadata:
    """The metadata of the service ``cnapi``; every instance reads it from the database."""

    def __init__(self, database: Database, configured: Record | None = None) -> None:
        """``configured``: the config file's ``metadata``; what is stored wins over it."""
        self.database = database
        self.configured = configured or {}
        self.uuid = str(uuids.uuid5(SPACE, "cnapi"))

    async def read(self, tx: Transaction) -> Record:
        """All keys."""
        row = (await tx.execute(select(settings.c.value).where(settings.c.name == NAME))).first()
        return {**self.configured, **(mapping(row.value) if row is not None else {})}

    async def all(self) -> Record:
        """All keys, in a transaction of their own."""
        async with self.database.read() as tx:
            return await self.read(tx)

    async def boolean_in(self, tx: Transaction, name: str, default: bool) -> bool:
        """A boolean key; missing and empty is ``default``."""
        value: object = (await self.read(tx)).get(name)
        return default if value in (None, "") else str(value).lower() == "true"

    async def view(self) -> Record:
        """The service object."""
        return {"uuid": self.uuid, "name": "cnapi", "metadata": await self.all()}

    def problem(self, given: Record) -> str:
        """What is wrong with new values, naming the key; '' for nothing. Unknown keys are kept."""
        for name, value in given.items():
            if value is None or value == "":
                continue
            if name in BOOLEANS and not _boolean(value):
                return f"{name} is not boolean"
            if name in ALLOCATION:
                try:
                    read_defaults(metadata={name: value})
                except DefaultsError as error:
                    return str(error).removeprefix("Defaults ")
        return ""

    async def change(self, given: Record) -> Record:
        """Merge keys, ``None`` deletes; the service object after that."""
        async with self.database.transaction() as tx:
            query = select(settings.c.value).where(settings.c.name == NAME).with_for_update()
            row = (await tx.execute(query)).first()
            before = mapping(row.value) if row is not None else {}
            after = {k: v for k, v in {**before, **given}.items() if v is not None}
            if row is None:
                await tx.execute(insert(settings).values(name=NAME, value=after))
            else:
                await tx.execute(
                    update(settings).where(settings.c.name == NAME).values(value=after)
                )
            tx.notify("compute/metadata")
        return await self.view()
