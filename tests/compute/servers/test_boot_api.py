"""Boot parameters and platforms over HTTP (compute-node-api.md §6)."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from tests.compute.conftest import NODE, OTHER, MakeWorld, World


async def test_default_boot_parameters(any_world: World) -> None:
    """PUT replaces, POST merges, null deletes, the default platform is the newest."""
    get = any_world.ok
    first = await get("GET", "/boot/default")
    assert first == {
        "platform": "latest",
        "kernel_args": {"smt_enabled": True},
        "kernel_flags": {},
        "boot_modules": [],
        "default_console": "serial",
        "serial": "ttyb",
    }
    module = {"path": "etc/a..b", "content": base64.b64encode(b"x").decode()}
    body = {
        "kernel_args": {"a": "1", "b": "2"},
        "kernel_flags": {"-k": "true"},
        "boot_modules": [module],
        "platform": "20260101T000000Z",
        "serial": "ttya",
    }
    assert (await any_world.call("PUT", "/boot/default", body)).status == 204
    shown = await get("GET", "/boot/default")
    assert shown["kernel_args"] == {"smt_enabled": True, "a": "1", "b": "2"}
    assert shown["kernel_flags"] == {"-k": "true"}
    assert shown["boot_modules"] == [{"type": "base64", **module}]
    assert shown["serial"] == "ttya"
    assert "default_console" not in shown
    change = {"kernel_args": {"a": None, "c": "3"}, "serial": None}
    assert (await any_world.call("POST", "/boot/default", change)).status == 204
    shown = await get("GET", "/boot/default")
    assert shown["kernel_args"] == {"smt_enabled": True, "b": "2", "c": "3"}
    assert shown["boot_modules"] == [{"type": "base64", **module}]
    assert "serial" not in shown


@pytest.mark.parametrize(("profile", "put", "post"), [("seed", 202, 202), ("upstream", 200, 204)])
async def test_boot_parameters_of_a_server(
    make_world: MakeWorld, profile: str, put: int, post: int
) -> None:
    """The host name is the first argument; aliases are taken; statuses follow the profile."""
    world = await make_world(profile=profile)
    await world.server()
    path = f"/boot/{NODE}"
    answer = await world.call("PUT", path, {"boot_params": {"x": "1"}, "kernel_values": {"f": "2"}})
    assert answer.status == put
    shown = await world.ok("GET", path)
    assert list(shown["kernel_args"].items()) == [("hostname", "node-1"), ("x", "1")]
    assert shown["kernel_flags"] == {"f": "2"}
    assert shown["platform"] == "20260101T000000Z"
    assert (await world.call("POST", path, {"params": {"y": "2"}})).status == post
    assert (await world.ok("GET", path))["kernel_args"]["y"] == "2"
    assert (await world.refused("PUT", f"/boot/{OTHER}", {}))[0] == 404
    refused = await world.refused("POST", path, {"platform": "x"})
    assert refused == (500, "InternalError", "Platform 'x' does not exist")
    assert (await world.refused("POST", path, {"kernel_args": []}))[:2] == (
        500, "InvalidParameters",
    )  # fmt: skip


B64 = base64.b64encode(b"hello").decode()


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ({"path": "a", "type": "raw", "content": B64}, "Unsupported type raw for module 'a'"),
        ({"path": "", "content": B64}, 'Unexpected format for boot_module: {"path":"","content"'),
        ({"path": "a"}, 'Unexpected format for boot_module: {"path":"a"}'),
        ({"path": "a/../b", "content": B64}, "Invalid path for boot_module: 'a/../b'"),
        ({"path": "/a", "content": B64}, "Invalid path for boot_module: '/a'"),
        ({"path": "a//b", "content": B64}, "Invalid path for boot_module: 'a//b'"),
        (
            {"path": "a", "content": base64.b64encode(b"x" * 4097).decode()},
            "Module 'a' exceeds the maximum allowed size of 4KB",
        ),
        ({"path": "a", "content": B64.rstrip("=")}, "Contents for module 'a' must be base64"),
        ("x", 'Unexpected format for boot_module: "x"'),
    ],
)
async def test_boot_modules_that_are_refused(world: World, module: Any, said: str) -> None:
    """Each rule has its words, after a common beginning."""
    good = {"path": "ok", "content": base64.b64encode(b"x" * 4096).decode()}
    status, code, message = await world.refused(
        "PUT", "/boot/default", {"boot_modules": [good, module]}
    )
    assert (status, code) == (409, "InvalidArgument")
    assert message.startswith("Values provided for boot_modules contain errors: " + said)


async def test_platforms(world: World) -> None:
    """The newest stamp is marked; with os the newest of each operating system is."""
    await world.server(OTHER, **{"System Type": "SunOS", "Live Image": "20250101T000000Z"})
    assert await world.ok("GET", "/platforms") == {
        "20250101T000000Z": {},
        "20260101T000000Z": {"latest": True},
    }
    assert await world.ok("GET", "/platforms?os=TRUE") == {
        "20250101T000000Z": {"os": "smartos", "latest": True},
        "20260101T000000Z": {"os": "linux", "latest": True},
    }
    assert (await world.refused("GET", "/platforms?x=1"))[0] == 409
