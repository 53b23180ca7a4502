"""Boot parameters and platforms (compute-node-api.md §6)."""

from __future__ import annotations

import base64
import binascii
import posixpath
import re
from typing import cast

import msgspec
from sqlalchemy import insert, select, update

from vetro.compute.servers.store import BOOT_DEFAULT, Generated, ServerStore, stored_boot_default
from vetro.compute.tables import servers, settings
from vetro.compute.values.faults import internal_error, invalid_argument
from vetro.compute.values.records import Json, Record, mapping
from vetro.storage import Database, Transaction

STAMP = re.compile(r"\d{8}T\d{6}Z")
MODULE_LIMIT = 4096
#: What is shown as platform where none is kept.
LATEST = "latest"
#: Names of the request, and of the record they are kept under.
NAMES = {
    "platform": "boot_platform",
    "kernel_args": "boot_params",
    "kernel_flags": "kernel_flags",
    "boot_modules": "boot_modules",
    "default_console": "default_console",
    "serial": "serial",
}
_MAPPINGS = ("kernel_args", "kernel_flags")
_TEXTS = ("default_console", "serial")
_UNSET: Record = {
    "boot_params": {},
    "kernel_flags": {},
    "boot_modules": [],
    "default_console": "",
    "serial": "",
    "boot_platform": "",
}
#: The console of a server of which nothing else is known.
_SERIAL: Record = {"default_console": "serial", "serial": "ttyb"}


def checked_modules(value: Json) -> list[Record]:
    """Boot modules, each with its type. Errors: 409 with all that is wrong."""
    if not isinstance(value, list):
        raise invalid_argument(
            "Values provided for boot_modules contain errors: boot_modules must be an array"
        )
    errors: list[str] = []
    modules: list[Record] = []
    for one in cast("list[object]", value):
        error = _module_error(one)
        if error:
            errors.append(error)
        else:
            module = mapping(one)
            modules.append({"type": "base64", **module})
    if errors:
        raise invalid_argument(
            "Values provided for boot_modules contain errors: " + ",\n".join(errors)
        )
    return modules


def _module_error(value: Json) -> str:
    module = mapping(value)
    path, content = module.get("path"), module.get("content")
    kind = module.get("type", "base64")
    if kind != "base64":
        return f"Unsupported type {kind} for module '{path}'"
    if not isinstance(path, str) or not path or not isinstance(content, str) or not content:
        return f"Unexpected format for boot_module: {msgspec.json.encode(value).decode()}"
    if posixpath.normpath(path) != path or path.startswith(("/", "..")) or path == ".":
        return f"Invalid path for boot_module: '{path}' (path cannot contain '.' or '..')"
    # Four characters are at most three bytes.
    if len(content.rstrip("=")) * 3 // 4 > MODULE_LIMIT:
        return f"Module '{path}' exceeds the maximum allowed size of 4KB"
    try:
        decoded = base64.b64decode(content, validate=True)
        good = base64.b64encode(decoded).decode() == content
    except (binascii.Error, ValueError):
        good = False
    return "" if good else f"Contents for module '{path}' must be base64 encoded"


def merged(before: Record, given: Record) -> Record:
    """POST: given keys over what was there; ``null`` deletes a key."""
    result = dict(before)
    for name, key in NAMES.items():
        if name not in given:
            continue
        value = given[name]
        if name in _MAPPINGS:
            old = mapping(before.get(key))
            joined = {**old, **mapping(value)}
            result[key] = {k: v for k, v in joined.items() if v is not None}
        elif name == "boot_modules":
            result[key] = checked_modules(value or [])
        elif value is None or (name in _TEXTS and value == ""):
            result[key] = ""
        else:
            result[key] = value
    return result


def replaced(given: Record) -> Record:
    """PUT: what is not given becomes empty or unset."""
    result = dict(_UNSET)
    for name, key in NAMES.items():
        value = given.get(name)
        if value is not None:
            result[key] = checked_modules(value) if name == "boot_modules" else value
    return result


async def _nothing(_tx: Transaction) -> Record:
    return {}


class BootParameters:
    """Boot parameters of servers and the default ones; platforms."""

    def __init__(
        self,
        database: Database,
        store: ServerStore,
        *,
        platforms: dict[str, str] | None = None,
        generated: Generated | None = None,
    ) -> None:
        """``platforms``: stamps that are offered whatever nodes run, with their OS. ``generated``:
        kernel arguments of the default parameters that nobody has stored."""
        self.database = database
        self.servers = store
        self._platforms = platforms or {}
        self._generated = generated or _nothing

    async def prepare(self) -> None:
        """The default parameters exist from the start."""
        async with self.database.transaction() as tx:
            if not await stored_boot_default(tx, to_change=True):
                value = {**_UNSET, **_SERIAL}
                await tx.execute(insert(settings).values(name=BOOT_DEFAULT, value=value))

    # Platforms

    async def known_platforms(self) -> dict[str, str]:
        """Every platform by stamp with its OS: those configured and those that servers run."""
        found = dict(self._platforms)
        async with self.database.read() as tx:
            rows = await tx.execute(select(servers.c.sysinfo))
            for row in rows:
                info = mapping(row.sysinfo)
                stamp = info.get("Live Image")
                if isinstance(stamp, str) and stamp:
                    found.setdefault(
                        stamp, "linux" if info.get("System Type") == "Linux" else "smartos"
                    )
        return found

    async def platforms(self, *, with_os: bool) -> Record:
        """`GET /platforms`: the newest stamp (of each OS) is marked."""
        found = await self.known_platforms()
        result: Record = {
            stamp: {"os": system} if with_os else {} for stamp, system in sorted(found.items())
        }
        stamps = [stamp for stamp in found if STAMP.fullmatch(stamp)]
        groups = sorted(set(found.values())) if with_os else [None]
        for system in groups:
            of_system = [one for one in stamps if system is None or found[one] == system]
            if of_system:
                result[max(of_system)]["latest"] = True
        return result

    async def latest_platform(self) -> str:
        """The newest platform; `LATEST` when there is none."""
        stamps = [one for one in await self.known_platforms() if STAMP.fullmatch(one)]
        return max(stamps, default=LATEST)

    async def platform_of(self, given: Json, message: str) -> Json:
        """The value to store for a given platform, which must be known. Errors: 500.

        ``latest`` is what is shown where none is kept (`GET /boot/…`), so it may be given back: '' then.
        """
        if not isinstance(given, str) or not given:
            return given
        known = await self.known_platforms()
        if given in known:
            return given
        if given == LATEST:
            return ""
        raise internal_error(message.format(given))

    # Boot parameters

    def _shape(self, kept: Record, generated: Record, platform: str) -> Record:
        shown: Record = {
            "platform": kept.get("boot_platform") or platform,
            "kernel_args": {**generated, **mapping(kept.get("boot_params"))},
            "kernel_flags": mapping(kept.get("kernel_flags")),
            "boot_modules": kept.get("boot_modules") or [],
        }
        for name in _TEXTS:
            if kept.get(name):
                shown[name] = kept[name]
        return shown

    async def default(self) -> Record:
        """`GET /boot/default`."""
        async with self.database.read() as tx:
            kept = await stored_boot_default(tx)
            generated = await self._generated(tx)
        return self._shape(kept, generated, LATEST)

    async def default_record(self) -> Record:
        """The default server's own properties, as ServerGet of ``default`` shows them."""
        async with self.database.read() as tx:
            return await stored_boot_default(tx)

    async def of(self, uuid: str) -> Record:
        """`GET /boot/:server_uuid`. Errors: 404."""
        async with self.database.read() as tx:
            row = await self.servers.row(tx, uuid)
        kept: Record = {**_SERIAL, **row.extra}
        return self._shape(kept, {"hostname": row.hostname}, LATEST)

    async def _with_platform(self, given: Record) -> Record:
        if "platform" not in given:
            return given
        kept = await self.platform_of(given["platform"], "Platform '{}' does not exist")
        return {**given, "platform": kept}

    async def change_default(self, given: Record, *, replace: bool) -> None:
        """PUT or POST /boot/default. Errors: 409, 500."""
        given = await self._with_platform(given)
        async with self.database.transaction() as tx:
            before = await stored_boot_default(tx, to_change=True)
            after = replaced(given) if replace else merged(before, given)
            await tx.execute(
                update(settings).where(settings.c.name == BOOT_DEFAULT).values(value=after)
            )

    async def change(self, uuid: str, given: Record, *, replace: bool) -> None:
        """PUT or POST /boot/:server_uuid. Errors: 404, 409, 500."""
        given = await self._with_platform(given)
        newest = await self.latest_platform()
        async with self.database.transaction() as tx:
            row = await self.servers.row(tx, uuid)
            kept: Record = {**_SERIAL, **row.extra}
            after = replaced(given) if replace else merged(kept, given)
            if replace and not after["boot_platform"] and newest != LATEST:
                after["boot_platform"] = newest
            await self.servers.change_in(
                tx, uuid, {key: after[key] for key in NAMES.values() if key in after}
            )
