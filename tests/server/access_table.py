"""Every route of every face: whom it is for, and what an owner makes so that others can try it."""

from __future__ import annotations

import contextlib
import io
import json
import sqlite3
import uuid
import zipfile
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from vetro.http.client import HttpClient, Response
from vetro.messaging import Mailboxes
from vetro.repository.endpoints import ENDPOINTS as REPOSITORY_ENDPOINTS

SERVER = "5f0f3a7e-5a1b-4d8a-9a55-93a0b5c0a001"
MARK = "our-own"
PASSWORD = "a long password"
#: What changes by itself: services and nodes that are heard of, or not any more.
VOLATILE = {"compute_status", "compute_instances", "compute_servers", "compute_placement_changes"}
#: A guest's own: when it was heard, and what it sent that is not a result.
GUESTS = {"messaging_mailboxes", "messaging_dead_letters", "sqlite_sequence"}
Names = dict[str, str]
Make = Callable[["Place"], Awaitable[Names]]


@dataclass
class Place:
    """The faces of one service, with people of two projects, a node and two guests."""

    http: HttpClient
    faces: list[Any]
    database: Any
    file: Path
    tokens: dict[str, str] = field(default_factory=dict[str, str])
    projects: dict[str, str] = field(default_factory=dict[str, str])
    users: dict[str, str] = field(default_factory=dict[str, str])
    known: set[str] = field(default_factory=set[str])

    async def call(
        self, who: str, method: str, path: str, body: Any = None, **headers: str
    ) -> Response:
        """A request of somebody, or of nobody: ''. Bytes are sent as they are."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        if who in self.tokens and not who.startswith("guest"):
            given["X-Auth-Token"] = self.tokens[who]
        elif who:
            given["Authorization"] = f"Bearer {self.tokens.get(who, who)}"
        if isinstance(body, bytes):
            return await self.http.request(method, path, content=body, headers=given)
        if body is not None:
            given.setdefault("Content-Type", "application/json")
            body = json.dumps(body).encode()
        return await self.http.request(method, path, content=body, headers=given)

    async def ok(self, who: str, method: str, path: str, body: Any = None, **headers: str) -> Any:
        """The JSON of a call that must succeed; ids in it are known to be somebody's."""
        answer = await self.call(who, method, path, body, **headers)
        assert answer.status < 300, (method, path, answer.status, answer.text)
        return answer.json() if answer.content else None

    def rows(self) -> dict[str, list[Any]]:
        """Everything that is stored, table by table."""
        with contextlib.closing(sqlite3.connect(self.file)) as opened:
            names = [row[0] for row in opened.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table'")]  # fmt: skip
            return {
                name: sorted(map(repr, opened.execute(f'SELECT * FROM "{name}"')))
                for name in names
                if name not in VOLATILE
            }


@dataclass(frozen=True)
class Row:
    """What a route is.

    ``kind``: ``public``; ``people`` (any member, about nothing of a project); ``list`` (a project's
    own); ``owned`` (what the path names is a project's, made by ``make``); ``self`` (of a user);
    ``operators``; ``node`` (the server's own); ``guest``. ``good``: what the owner may be answered
    beside a success, for calls that need an engine or another world.
    """

    kind: str
    make: Make | None = None
    body: Any = None
    type: str = ""
    query: str = ""
    good: tuple[int, ...] = ()


#: Of what is not there: an instance with statistics, an object that could not be destroyed.
OTHER_NAMES = {"instance_id": "x", "object_id": "x"}

# What the owner makes for a row, so that each finds it whole.


async def environment(place: Place) -> Names:
    """An environment with an application in a session, deployed by nobody yet."""
    name = f"{MARK}-{uuid.uuid4().hex[:8]}"
    made = (await place.ok("ann", "POST", "/v1/environments", {"name": name}))["id"]
    base = f"/v1/environments/{made}"
    session = (await place.ok("ann", "POST", f"{base}/configure"))["id"]
    service = {"?": {"type": "org.App", "id": uuid.uuid4().hex}, "name": f"{MARK}-app"}
    await place.ok("ann", "POST", f"{base}/services", service, X_Configuration_Session=session)
    place.known |= {made, session, service["?"]["id"]}  # type: ignore[index]
    return {"environment_id": made, "session_id": session, "path": "/name", **OTHER_NAMES}


def template(*, public: bool) -> Make:
    """An environment template with an application."""

    async def make(place: Place) -> Names:
        component: dict[str, Any] = {
            "?": {"type": "org.App", "id": uuid.uuid4().hex}, "name": f"{MARK}-app",
        }  # fmt: skip
        name = f"{MARK}-{uuid.uuid4().hex[:8]}"
        body = {"name": name, "is_public": public, "services": [component]}
        made = (await place.ok("ann", "POST", "/v1/templates", body))["id"]
        if not public:
            place.known |= {made, component["?"]["id"]}
        return {"template_id": made, "path": component["?"]["id"]}

    return make


async def deployed(place: Place) -> Names:
    """The same, waiting for an engine."""
    names = await environment(place)
    base = f"/v1/environments/{names['environment_id']}"
    await place.ok("ann", "POST", f"{base}/sessions/{names['session_id']}/deploy")
    task = (await place.ok("ann", "GET", f"{base}/deployments"))["deployments"][0]["id"]
    place.known.add(task)
    return {**names, "deployment_id": task, "task_id": task, "action_id": "none"}


def archive(name: str) -> bytes:
    """A small package."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as opened:
        opened.writestr(
            "manifest.yaml",
            f"Format: '1.4'\nType: Application\nFullName: {name}\nVersion: 1.0.0\nName: {name}\n"
            f"Description: {MARK}\nAuthor: {MARK}\nTags: []\nClasses:\n  {name}: App.yaml\n",
        )
        opened.writestr("Classes/App.yaml", "Name: App\n")
        opened.writestr("UI/ui.yaml", f"Version: 2\nApplication: {{}}\n# {MARK}\n")
    return buffer.getvalue()


async def package(place: Place, who: str = "ann", metadata: str = "{}") -> Names:
    """A package of the project's own."""
    answer = await place.http.request(
        "POST", "/v1/catalog/packages",
        files=[("m", (None, metadata)), ("a", ("a.zip", archive(f"own.P{uuid.uuid4().hex[:8]}")))],
        headers={"X-Auth-Token": place.tokens[who]},
    )  # fmt: skip
    assert answer.status == 200, answer.text
    made = answer.json()["id"]
    if who == "ann":
        place.known.add(made)
    return {"package_id": made, "part": "ui"}


async def wizard(place: Place) -> Names:
    """The form of a package, begun."""
    made = await package(place)
    answer = await place.ok("ann", "POST", "/v1/wizards", {"package": made["package_id"]})
    place.known.add(answer["id"])
    return {"wizard_id": answer["id"], "page": "workflowManagement"}


async def shared_package(place: Place) -> Names:
    """A package that an operator made public."""
    return await package(place, "root", '{"is_public": true}')


async def category(place: Place) -> Names:
    """A category: everybody's, made by operators."""
    name = f"c{uuid.uuid4().hex[:8]}"
    made = await place.ok("root", "POST", "/v1/catalog/categories", {"name": name})
    return {"category_id": made["id"]}


def net(kind: str, **body: Any) -> Make:
    """An object of a network kind; what it hangs on is made with it."""

    async def make(place: Place) -> Names:
        given = dict(body)
        names: Names = {}
        if kind in ("subnets", "ports") or "subnet" in given:
            network = (await place.ok("ann", "POST", "/compute/networks", {"name": MARK}))["uuid"]
            number = len(place.known)
            cidr = f"10.{64 + number // 200 % 64}.{number % 200}.0/24"
            subnet = {"network_uuid": network, "cidr": cidr}
            place.known |= {network, cidr}
            given["network_uuid"] = network
            if kind == "subnets":
                given["cidr"] = cidr
            else:
                made = await place.ok("ann", "POST", "/compute/subnets", subnet)
                names["subnet"] = made["uuid"]
                place.known.add(made["uuid"])
        if given.pop("subnet", None):
            del given["network_uuid"]
        made = await place.ok("ann", "POST", f"/compute/{kind}", given)
        place.known.add(made["uuid"])
        return {**names, "uuid": made["uuid"], "router": made["uuid"]}

    return make


async def joined(place: Place) -> Names:
    """A router with a subnet."""
    names = await net("routers", subnet=True)(place)
    path = f"/compute/routers/{names['router']}/interfaces/{names['subnet']}"
    await place.ok("ann", "PUT", path)
    return names


async def external(place: Place) -> Names:
    """The shared network."""
    rows = await place.ok("root", "GET", "/compute/networks")
    return {"uuid": next(one["uuid"] for one in rows if one["external"])}


async def keypair(place: Place) -> Names:
    """A public key."""
    name = f"{MARK}-key-{uuid.uuid4().hex[:6]}"
    await place.ok("ann", "PUT", f"/compute/keypairs/{name}", {"public_key": f"ssh {MARK}"})
    return {"name": name}


def image(*, public: bool) -> Make:
    """An image with a file; one that is not public is the project's."""

    async def make(place: Place) -> Names:
        body = {"name": MARK, "public": public}
        made = (await place.ok("root", "POST", "/compute/images", body))["uuid"]
        await place.ok("root", "PUT", f"/compute/images/{made}/file", b"data")
        if not public:
            place.known.add(made)
            with contextlib.closing(sqlite3.connect(place.file, timeout=30)) as opened:
                opened.execute(
                    "UPDATE compute_images SET owner_uuid = ? WHERE uuid = ?",
                    (place.projects["ours"], made),
                )
                opened.commit()
        return {"uuid": made}

    return make


async def machine(place: Place) -> Names:
    """A VM of the project, and the task that makes it."""
    one = await image(public=True)(place)
    body: dict[str, Any] = {
        "uuid": str(uuid.uuid4()), "image_uuid": one["uuid"], "brand": "lx", "alias": MARK,
        "owner_uuid": place.projects["ours"], "max_physical_memory": 64, "quota": 1,
    }  # fmt: skip
    started = await place.ok("root", "POST", f"/compute/servers/{SERVER}/vms", body)
    place.known |= {body["uuid"], started["id"]}
    await place.ok("root", "GET", f"/compute/tasks/{started['id']}/wait?timeout=20")
    return {"server_uuid": SERVER, "uuid": body["uuid"], "task_id": started["id"]}


async def volume(place: Place) -> Names:
    """A volume that no VM has had."""
    made = (await place.ok("ann", "POST", "/compute/volumes", {"name": MARK, "size": 1}))["uuid"]
    place.known.add(made)
    return {"uuid": made}


def volume_copy(kind: str) -> Make:
    """A snapshot or a backup: one that failed, as nothing was ever in the volume."""

    async def make(place: Place) -> Names:
        of, made = (await volume(place))["uuid"], str(uuid.uuid4())
        body = {"uuid": made, "volume_uuid": of, "name": MARK}
        answer = await place.call("ann", "POST", f"/compute/volume-{kind}", body)
        assert answer.status == 409, answer.text
        place.known.add(made)
        return {"uuid": made}

    return make


async def server(place: Place) -> Names:
    """The node."""
    return {"server_uuid": SERVER, "task_uuid": str(uuid.uuid4())}


async def account(place: Place) -> Names:
    """A user and a credential of his."""
    path = f"/identity/v3/users/{place.users['ann']}/application_credentials"
    body = {"application_credential": {"name": f"{MARK}-{uuid.uuid4().hex[:8]}"}}
    made = await place.ok("ann", "POST", path, body)
    return {"user_id": place.users["ann"], "id_": made["application_credential"]["id"]}


async def own_user(place: Place) -> Names:
    """The user himself."""
    return {"id_": place.users["ann"], "user_id": place.users["ann"]}


async def own_project(place: Place) -> Names:
    """The project that the user is in."""
    return {"id_": place.projects["ours"], "project_id": place.projects["ours"]}


async def plan(place: Place) -> Names:
    """A plan in our guest's mailbox."""
    made = uuid.uuid4().hex
    await Mailboxes(place.database).send("guest-ours", made, MARK.encode())
    return {"message_id": made}


async def handle(place: Place) -> Names:
    """A handle whose address nobody here knows."""
    made = uuid.uuid4().hex
    await Mailboxes(place.database).signals.open(made, place.projects["ours"])
    return {"handle": made}


PATCH_PACKAGE = "application/murano-packages-json-patch"
PATCH_MODEL = "application/env-model-json-patch"
E, T = "/v1/environments/{environment_id}", {"?": {"type": "org.App"}, "name": MARK}
P = "/v1/templates/{template_id}"
ONE = [{"op": "replace", "path": "/name", "value": f"{MARK}-2"}]
CATALOG = {
    # Whatever begins with no version of the API: the versions again (catalog-api.md §1).
    **{
        f"{method} /{{anything}}": Row("public", good=(300,))
        for method in ("DELETE", "GET", "PATCH", "POST", "PUT")
    },
    "GET /": Row("public", good=(300,)),
    "GET /v1": Row("public"),
    "GET /v1/environments": Row("list", environment),
    "POST /v1/environments": Row("people", body={"name": "e"}),
    f"GET {E}": Row("owned", environment),
    f"PUT {E}": Row("owned", environment, {"name": f"{MARK}-r"}),
    f"DELETE {E}": Row("owned", environment),
    f"POST {E}/configure": Row("owned", environment),
    f"GET {E}/leaked": Row("owned", environment),
    f"DELETE {E}/leaked/{{object_id}}": Row("owned", environment, good=(404,)),
    f"GET {E}/sessions/{{session_id}}": Row("owned", environment),
    f"DELETE {E}/sessions/{{session_id}}": Row("owned", environment),
    f"POST {E}/sessions/{{session_id}}/deploy": Row("owned", environment),
    f"GET {E}/sessions": Row("owned", environment),
    f"POST {E}/sessions/{{session_id}}/rebase": Row("owned", environment, good=(400, 403, 409)),
    "GET /v1/templates": Row("list", template(public=False)),
    "POST /v1/templates": Row("people", body={"name": "t"}),
    f"GET {P}": Row("owned", template(public=False)),
    f"PUT {P}": Row("owned", template(public=False), {"name": "u"}),
    f"DELETE {P}": Row("owned", template(public=False)),
    f"POST {P}/clone": Row("owned", template(public=False), {"name": "c"}, good=(403,)),
    f"POST {P}/create-environment": Row("owned", template(public=False), {"name": "of"}),
    f"GET {P}/services": Row("owned", template(public=False)),
    f"GET {P}/services/{{path}}": Row("owned", template(public=False)),
    f"POST {P}/services": Row("owned", template(public=False), T),
    f"PUT {P}/services/{{path}}": Row("owned", template(public=False), T),
    f"DELETE {P}/services/{{path}}": Row("owned", template(public=False)),
    "GET /v1/wizards": Row("list", wizard),
    "POST /v1/wizards": Row("people", body={"package": "none"}, good=(404,)),
    "GET /v1/wizards/{wizard_id}": Row("owned", wizard),
    "DELETE /v1/wizards/{wizard_id}": Row("owned", wizard),
    "GET /v1/wizards/{wizard_id}/definition": Row("owned", wizard),
    "GET /v1/wizards/{wizard_id}/pages/{page}": Row("owned", wizard),
    "POST /v1/wizards/{wizard_id}/pages/{page}": Row("owned", wizard, {"values": {}}),
    "POST /v1/wizards/{wizard_id}/pages/{page}/check": Row("owned", wizard, {"values": {}}),
    "POST /v1/wizards/{wizard_id}/build": Row("owned", wizard, {}, good=(400,)),
    "POST /v1/wizards/{wizard_id}/finish": Row("owned", wizard, {}, good=(400,)),
    "GET /v1/upgrades": Row("people"),
    f"GET {E}/upgrades": Row("owned", environment),
    f"GET {E}/packages": Row("owned", environment),
    f"PUT {E}/packages": Row("owned", environment, {"packages": {}}),
    # No application of it has a package: nobody asks an engine.
    f"POST {E}/upgrades": Row("owned", environment, {}),
    f"POST {E}/upgrades/preview": Row("owned", environment, {}),
    f"GET {E}/services": Row("owned", environment),
    f"GET {E}/services/{{path}}": Row("owned", environment, good=(404,)),
    f"POST {E}/services": Row("owned", environment, T),
    f"POST {E}/services/{{path}}": Row("owned", environment, T, good=(404,)),
    f"PUT {E}/services": Row("owned", environment, [T]),
    f"PUT {E}/services/{{path}}": Row("owned", environment, "x", good=(400, 404)),
    f"DELETE {E}/services": Row("owned", environment),
    f"DELETE {E}/services/{{path}}": Row("owned", environment, good=(404,)),
    f"GET {E}/model": Row("owned", environment),
    f"GET {E}/model/{{path}}": Row("owned", environment),
    f"PATCH {E}/model": Row("owned", environment, ONE, PATCH_MODEL),
    "GET /v1/deployments": Row("list", deployed),
    "GET /v1/events": Row("people", query="?seconds=0"),
    f"GET {E}/deployments": Row("owned", deployed),
    f"GET {E}/deployments/{{deployment_id}}": Row("owned", deployed),
    f"GET {E}/deployments/{{deployment_id}}/trace": Row("owned", deployed),
    f"POST {E}/deployments/{{deployment_id}}/cancel": Row("owned", deployed),
    f"POST {E}/deployments/{{deployment_id}}/restore": Row("owned", deployed, good=(403,)),
    f"GET {E}/deployments/{{deployment_id}}/events": Row("owned", deployed),
    f"GET {E}/lastStatus": Row("owned", environment),
    f"POST {E}/actions/{{action_id}}": Row("owned", deployed, {}, good=(403, 404)),
    f"GET {E}/actions/{{task_id}}": Row("owned", deployed),
    f"GET {E}/instance-statistics/aggregated": Row("owned", environment),
    f"GET {E}/instance-statistics/raw": Row("owned", environment),
    f"GET {E}/instance-statistics/raw/{{instance_id}}": Row("owned", environment),
    # What there is of an engine here: none, so the calls end with 504.
    "POST /v1/actions": Row("people", body={"className": "a.B", "methodName": "m"}, good=(504,)),
    "GET /v1/stats": Row("operators"),
    "GET /v1/quotas": Row("people"),
    "GET /v1/quotas/{project_id}": Row("owned", own_project),
    "PUT /v1/quotas/{project_id}": Row("operators", own_project, {}),
    "DELETE /v1/quotas/{project_id}": Row("operators", own_project),
    "GET /v1/flavors": Row("people", good=(404,)),
    # There is no compute service to ask here.
    "GET /v1/networks": Row("people", good=(503,)),
    "GET /v1/schemas/{class_name}": Row("people", good=(504,)),
    "GET /v1/schemas/{class_name}/{method_names}": Row("people", good=(504,)),
    "GET /v1/catalog/packages": Row("list", package, query="?owned=true"),
    "POST /v1/catalog/packages": Row("people", good=(400,)),
    "POST /v1/catalog/checks": Row("people", good=(400,)),
    "GET /v1/catalog/repository": Row("people"),
    "POST /v1/catalog/bundles": Row("people", body={"text": "Packages: []"}),
    "POST /v1/catalog/imports": Row("people", body={"name": "org.acme.none"}),
    "GET /v1/catalog/packages/{package_id}": Row("owned", package),
    "PATCH /v1/catalog/packages/{package_id}": Row("owned", package, ONE, PATCH_PACKAGE),
    "PUT /v1/catalog/packages/{package_id}": Row("owned", package, good=(400,)),
    "DELETE /v1/catalog/packages/{package_id}": Row("owned", package),
    "GET /v1/catalog/packages/{package_id}/download": Row("owned", package),
    "GET /v1/catalog/packages/{package_id}/needs": Row("owned", package),
    "GET /v1/catalog/packages/{package_id}/{part}": Row("owned", package),
    "GET /v1/catalog/categories": Row("people"),
    "POST /v1/catalog/categories": Row("operators", body={"name": "c"}),
    "GET /v1/catalog/categories/{category_id}": Row("people", category),
    "DELETE /v1/catalog/categories/{category_id}": Row("operators", category),
}
KINDS: dict[str, dict[str, Any]] = {
    "networks": {"name": MARK},
    "subnets": {"name": MARK},
    "routers": {"name": MARK},
    "security-groups": {"name": MARK},
    "ports": {"name": MARK},
    "floating-ips": {},
}
COMPUTE = {
    "GET /ping": Row("public"),
    "GET /info": Row("public"),
    "GET /servers": Row("list", machine, query="?extras=all"),
    "GET /incarnations": Row("list", machine),
    "GET /servers/{server_uuid}/vms/{uuid}": Row("owned", machine),
    "GET /tasks/{task_id}": Row("owned", machine),
    "GET /tasks/{task_id}/wait": Row("owned", machine),
    "GET /images": Row("list", image(public=False)),
    "GET /images/{uuid}": Row("owned", image(public=False)),
    "GET /images/{uuid}/file": Row("owned", image(public=False)),
    "PUT /routers/{router}/interfaces/{subnet}": Row("owned", net("routers", subnet=True)),
    "DELETE /routers/{router}/interfaces/{subnet}": Row("owned", joined),
    # Everybody has his own names.
    "GET /keypairs": Row("list", keypair),
    "GET /keypairs/{name}": Row("owned", keypair),
    "PUT /keypairs/{name}": Row("people", body={"public_key": "ssh"}),
    "DELETE /keypairs/{name}": Row("owned", keypair),
    **{
        f"{method} /{kind}{suffix}": Row(what, net(kind, **body), sent)
        for kind, body in KINDS.items()
        for method, suffix, what, sent in (
            ("GET", "", "list", None),
            ("GET", "/{uuid}", "owned", None),
            ("PUT", "/{uuid}", "owned", body),
            ("DELETE", "/{uuid}", "owned", None),
        )
    },
    "GET /offers": Row("people"),
    "GET /volumes": Row("list", volume),
    "POST /volumes": Row("people", body={"size": 1}),
    "GET /volumes/{uuid}": Row("owned", volume),
    "PUT /volumes/{uuid}": Row("owned", volume, {"name": MARK}),
    "DELETE /volumes/{uuid}": Row("owned", volume),
    "POST /volumes/{uuid}/attach": Row("owned", volume, {"vm_uuid": SERVER}, good=(404,)),
    "POST /volumes/{uuid}/detach": Row("owned", volume, {}),
    "POST /volume-backups/{uuid}/restore": Row(
        "owned", volume_copy("backups"), {"volume_uuid": SERVER}, good=(404,)
    ),
    **{
        f"{method} /volume-{kind}{suffix}": Row(what, volume_copy(kind))
        for kind in ("snapshots", "backups")
        for method, suffix, what in (
            ("GET", "", "list"),
            ("GET", "/{uuid}", "owned"),
            ("DELETE", "/{uuid}", "owned"),
        )
    },
    **{
        f"POST /volume-{kind}": Row("people", body={"volume_uuid": SERVER}, good=(404,))
        for kind in ("snapshots", "backups")
    },
    **{
        f"POST /{kind}": Row("people", body={}, good=(500,) if kind in ("subnets", "ports") else ())
        for kind in KINDS
    },
    "POST /servers/{server_uuid}": Row("node", server, {"agents": []}),
    "POST /servers/{server_uuid}/sysinfo": Row("node", server, {"sysinfo": {"UUID": SERVER}}),
    "POST /servers/{server_uuid}/events/heartbeat": Row("node", server),
    "POST /servers/{server_uuid}/events/status": Row("node", server, {"vms": {}}),
    "POST /servers/{server_uuid}/events/vm": Row("node", server, {"vms": {}}),
    "POST /servers/{server_uuid}/events/vms": Row("node", server, {"vms": {}}),
    "POST /servers/{server_uuid}/events/images": Row("node", server, {"images": {}}),
    "GET /servers/{server_uuid}/agent/next-task": Row("node", server, query="?timeout=0"),
    "POST /servers/{server_uuid}/agent/tasks/{task_uuid}": Row(
        "node", server, {"status": 200, "body": {}}, good=(404,)
    ),
}  # fmt: skip
U = "/v3/users/{user_id}"
LOGIN: dict[str, Any] = {"auth": {"identity": {"methods": ["password"], "password": {}}}}
CREDENTIAL = {"application_credential": {"name": "again"}}
IDENTITY = {
    "GET /": Row("public", good=(300,)),
    "GET /v3": Row("public"),
    "POST /v3/auth/tokens": Row("public", body=LOGIN, good=(400,)),
    "GET /v3/auth/tokens": Row("people", good=(404,)),
    "DELETE /v3/auth/tokens": Row("people", good=(404,)),
    "GET /v3/auth/catalog": Row("people"),
    "GET /v3/auth/projects": Row("people"),
    "GET /v3/auth/domains": Row("people"),
    # The services of an installation and its roles are not secret.
    **{f"GET /v3/{one}": Row("people") for one in
       ("services", "endpoints", "regions", "roles", "domains")},
    **{f"GET /v3/{one}/{{id_}}": Row("people", good=(404,))
       for one in ("services", "endpoints", "regions", "roles")},
    f"GET {U}/projects": Row("owned", own_user),
    f"POST {U}/password": Row(
        "owned", own_user, {"user": {"original_password": "no", "password": "x" * 20}}, good=(401,)
    ),
    "GET /v3/users/{id_}": Row("owned", own_user),
    "GET /v3/projects/{id_}": Row("owned", own_project),
    f"POST {U}/application_credentials": Row("owned", own_user, CREDENTIAL),
    f"GET {U}/application_credentials": Row("owned", account),
    f"GET {U}/application_credentials/{{id_}}": Row("owned", account),
    f"DELETE {U}/application_credentials/{{id_}}": Row("owned", account),
}  # fmt: skip
AGENTS = {
    "GET /v1/plans": Row("guest", plan, query="?wait=0"),
    "POST /v1/plans/{message_id}/ack": Row("guest", plan),
    "POST /v1/results": Row("guest", plan, {"FormatVersion": "2.0.0"}, good=(400,)),
    "POST /v1/alive": Row("guest", plan, {"version": "1"}),
    "POST /v1/signals/{handle}": Row("public", handle, query="?signature=no", good=(401,)),
    "PUT /v1/signals/{handle}": Row("public", handle, query="?signature=no", good=(401,)),
    "GET /v1/agent.pyz": Row("public"),
}
#: The v0.3 dialect: the same calls without a version (catalog-api.md §7).
_V03 = (
    *("GET", "PUT", "DELETE", "POST /configure", "GET /lastStatus", "GET /deployments"),
    *("GET /sessions/{session_id}", "DELETE /sessions/{session_id}"),
    *("POST /sessions/{session_id}/deploy", "GET /deployments/{deployment_id}"),
    *("GET /instance-statistics/aggregated", "GET /instance-statistics/raw"),
    "GET /instance-statistics/raw/{instance_id}",
    *(
        f"{verb} /services{path}"
        for verb in ("GET", "POST", "PUT", "DELETE")
        for path in ("", "/{path}")
    ),
)
for _one in _V03:
    _verb, _, _path = _one.partition(" ")
    CATALOG[f"{_verb} {E.removeprefix('/v1')}{_path}"] = CATALOG[f"{_verb} {E}{_path}"]
CATALOG["PUT /environments/{environment_id}"] = Row("owned", environment, body={"name": "v03-r"})
CATALOG["GET /environments"] = CATALOG["GET /v1/environments"]
CATALOG["POST /environments"] = Row("people", body={"name": "v03"})

#: Definitions of the caller's project, named by the caller: any member; tests/repository has the rest.
REPOSITORY = {
    f"{one.verbs} {one.path.replace(':path', '')}": Row("people", good=(400, 403, 404, 405))
    for one in REPOSITORY_ENDPOINTS
}
TABLES = {
    "repository": REPOSITORY,
    "catalog": CATALOG,
    "compute": COMPUTE,
    "identity": IDENTITY,
    "agents": AGENTS,
}
#: What is read and is not for readers: what actions returned, and what others have entered into forms.
MEMBERS = {
    f"GET {E}/actions/{{task_id}}",
    "GET /v1/wizards/{wizard_id}",
    "GET /v1/wizards/{wizard_id}/definition",
    "GET /v1/wizards/{wizard_id}/pages/{page}",
}
#: Faces on which what is not named is for operators.
CLOSED = {"compute", "identity"}

#: Shared objects: users who are not operators may read them, but not change them.
SHARED: list[tuple[str, str, Make, Any, str, bool]] = [
    ("GET", P, template(public=True), None, "", True),
    ("GET", "/v1/catalog/packages/{package_id}", shared_package, None, "", True),
    ("GET", "/v1/catalog/packages/{package_id}/download", shared_package, None, "", True),
    ("GET", "/v1/catalog/packages/{package_id}/needs", shared_package, None, "", True),
    ("GET", "/v1/catalog/packages/{package_id}/{part}", shared_package, None, "", True),
    ("PATCH", "/v1/catalog/packages/{package_id}", shared_package, ONE, PATCH_PACKAGE, False),
    ("PUT", "/v1/catalog/packages/{package_id}", shared_package, None, "", False),
    ("DELETE", "/v1/catalog/packages/{package_id}", shared_package, None, "", False),
    ("GET", "/v1/catalog/categories/{category_id}", category, None, "", True),
    ("DELETE", "/v1/catalog/categories/{category_id}", category, None, "", False),
    ("GET", "/compute/networks/{uuid}", external, None, "", True),
    ("PUT", "/compute/networks/{uuid}", external, {"name": "x"}, "", False),
    ("DELETE", "/compute/networks/{uuid}", external, None, "", False),
    ("GET", "/compute/images/{uuid}", image(public=True), None, "", True),
    ("GET", "/compute/images/{uuid}/file", image(public=True), None, "", True),
    ("GET", "/compute/images/{uuid}/copies", image(public=True), None, "", False),
    ("PUT", "/compute/images/{uuid}/file", image(public=True), b"x", "", False),
    ("POST", "/compute/images/{uuid}/tags", image(public=True), {"tags": {"a": "b"}}, "", False),
    ("DELETE", "/compute/images/{uuid}", image(public=True), None, "", False),
]
