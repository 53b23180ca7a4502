"""The service's own metadata: settings an operator changes while it runs (compute-node-api.md §1)."""

from __future__ import annotations

import uuid as uuids
from collections.abc import Callable
from typing import Any

from sqlalchemy import insert, select, update

from vetro.compute.parameters import UUID, as_number
from vetro.compute.records import Json, Record, mapping
from vetro.compute.tables import settings
from vetro.storage import Database, Transaction

NAME = "service-metadata"
SPACE = uuids.UUID("3b7a4a0e-6f53-4b51-9d7e-5f3a9a6c1e02")


def _boolean(value: Json) -> bool:
    return isinstance(value, bool) or str(value).lower() in ("true", "false")


def _number(value: Json) -> bool:
    return as_number(value) is not None


def _text(value: Json) -> bool:
    return isinstance(value, str)


def _owners(value: Json) -> bool:
    given = mapping(value)
    return isinstance(value, dict) and all(
        UUID.match(name) and isinstance(text, str) for name, text in given.items()
    )


#: Known keys, what they must be, and how that is said (allocation.md §4). Empty texts are defaults.
KEYS: dict[str, tuple[Callable[[Json], bool], str]] = {
    **dict.fromkeys(
        (
            "ALLOC_DISABLE_OVERRIDE_OVERPROVISIONING",
            "ALLOC_FILTER_CAPNESS",
            "ALLOC_FILTER_HEADNODE",
            "ALLOC_FILTER_MIN_RESOURCES",
            "ALLOC_FILTER_LARGE_SERVERS",
            "ALLOC_FILTER_MIN_DISK",
            "FEATURE_USE_CNAGENT_COMMAND_EXECUTE",
            "SMT_ENABLED_DEFAULT",
        ),
        (_boolean, "is not boolean"),
    ),
    **dict.fromkeys(
        (
            "ALLOC_FILTER_VM_COUNT",
            "ALLOC_MIN_FREE_DISK",
            "ALLOC_OVERRIDE_OVERPROVISION_CPU",
            "ALLOC_OVERRIDE_OVERPROVISION_RAM",
            "ALLOC_OVERRIDE_OVERPROVISION_DISK",
            "ALLOC_WEIGHT_CURRENT_PLATFORM",
            "ALLOC_WEIGHT_NEXT_REBOOT",
            "ALLOC_WEIGHT_NUM_OWNER_ZONES",
            "ALLOC_WEIGHT_UNIFORM_RANDOM",
            "ALLOC_WEIGHT_UNRESERVED_DISK",
            "ALLOC_WEIGHT_UNRESERVED_RAM",
        ),
        (_number, "is not a number"),
    ),
    "ALLOC_FILTER_DOCKER_MIN_PLATFORM": (_text, "is not an ISO UTC timestamp"),
    "ALLOC_SERVER_SPREAD": (_text, "is not a text"),
    "ALLOC_FILTER_OWNER_SERVER_EXPERIMENTAL": (_owners, "is an invalid type"),
}


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

    async def boolean(self, name: str, default: bool) -> bool:
        """A boolean key; missing and empty is ``default``."""
        value: Any = (await self.all()).get(name)
        return default if value in (None, "") else str(value).lower() == "true"

    async def view(self) -> Record:
        """The service object."""
        return {"uuid": self.uuid, "name": "cnapi", "metadata": await self.all()}

    def problem(self, given: Record) -> str:
        """What is wrong with new values, naming the key; '' for nothing. Unknown keys are kept."""
        for name, value in given.items():
            known = KEYS.get(name)
            if known is None or value is None or value == "":
                continue
            check, said = known
            if not check(value):
                return f"{name} {said}"
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
