"""Ids in bodies, queries and headers: another project's is as good as none, wherever a call takes one.

Those in paths are in ``test_access``; those in templates in ``tests/stacks/test_foreign_ids``.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from .access_table import (
    MARK,
    PASSWORD,
    Names,
    Place,
    deployed,
    environment,
    image,
    machine,
    net,
    package,
    template,
    volume,
    volume_copy,
    wizard,
)
from .test_access import (
    anonymous,
    place,  # noqa: F401 a fixture
)

pytestmark = pytest.mark.usefixtures("quick_passwords")
ID = "<the id>"
Make = Callable[[Place], Awaitable[Names]]
#: The call of the other project's user, what of ours it names, by which name.
ROWS: list[tuple[str, str, Any, Make, str]] = [
    ("POST", "/compute/subnets", {"network_uuid": ID, "cidr": "10.9.1.0/24"}, net("networks"), "uuid"),
    ("POST", "/compute/subnets", {"network_uuid": "{net}", "cidr": "10.9.2.0/24", "replaces": [ID]},
     net("subnets"), "uuid"),
    ("POST", "/compute/routers", {"external_network": ID}, net("networks"), "uuid"),
    ("POST", "/compute/ports", {"network_uuid": ID}, net("networks"), "uuid"),
    ("POST", "/compute/ports", {"network_uuid": "{net}", "security_groups": [ID]},
     net("security-groups"), "uuid"),
    ("POST", "/compute/ports", {"network_uuid": "{net}", "fixed_ips": [{"subnet_uuid": ID}]},
     net("subnets"), "uuid"),
    ("PUT", "/compute/ports/{port}", {"security_groups": [ID]}, net("security-groups"), "uuid"),
    ("POST", "/compute/floating-ips", {"port_uuid": ID}, net("ports"), "uuid"),
    ("POST", "/compute/floating-ips", {"network_uuid": ID}, net("networks"), "uuid"),
    ("PUT", "/compute/floating-ips/{floating}", {"port_uuid": ID}, net("ports"), "uuid"),
    ("POST", "/compute/security-groups", {"rules": [{"direction": "ingress", "remote_group_id": ID}]},
     net("security-groups"), "uuid"),
    ("PUT", f"/compute/routers/{{router}}/interfaces/{ID}", None, net("subnets"), "uuid"),
    ("PUT", f"/compute/routers/{ID}/interfaces/{{subnet}}", None, net("routers"), "uuid"),
    ("POST", "/compute/volumes", {"size": 1, "source": {"kind": "volume", "uuid": ID}}, volume, "uuid"),
    ("POST", "/compute/volumes", {"size": 1, "source": {"kind": "snapshot", "uuid": ID}},
     volume_copy("snapshots"), "uuid"),
    ("POST", "/compute/volumes", {"size": 1, "source": {"kind": "backup", "uuid": ID}},
     volume_copy("backups"), "uuid"),
    ("POST", "/compute/volumes", {"size": 1, "source": {"kind": "image", "uuid": ID}},
     image(public=False), "uuid"),
    ("POST", "/compute/volumes/{volume}/attach", {"vm_uuid": ID}, machine, "uuid"),
    ("POST", "/compute/volume-snapshots", {"volume_uuid": ID}, volume, "uuid"),
    ("POST", "/compute/volume-backups", {"volume_uuid": ID}, volume, "uuid"),
    ("POST", f"/compute/volume-backups/{ID}/restore", {"volume_uuid": "{volume}"},
     volume_copy("backups"), "uuid"),
    ("GET", f"/compute/servers?uuids={ID}", None, machine, "uuid"),
    ("POST", "/v1/wizards", {"package": ID}, package, "package_id"),
    ("POST", "/v1/wizards", {"package": "{package}", "environment_id": ID}, environment,
     "environment_id"),
    ("POST", "/v1/wizards", {"package": "{package}", "environment_id": "{environment}",
                             "session_id": ID}, environment, "session_id"),
    ("POST", "/v1/wizards", {"component_id": ID, "environment_id": "{environment}"}, environment,
     "session_id"),
    ("POST", "/v1/wizards", {"package": "{package}", "template_id": ID}, template(public=False),
     "template_id"),
    ("GET", f"/v1/environments?marker={ID}", None, environment, "environment_id"),
    ("GET", f"/v1/deployments?marker={ID}", None, deployed, "deployment_id"),
    ("GET", f"/v1/templates?marker={ID}", None, template(public=False), "template_id"),
    ("GET", f"/v1/catalog/packages?marker={ID}", None, package, "package_id"),
    ("GET", "/v1/environments/{environment}/services", {"X-Configuration-Session": ID}, environment,
     "session_id"),
    ("POST", f"/v1/environments/{{environment}}/sessions/{ID}/deploy", None, environment,
     "session_id"),
    ("POST", f"/v1/environments/{{environment}}/deployments/{ID}/restore", None, deployed,
     "deployment_id"),
    ("GET", f"/v1/environments/{{environment}}/actions/{ID}", None, deployed, "task_id"),
    ("PUT", "/v1/environments/{environment}/packages", {"packages": {"own.P": ID}}, package,
     "package_id"),
    ("GET", f"/v1/wizards/{ID}", None, wizard, "wizard_id"),
]  # fmt: skip


def filled(value: Any, known: dict[str, str]) -> Any:
    """A call with ids in the places of their names."""
    if isinstance(value, str):
        for name, one in known.items():
            value = value.replace(name, one)
        return value
    if isinstance(value, dict):
        return {key: filled(one, known) for key, one in value.items()}
    return [filled(one, known) for one in value] if isinstance(value, list) else value


async def theirs(place: Place) -> dict[str, str]:  # noqa: F811 the fixture's value
    """What the other project has itself, so that a call is wrong in one id only."""

    async def made(path: str, body: Any = None) -> str:
        answer = await place.ok("eve", "POST", path, body)
        return str(answer.get("uuid") or answer.get("id"))

    network = await made("/compute/networks", {"name": "theirs"})
    subnet = await made("/compute/subnets", {"network_uuid": network, "cidr": "10.200.1.0/24"})
    own = await package(place, "eve")
    return {
        "{net}": network,
        "{subnet}": subnet,
        "{port}": await made("/compute/ports", {"network_uuid": network}),
        "{floating}": await made("/compute/floating-ips", {}),
        "{router}": await made("/compute/routers", {}),
        "{volume}": await made("/compute/volumes", {"size": 1}),
        "{environment}": await made("/v1/environments", {"name": "theirs"}),
        "{package}": own["package_id"],
    }


@pytest.mark.thorough
async def test_another_projects_id_in_a_call_is_an_unknown_one(place: Place) -> None:  # noqa: F811
    """The answer is that for an id that nobody has; nothing of ours is in it, and nothing is changed."""
    own = await theirs(place)
    problems: list[str] = []
    for method, path, body, make, name in ROWS:
        names = await make(place)
        before = {table: rows for table, rows in place.rows().items() if table in OURS}
        said: list[tuple[int, str]] = []
        for known in (
            names[name],
            uuid.uuid4().hex if "-" not in names[name] else str(uuid.uuid4()),
        ):
            given = filled(body, {**own, ID: known})
            headers = given if method == "GET" and given else {}
            answer = await place.call(
                "eve", method, filled(path, {**own, ID: known}), None if headers else given,
                **{key.replace("-", "_"): value for key, value in headers.items()},
            )  # fmt: skip
            said.append(anonymous(answer, {"id": known}))
            leaked = [one for one in place.known - {known} if one in answer.text]
            if leaked or MARK in answer.text:
                problems.append(f"{method} {path} {body} shows {leaked}: {answer.text[:300]}")
        catalog = path.startswith("/v1/")
        # catalog-api.md says 403 or 400 for what there is of others.
        # A subnet that is replaced may be gone: there an id of nobody's is no mistake.
        replaced = "replaces" in repr(body) and said[0][0] == 404
        alike = said[0][0] in (400, 403, 404) if catalog else replaced or said[0] == said[1]
        if not alike or (said[0][0] < 300 and said[0] != said[1]):
            problems.append(f"{method} {path} {body}: {said[0]}, but of no one's {said[1]}")
        after = {table: rows for table, rows in place.rows().items() if table in OURS}
        if not all(set(rows) <= set(after[table]) for table, rows in before.items()):
            problems.append(f"{method} {path} {body} changed ours")
    assert not problems, "\n".join(problems)


#: Tables with things of projects; what a call adds is the caller's.
OURS = {
    "compute_networks", "compute_subnets", "compute_ports", "compute_routers", "compute_volumes",
    "compute_security_groups", "compute_volume_copies", "environments_sessions",
    "environments_templates", "catalog_packages", "environments_environments",
}  # fmt: skip


async def test_a_token_for_a_project_needs_a_role_there(place: Place) -> None:  # noqa: F811
    """A project that one has nothing to do with is refused as one that there is not."""
    user = {"name": "eve", "domain": {"id": "default"}, "password": PASSWORD}
    said: list[tuple[int, str]] = []
    for project in (place.projects["ours"], uuid.uuid4().hex):
        body = {"auth": {"identity": {"methods": ["password"], "password": {"user": user}},
                         "scope": {"project": {"id": project}}}}  # fmt: skip
        answer = await place.call("", "POST", "/identity/v3/auth/tokens", body)
        said.append((answer.status, "" if answer.status == 401 else answer.text))
    assert said == [(401, ""), (401, "")]
