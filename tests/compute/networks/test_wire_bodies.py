"""The structs of the wire and the parameters of calls describe the same bodies."""

from __future__ import annotations

import msgspec
import pytest

from vetro.compute.client.calls import ROUTERS, Call
from vetro.compute.http.endpoints.networks import KINDS
from vetro.compute.wire import NewRouter, Router, RouterChange, SecurityRule, Task


@pytest.mark.parametrize("name", sorted(KINDS))
def test_each_parameter_is_a_field_and_each_field_a_parameter(name: str) -> None:
    """Of the body that creates an object of a kind, and of the body that changes one."""
    kind = KINDS[name]
    created = {param.name for param in kind.create} | {"uuid", "project_id"}
    assert created == {field.name for field in msgspec.structs.fields(kind.calls.new)}
    changed = {param.name for param in kind.change}
    assert changed == {field.name for field in msgspec.structs.fields(kind.calls.changed)}


def test_absent_and_null_differ_in_a_change_only() -> None:
    """A body that creates leaves defaults out; one that changes says null to empty a property."""
    assert ROUTERS.create(NewRouter(name="r", external_network=None)).content == b'{"name":"r"}'
    assert ROUTERS.change("u", RouterChange(name="r")).content == b'{"name":"r"}'
    assert (
        ROUTERS.change("u", RouterChange(external_network=None)).content
        == b'{"external_network":null}'
    )


def test_readers_ignore_what_a_newer_service_adds() -> None:
    """Unknown fields are skipped, and fields that an older one lacks have their defaults."""
    text = b'{"uuid": "u", "name": "r", "project_id": "p", "new": {"a": 1}}'
    assert ROUTERS.one("u").read(text) == Router(uuid="u", name="r", project_id="p")
    assert ROUTERS.remove("a/b").path == "/routers/a%2Fb"
    assert Call("GET", "/", type(None)).read(b"") is None


def test_a_rule_is_sent_with_all_its_members() -> None:
    """The service keeps rules as they are given, and compares them so."""
    assert SecurityRule(direction="ingress", protocol="tcp").body() == {
        "direction": "ingress",
        "ethertype": "IPv4",
        "protocol": "tcp",
        "port_range_min": None,
        "port_range_max": None,
        "remote_ip_prefix": None,
        "remote_group_id": None,
    }


@pytest.mark.parametrize(
    ("result", "error", "state"),
    [
        ({"error": "no room"}, "no room", ""),
        ({"vm": {"state": "stopped", "nics": 5}}, "", "stopped"),
        ({"state": "running"}, "", "running"),
        ({"vm": "strange"}, "", ""),
        ("a text", "", ""),
        (None, "", ""),
    ],
)
def test_a_tasks_result_may_be_anything(result: object, error: str, state: str) -> None:
    """Known members are read; other members from a node are not an error."""
    task = Task(status="failure", result=result)
    assert (task.error, task.vm_state) == (error, state)
