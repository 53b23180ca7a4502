"""The stock OpenStack client library against a running identity service."""

import asyncio
import json
import os
import socket
import sys
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from keystoneauth1 import _utils, session
from keystoneauth1.exceptions import http as keystone_errors
from keystoneauth1.identity import v3
from tests.waiting import eventually

from vetro.http import assemble, serve
from vetro.http.client import HttpClient
from vetro.identity import MIGRATIONS, CatalogEndpoint, Identity, IdentitySection
from vetro.storage import Database, migrate


@dataclass
class Running:
    """A served identity service."""

    url: str
    identity: Identity
    http: HttpClient

    def password(self, user: str = "admin", password: str = "pw", **scope: Any) -> v3.Password:
        """A password plugin, scoped to the project admin unless told otherwise."""
        chosen = scope or {"project_name": "admin", "project_domain_name": "Default"}
        return v3.Password(
            auth_url=f"{self.url}/v3",
            username=user,
            password=password,
            user_domain_name="Default",
            **chosen,
        )

    async def token(self, user: str = "admin", password: str = "pw", **scope: Any) -> str:
        """A token through the client library."""
        plugin = self.password(user, password, **scope)
        token = await in_thread(lambda s: s.get_token(), plugin)
        assert isinstance(token, str)
        return token

    async def call(self, method: str, path: str, token: str, json: Any = None) -> Any:
        """A raw request with a token."""
        return await self.http.request(
            method, f"{self.url}/v3{path}", json=json, headers={"X-Auth-Token": token}
        )


async def in_thread(work: Callable[[session.Session], Any], plugin: Any) -> Any:
    """Run the (blocking) client library beside the server's loop."""

    def run() -> Any:
        opened = session.Session(auth=plugin)
        try:
            return work(opened)
        finally:
            opened.session.close()

    return await asyncio.to_thread(run)


@pytest.fixture
async def running(tmp_path: Path) -> AsyncGenerator[Running, None]:
    """An identity service on a free port with the administrator's password 'pw'."""
    database = await Database.open(f"sqlite:///{tmp_path}/i.db")
    await migrate(database, [MIGRATIONS])
    identity = Identity(database, IdentitySection(admin_password="pw"))
    await identity.bootstrap_admin()
    listener = socket.create_server(("127.0.0.1", 0))
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/identity"
    endpoints = [
        CatalogEndpoint("identity", "vetro-identity", url),
        CatalogEndpoint("application-catalog", "vetro", "http://catalog.test"),
    ]
    stop, ready = asyncio.Event(), asyncio.Event()
    assembly = assemble([identity.face(endpoints)])
    server = asyncio.create_task(serve(assembly, [listener], stop, on_ready=ready.set))
    await ready.wait()
    async with HttpClient() as http:
        yield Running(url, identity, http)
    stop.set()
    await server
    await database.close()


async def test_password_login_finds_our_faces(running: Running) -> None:
    """keystoneauth logs in by password and finds the catalog's endpoint."""
    endpoint = await in_thread(
        lambda s: s.get_endpoint(service_type="application-catalog", interface="public"),
        running.password(),
    )
    assert endpoint == "http://catalog.test"


@pytest.mark.parametrize("days", [-2, 2])
async def test_a_client_whose_clock_is_wrong(
    running: Running, monkeypatch: pytest.MonkeyPatch, days: int
) -> None:
    """A client that is days behind or ahead works: what is valid is decided by the service's clock."""
    exact = _utils.from_utcnow
    monkeypatch.setattr(_utils, "from_utcnow", lambda **by: exact(**by) + timedelta(days=days))

    def twice(opened: session.Session) -> set[Any]:
        answers = [opened.get(f"{running.url}/v3/auth/projects") for _ in range(2)]
        return {one.status_code for one in answers}

    assert await in_thread(twice, running.password()) == {200}


async def test_token_login_is_rescoped_and_does_not_live_longer(running: Running) -> None:
    """keystoneauth's token plugin gets a scoped token that ends with the first."""
    first = await running.token(unscoped=True)
    plugin = v3.Token(
        auth_url=f"{running.url}/v3",
        token=first,
        project_name="admin",
        project_domain_name="Default",
    )
    second = await in_thread(lambda s: s.get_token(), plugin)
    one = (await running.identity.tokens.get(first)) or pytest.fail("no token")
    two = (await running.identity.tokens.get(second)) or pytest.fail("no token")
    assert (one.project_id, two.project_name) == (None, "admin")
    assert two.expires_at <= one.expires_at


async def test_application_credentials_log_in_until_they_are_deleted(running: Running) -> None:
    """keystoneauth's application credential plugin works; deletion ends credential and tokens."""
    token = await running.token()
    data = await running.identity.tokens.get(token)
    assert data is not None
    path = f"/users/{data.user_id}/application_credentials"
    made = await running.call(
        "POST",
        path,
        token,
        {"application_credential": {"name": "ci", "roles": [{"name": "member"}]}},
    )
    assert made.status == 201
    value = made.json()["application_credential"]

    def plugin() -> v3.ApplicationCredential:
        return v3.ApplicationCredential(
            auth_url=f"{running.url}/v3",
            application_credential_id=value["id"],
            application_credential_secret=value["secret"],
        )

    limited = await in_thread(lambda s: s.get_token(), plugin())
    principal = await running.identity.authenticator().authenticate(limited)
    assert principal is not None
    assert principal.roles == {"member"}
    listed = (await running.call("GET", path, token)).json()["application_credentials"]
    assert "secret" not in listed[0]
    assert (await running.call("DELETE", f"{path}/{value['id']}", token)).status == 204
    assert await running.identity.authenticator().authenticate(limited) is None
    with pytest.raises(keystone_errors.Unauthorized):
        await in_thread(lambda s: s.get_token(), plugin())


async def test_tokens_are_validated_and_revoked(running: Running) -> None:
    """GET, HEAD and DELETE on the token as Keystone's middleware uses them."""
    token = await running.token()
    headers = {"X-Auth-Token": token, "X-Subject-Token": token}
    url = f"{running.url}/v3/auth/tokens"
    shown = await running.http.request("GET", url, headers=headers)
    assert shown.json()["token"]["user"]["name"] == "admin"
    assert shown.json()["token"]["catalog"][1]["type"] == "application-catalog"
    assert (await running.http.request("HEAD", url, headers=headers)).status == 200
    assert (await running.http.request("DELETE", url, headers=headers)).status == 204
    assert (await running.http.request("GET", url, headers=headers)).status == 401


async def test_a_wrong_password_is_refused_and_then_throttled(running: Running) -> None:
    """After five failures the next attempt must wait, even with the right password."""
    body = {
        "auth": {
            "identity": {
                "methods": ["password"],
                "password": {
                    "user": {"name": "admin", "domain": {"id": "default"}, "password": "x"}
                },
            }
        }
    }
    url = f"{running.url}/v3/auth/tokens"
    statuses = [(await running.http.request("POST", url, json=body)).status for _ in range(6)]
    assert statuses == [401] * 5 + [429]
    body["auth"]["identity"]["password"]["user"]["password"] = "pw"  # type: ignore[index]
    answer = await running.http.request("POST", url, json=body)
    assert answer.status == 429
    assert int(answer.headers["retry-after"]) > 0
    assert answer.json()["error"]["code"] == 429


@pytest.mark.parametrize(
    "body",
    [
        None,
        [],
        {"auth": 1},
        {"auth": {"identity": {}}},
        {"auth": {"identity": {"methods": ["password"]}}},
        {"auth": {"identity": {"methods": ["password"], "password": {"user": {"name": 1}}}}},
        {"auth": {"identity": {"methods": ["token"], "token": {"id": 3}}}},
    ],
)
async def test_malformed_logins_are_400(running: Running, body: Any) -> None:
    """The error names the wrong member, and nothing crashes."""
    answer = await running.http.request("POST", f"{running.url}/v3/auth/tokens", json=body)
    assert answer.status == 400
    assert "Expecting" in answer.json()["error"]["message"]


async def test_users_projects_and_roles(running: Running) -> None:
    """An administrator creates a user with a role in a project, who can then log in there."""
    admin = await running.token()
    project = (await running.call("POST", "/projects", admin, {"project": {"name": "p"}})).json()
    user = (
        await running.call("POST", "/users", admin, {"user": {"name": "ann", "password": "secret"}})
    ).json()
    roles = (await running.call("GET", "/roles?name=member", admin)).json()["roles"]
    scope = {"project_name": "p", "project_domain_name": "Default"}
    with pytest.raises(keystone_errors.Unauthorized):
        await running.token("ann", "secret", **scope)
    path = f"/projects/{project['project']['id']}/users/{user['user']['id']}/roles/{roles[0]['id']}"
    assert (await running.call("PUT", path, admin)).status == 204
    assert (await running.call("HEAD", path, admin)).status == 204
    token = await running.token("ann", "secret", **scope)
    assert (await running.call("GET", "/users", token)).status == 403
    mine = (await running.call("GET", "/auth/projects", token)).json()["projects"]
    assert [one["name"] for one in mine] == ["p"]
    assert (await running.call("DELETE", path, admin)).status == 204
    assert await running.identity.authenticator().authenticate(token) is None


async def test_a_disabled_user_is_out_at_once(running: Running) -> None:
    """Disabling a user ends the tokens and the logins."""
    admin = await running.token()
    user_id, _ = await running.identity.add_user("bob", "b", project="q", roles=["member"])
    token = await running.token("bob", "b", project_name="q", project_domain_name="Default")
    changed = await running.call("PATCH", f"/users/{user_id}", admin, {"user": {"enabled": False}})
    assert changed.json()["user"]["enabled"] is False
    assert await running.identity.authenticator().authenticate(token) is None
    with pytest.raises(keystone_errors.Unauthorized):
        await running.token("bob", "b", project_name="q", project_domain_name="Default")


async def test_names_are_unique_and_missing_things_404(running: Running) -> None:
    """Conflicts and absent ids are reported as in Keystone."""
    admin = await running.token()
    assert (
        await running.call("POST", "/projects", admin, {"project": {"name": "admin"}})
    ).status == 409
    assert (await running.call("GET", "/projects/none", admin)).status == 404
    assert (await running.call("POST", "/users", admin, {"user": {"name": 5}})).status == 400
    assert (await running.call("GET", "/users", "")).status == 401


async def test_discovery_needs_no_token(running: Running) -> None:
    """Version documents are public."""
    assert (await running.http.request("GET", running.url)).status == 300
    answer = await running.http.request("GET", f"{running.url}/v3")
    assert answer.json()["version"]["id"].startswith("v3")


async def test_the_first_start_makes_one_administrator(tmp_path: Path) -> None:
    """A second bootstrap creates no user and shows no secret; stored secrets are hashes."""
    database = await Database.open(f"sqlite:///{tmp_path}/i.db")
    await migrate(database, [MIGRATIONS])
    identity = Identity(database)
    credentials = await identity.bootstrap_admin()
    assert credentials is not None
    assert len(credentials.password) >= 20
    assert await identity.bootstrap_admin() is None
    await database.close()
    assert credentials.password.encode() not in (tmp_path / "i.db").read_bytes()


async def test_the_stock_command_line_client_works(running: Running, tmp_path: Path) -> None:
    """``openstack`` creates and lists domains, projects, users and grants; the new user logs in."""
    environ = {
        **os.environ,
        "HOME": str(tmp_path),
        "OS_AUTH_URL": f"{running.url}/v3",
        "OS_IDENTITY_API_VERSION": "3",
        "OS_USERNAME": "admin",
        "OS_PASSWORD": "pw",
        "OS_PROJECT_NAME": "admin",
        "OS_USER_DOMAIN_NAME": "Default",
        "OS_PROJECT_DOMAIN_NAME": "Default",
    }

    async def openstack(arguments: str, **changes: str) -> Any:
        """What the client prints as JSON; an error of the client is the test's."""
        process = await asyncio.create_subprocess_exec(
            str(Path(sys.executable).with_name("openstack")),
            *arguments.split(),
            env={**environ, **changes},
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, errors = await process.communicate()
        assert process.returncode == 0, (arguments, errors.decode())
        return json.loads(out) if out.strip() else None

    domain = await openstack("domain create lab -f json")
    assert domain["name"] == "lab"
    await openstack("project create --domain lab --description tests apollo -f json")
    await openstack("user create --domain lab --project apollo --password secret-1 ann -f json")
    await openstack("role add --user ann --user-domain lab --project apollo member")
    await openstack("role add --user ann --user-domain lab --domain lab admin")
    names = await openstack("role assignment list --names --user ann --user-domain lab -f json")
    assert {(row["Role"], row["Project"], row["Domain"]) for row in names} == {
        ("member", "apollo@lab", ""),
        ("admin", "", "lab"),
    }
    services = await openstack("service list -f json")
    assert {row["Type"] for row in services} == {"identity", "application-catalog"}
    assert len(await openstack("endpoint list --interface public -f json")) == 2
    assert [row["Region"] for row in await openstack("region list -f json")] == ["RegionOne"]
    ann = {
        "OS_USERNAME": "ann",
        "OS_PASSWORD": "secret-1",
        "OS_USER_DOMAIN_NAME": "lab",
        "OS_PROJECT_NAME": "apollo",
        "OS_PROJECT_DOMAIN_NAME": "lab",
    }
    token = await openstack("token issue -f json", **ann)
    project = await openstack("project show --domain lab apollo -f json")
    assert token["project_id"] == project["id"]
    credential = await openstack("application credential create robot -f json", **ann)
    assert len(credential["Secret" if "Secret" in credential else "secret"]) > 20
    await openstack("role remove --user ann --user-domain lab --project apollo member")
    await openstack("user delete --domain lab ann")
    assert await openstack("user list --domain lab -f json") in ([], None)


async def test_a_domain_scope_needs_a_role_in_the_domain(running: Running) -> None:
    """A token for a domain has the roles in it; without a role there is no token."""
    with pytest.raises(keystone_errors.Unauthorized):
        await running.token(domain_name="Default")
    admin = await running.token()
    users = (await running.call("GET", "/users", admin)).json()["users"]
    roles = (await running.call("GET", "/roles?name=reader", admin)).json()["roles"]
    path = f"/domains/default/users/{users[0]['id']}/roles/{roles[0]['id']}"
    assert (await running.call("GET", path, admin)).status == 404
    assert (await running.call("PUT", path, admin)).status == 204
    assert (await running.call("GET", path, admin)).status == 204
    scoped = await running.token(domain_name="Default")
    domains = (await running.call("GET", "/auth/domains", scoped)).json()["domains"]
    assert [one["name"] for one in domains] == ["Default"]
    # A reader of the domain is no administrator.
    assert (await running.call("GET", "/users", scoped)).status == 403
    assert (await running.call("DELETE", path, await running.token())).status == 204
    assert (await running.call("GET", "/auth/domains", scoped)).status == 401


async def test_a_domain_in_use_is_kept_and_a_disabled_one_locks_its_users_out(
    running: Running,
) -> None:
    """Deleting a domain with users is refused; disabling it ends its users' tokens and logins."""
    admin = await running.token()
    domain = (await running.call("POST", "/domains", admin, {"domain": {"name": "lab"}})).json()
    id_ = domain["domain"]["id"]
    user = {"user": {"name": "ann", "password": "secret-1", "domain_id": id_}}
    made = await running.call("POST", "/users", admin, user)
    assert made.status == 201
    assert (await running.call("DELETE", f"/domains/{id_}", admin)).status == 403
    plugin = v3.Password(
        auth_url=f"{running.url}/v3", username="ann", password="secret-1", user_domain_id=id_
    )
    token = await in_thread(lambda s: s.get_token(), plugin)
    assert (await running.call("GET", "/auth/projects", token)).status == 200
    off = {"domain": {"enabled": False}}
    assert (await running.call("PATCH", f"/domains/{id_}", admin, off)).status == 200
    assert (await running.call("GET", "/auth/projects", token)).status == 401
    await running.call("DELETE", f"/users/{made.json()['user']['id']}", admin)
    assert (await running.call("DELETE", f"/domains/{id_}", admin)).status == 204


async def test_guesses_side_by_side_are_throttled_like_one_after_another(running: Running) -> None:
    """Of twenty simultaneous wrong passwords five are checked; the others must wait."""

    async def guess() -> int:
        body = {
            "auth": {
                "identity": {
                    "methods": ["password"],
                    "password": {
                        "user": {"name": "admin", "domain": {"id": "default"}, "password": "x"}
                    },
                }
            }
        }
        return (
            await running.http.request("POST", f"{running.url}/v3/auth/tokens", json=body)
        ).status

    statuses = await asyncio.gather(*(guess() for _ in range(20)))
    assert sorted(statuses) == [401] * 5 + [429] * 15


async def test_a_token_revoked_elsewhere_is_forgotten_here(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A notification of another process's revocation clears the cache of this one."""
    monkeypatch.setattr("vetro.identity.tokens.CACHE_SECONDS", 1e9)
    token = await running.token()
    assert await running.identity.tokens.get(token) is not None
    other = Identity(running.identity.database)
    assert await other.tokens.get(token) is not None
    watching = asyncio.create_task(other.tokens.watch())
    admin = await running.token()
    headers = {"X-Auth-Token": admin, "X-Subject-Token": token}
    answer = await running.http.request("DELETE", f"{running.url}/v3/auth/tokens", headers=headers)
    assert answer.status == 204

    async def gone() -> bool:
        return await other.tokens.get(token) is None

    await eventually(gone)
    watching.cancel()


@pytest.mark.parametrize("domain", ["default", "DEFAULT", "Default"])
async def test_a_domain_is_found_by_its_name_in_any_case(running: Running, domain: str) -> None:
    """The stock clients' default ``default`` logs in, as user's and as project's domain."""
    plugin = v3.Password(
        auth_url=f"{running.url}/v3",
        username="admin",
        password="pw",
        user_domain_name=domain,
        project_name="admin",
        project_domain_name=domain,
    )
    token = await in_thread(lambda s: s.get_token(), plugin)
    found = await running.call("GET", f"/domains?name={domain}", token)
    assert [row["id"] for row in found.json()["domains"]] == ["default"]


async def test_names_of_domains_differ_by_more_than_case(running: Running) -> None:
    """Two domains cannot differ only in case; a domain may change the case of its own name."""
    token = await running.token()
    for name in ("default", "DEFAULT"):
        taken = await running.call("POST", "/domains", token, {"domain": {"name": name}})
        assert taken.status == 409
    made = await running.call("POST", "/domains", token, {"domain": {"name": "Zürich"}})
    domain = made.json()["domain"]["id"]
    for name, status in (("ZÜRICH", 200), ("Default", 409), ("default", 409)):
        change = {"domain": {"name": name}}
        answer = await running.call("PATCH", f"/domains/{domain}", token, change)
        assert answer.status == status, answer.text
    assert (await running.call("GET", "/domains?name=none", token)).json()["domains"] == []
