"""Boot parameters and platforms (compute-node-api.md §6)."""

from __future__ import annotations

from vetro.compute.http.answers import AN_OBJECT, BOOT, PLATFORMS
from vetro.compute.http.endpoint import Call, Endpoint
from vetro.compute.values.records import Json, Record
from vetro.http import Reply
from vetro.http.endpoint import Answer
from vetro.http.parameters import (
    FILTER,
    OBJECT,
    TRIM,
    TRIM_OR_NULL,
    Param,
    Rule,
    body,
    boolean_of,
    query,
)

NAMES = ("platform", "kernel_args", "kernel_flags", "boot_modules", "serial", "default_console")


def _given(call: Call) -> Record:
    return {name: call.params[name] for name in NAMES if name in call.params}


async def get_default(call: Call) -> Json:
    """The parameters of servers that are not known."""
    return await call.service.boot.default()


async def set_default(call: Call) -> Json:
    """Replace the default parameters."""
    await call.service.boot.change_default(_given(call), replace=True)


async def update_default(call: Call) -> Json:
    """Merge into the default parameters; ``null`` deletes a key."""
    await call.service.boot.change_default(_given(call), replace=False)


async def get(call: Call) -> Json:
    """The parameters a server boots with next."""
    return await call.service.boot.of(call.server_uuid)


async def replace(call: Call) -> Json:
    """Replace a server's parameters."""
    await call.service.boot.change(call.server_uuid, _given(call), replace=True)
    return Answer(200, {}) if call.service.settings.compute.profile == "upstream" else Answer(202)


async def update(call: Call) -> Json:
    """Merge into a server's parameters; ``null`` deletes a key."""
    await call.service.boot.change(call.server_uuid, _given(call), replace=False)
    return Answer(204 if call.service.settings.compute.profile == "upstream" else 202)


async def platforms(call: Call) -> Json:
    """Platforms nodes can boot; with ``os`` the newest of each operating system is marked."""
    return await call.service.boot.platforms(with_os=boolean_of(call.get("os")) or False)


def _params(text: Rule, *aliases: str) -> tuple[Param, ...]:
    return (
        *body(text, "platform", "default_console", "serial"),
        Param("kernel_args", OBJECT, aliases=aliases),
        Param("kernel_flags", OBJECT, aliases=("kernel_values",)),
        Param("boot_modules"),
    )


_SET, _UPDATE = _params(TRIM, "boot_params"), _params(TRIM_OR_NULL, "params", "boot_params")

ENDPOINTS = [
    Endpoint("BootParamsGetDefault", "GET", "/boot/default", get_default, reply=BOOT),
    Endpoint("BootParamsSetDefault", "PUT", "/boot/default", set_default, _SET, status=204),
    Endpoint("BootParamsUpdateDefault", "POST", "/boot/default", update_default, _UPDATE,
             status=204),
    Endpoint("BootParamsGet", "GET", "/boot/{server_uuid}", get, reply=BOOT),
    Endpoint("BootParamsSet", "PUT", "/boot/{server_uuid}", replace, _SET, status=202,
             reply=Reply(others={200: AN_OBJECT})),
    Endpoint("BootParamsUpdate", "POST", "/boot/{server_uuid}", update, _UPDATE, status=202,
             reply=Reply(others={204: None})),
    Endpoint("PlatformList", "GET", "/platforms", platforms, query(FILTER, "os"), strict=True,
             reply=PLATFORMS),
]  # fmt: skip
