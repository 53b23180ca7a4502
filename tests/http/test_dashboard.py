"""The dashboard's server side: sessions of browsers, the way to the faces, files, bookmarks."""

import gzip
import re
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from litestar import Request, get

from vetro.http import (
    Assembly,
    Customs,
    DashboardSection,
    Principal,
    ServicePart,
    assemble,
    dashboard_face,
    make_face,
    principal_of,
)
from vetro.http.client import HttpClient, Response
from vetro.http.dashboard.sessions import Link, Sealer, Session
from vetro.identity import MIGRATIONS, Identity, forwarding_face
from vetro.identity.passwords import hash_password
from vetro.identity.service import add_user
from vetro.storage import Database, migrate

ORIGIN = "http://vetro"
CSRF = {"X-Vetro-Dashboard": "1"}
SVG = b'<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'


@get("/v1/who")
async def who(request: Request[Any, Any, Any]) -> dict[str, Any]:
    principal = principal_of(request)
    return {
        "user": principal.user_name,
        "project": principal.project_id,
        "seen": {name: request.headers.get(name) for name in ("cookie", "authorization")},
    }


@get("/v1/logo", media_type="image/svg+xml")
async def logo() -> bytes:
    return SVG


@dataclass
class Browser:
    """A client that keeps the session's cookie, as a browser does."""

    http: HttpClient
    cookie: str = ""

    async def ask(self, method: str, path: str, json: Any = None, **headers: str) -> Response:
        given = {
            **CSRF,
            "Cookie": self.cookie,
            **{k.replace("_", "-"): v for k, v in headers.items()},
        }
        answer = await self.http.request(
            method, f"/dashboard{path}", headers=given, **({} if json is None else {"json": json})
        )
        if "set-cookie" in answer.headers:
            self.cookie = answer.headers["set-cookie"].partition(";")[0]
        return answer

    async def sign_in(self, user: str = "ann", password: str = "secret", **more: str) -> Response:
        return await self.ask("POST", "/api/session", {"user": user, "password": password, **more})


@pytest.fixture
async def identity(tmp_path: Path) -> AsyncGenerator[Identity, None]:
    """Users ann (projects ours and theirs) and eve (no project)."""
    database = await Database.open(f"sqlite:///{tmp_path}/vetro.db", data_dir=tmp_path)
    await migrate(database, [MIGRATIONS])
    made = Identity(database)
    await made.bootstrap_admin()
    await member(made, "ann", project="ours")
    yield made
    await database.close()


async def member(identity: Identity, name: str, *, project: str) -> str:
    """Make a user with the role member in a project; the project's id."""
    hashed = await hash_password("secret")
    async with identity.database.transaction() as tx:
        _, made = await add_user(tx, name, hashed, project, ["member"])
    return made


async def parts() -> list[ServicePart]:
    """One part that works, and one that does not."""
    return [ServicePart("database", "SQLite"), ServicePart("disk", "", "the disk is full")]


def allowed(caller: Principal) -> list[str]:
    """Names the caller: a policy's rules are about who it is."""
    return [f"{caller.user_name} in {caller.project_name} as {' '.join(caller.roles)}"]


CUSTOMS = Customs(DashboardSection("Shop", use_fixed_network=True), 7.0, allowed)


def assembly_of(
    identity: Identity, files: Path, key: str = "key", keystone: HttpClient | None = None
) -> Assembly:
    """The faces of one process, with the dashboard's, for which identity may be a Keystone elsewhere."""
    face = make_face(
        name="catalog",
        prefix="",
        handlers=[who, logo],
        title="T",
        authenticator=identity.authenticator(),
    )
    faces = [face, identity.face([])]
    if keystone is None:
        return assemble([*faces, dashboard_face(faces, files, key, parts, CUSTOMS)])
    shown = [face, forwarding_face("http://keystone/identity", keystone)]
    return assemble([face, dashboard_face(shown, files, key, parts, CUSTOMS)])


@pytest.fixture(params=["built-in", "keystone"])
async def browser(
    request: pytest.FixtureRequest, identity: Identity, tmp_path: Path
) -> AsyncGenerator[Browser, None]:
    """A browser that is not signed in; identity is of the same process, or a Keystone elsewhere."""
    there = assemble([identity.face([])])
    async with there.running(), HttpClient(app=there, base_url="http://keystone") as keystone:
        given = keystone if request.param == "keystone" else None
        assembly = assembly_of(identity, tmp_path / "built", keystone=given)
        async with assembly.running(), HttpClient(app=assembly, base_url=ORIGIN) as http:
            yield Browser(http)


@pytest.fixture
async def stranger(tmp_path: Path) -> AsyncGenerator[Browser, None]:
    """A browser that is not signed in, at a dashboard where nobody can."""
    face = make_face(name="catalog", prefix="", handlers=[who, logo], title="T")
    assembly = assemble([face, dashboard_face([face], tmp_path / "built", "key")])
    async with assembly.running(), HttpClient(app=assembly, base_url=ORIGIN) as http:
        yield Browser(http)


async def test_a_session_is_a_cookie_that_no_script_can_read(browser: Browser) -> None:
    """Signing in answers with who it is and a cookie of that path; a face then sees its user."""
    answer = await browser.sign_in()
    assert answer.status == 200, answer.text
    assert answer.json()["user"]["name"] == "ann"
    assert answer.json()["project"]["name"] == "ours"
    assert [one["name"] for one in answer.json()["projects"]] == ["ours"]
    flags = answer.headers["set-cookie"].split("; ")
    assert {"HttpOnly", "SameSite=Strict", "Path=/dashboard"} <= set(flags)
    seen = (await browser.ask("GET", "/api/v1/who")).json()
    assert seen["user"] == "ann"
    assert seen["seen"] == {"cookie": None, "authorization": None}


async def test_the_token_is_never_sent_to_the_browser(browser: Browser) -> None:
    """Neither an answer nor the cookie has the token in readable form."""
    answer = await browser.sign_in()
    session = Sealer("key").session_of(browser.cookie)
    assert session is not None
    shown = await browser.ask("GET", "/api/session")
    for one in (answer, shown):
        assert session.token not in one.text + str(one.headers)


async def test_a_session_survives_a_restart(
    browser: Browser, identity: Identity, tmp_path: Path
) -> None:
    """Another process with the same key knows the session; one with another key does not."""
    await browser.sign_in()
    for key, status in (("key", 200), ("another", 401)):
        assembly = assembly_of(identity, tmp_path, key)
        async with assembly.running(), HttpClient(app=assembly, base_url=ORIGIN) as http:
            assert (await Browser(http, browser.cookie).ask("GET", "/api/v1/who")).status == status


@pytest.mark.parametrize(
    "body",
    [
        {"user": "ann", "password": "wrong"},
        {"user": "nobody", "password": "secret"},
        {"user": "ann", "password": "secret", "project": "nothing"},
        {"link": "gAAAAAB"},
        {"link": "é\ud7ff"},
    ],
)
async def test_a_wrong_sign_in_makes_no_session(browser: Browser, body: dict[str, str]) -> None:
    """A wrong name, password, project or link is 401 and says so; there is no cookie."""
    answer = await browser.ask("POST", "/api/session", body)
    assert answer.status == 401, answer.text
    assert answer.json()["error"]["message"]
    assert browser.cookie == ""


@pytest.mark.parametrize("body", [[], "text", {"user": 1}, {"user": "a" * 9000}, {}, {"link": []}])
async def test_a_malformed_sign_in_is_said_to_be_one(stranger: Browser, body: Any) -> None:
    """A body of the wrong shape is 400."""
    assert (await stranger.ask("POST", "/api/session", body)).status == 400


async def test_signing_out_ends_the_token(browser: Browser) -> None:
    """After signing out neither the browser nor anybody with the old cookie is signed in."""
    await browser.sign_in()
    old = browser.cookie
    assert (await browser.ask("DELETE", "/api/session")).status == 204
    assert browser.cookie == "vetro_session="
    browser.cookie = old
    assert (await browser.ask("GET", "/api/v1/who")).status == 401


async def test_the_project_can_be_changed(browser: Browser, identity: Identity) -> None:
    """A session goes on in another project of its user, and not in one of others."""
    theirs = await member(identity, "bob", project="theirs")
    await browser.sign_in()
    assert (await browser.ask("PUT", "/api/session", {"project": theirs})).status == 403
    mine = (await browser.ask("GET", "/api/session")).json()["project"]["id"]
    assert (await browser.ask("PUT", "/api/session", {"project": mine})).status == 200
    assert (await browser.ask("GET", "/api/v1/who")).json()["project"] == mine


async def test_a_link_signs_in_once(browser: Browser) -> None:
    """A link begins a session of its own for its first user; the second one is told that it is spent."""
    await browser.sign_in()
    made = (await browser.ask("POST", "/api/links")).json()
    assert made["url"].startswith(f"{ORIGIN}/dashboard/sign-in#")
    code = made["url"].partition("#")[2]
    first, second = Browser(browser.http), Browser(browser.http)
    assert (await first.ask("POST", "/api/session", {"link": code})).status == 200
    # The link is not the session that made it.
    await browser.ask("DELETE", "/api/session")
    assert (await first.ask("GET", "/api/v1/who")).json()["user"] == "ann"
    spent = await second.ask("POST", "/api/session", {"link": code})
    assert spent.status == 401
    assert "vetro dashboard" in spent.json()["error"]["message"]


def test_what_is_sealed_is_good_for_one_purpose_and_time() -> None:
    """A link is no session, another key opens nothing, and what is over is not opened."""
    sealer = Sealer("key")
    session = Session("token", 2**40)
    link = sealer.seal(Link(session, "once", 2**40))
    assert sealer.open(Link, link) == Link(session, "once", 2**40)
    assert sealer.open(Session, link) is None
    assert Sealer("other").open(Link, link) is None
    assert sealer.open(Session, sealer.seal(Session("token", 1))) is None


@pytest.mark.parametrize(
    ("method", "path", "headers"),
    [
        ("POST", "/api/session", {"X_Vetro_Dashboard": ""}),
        ("POST", "/api/session", {"Origin": "http://evil"}),
        ("POST", "/api/session", {"Origin": "https://vetro"}),
        ("DELETE", "/api/v1/who", {"X_Vetro_Dashboard": ""}),
        ("DELETE", "/api/v1/who", {"Origin": "null"}),
        ("GET", "/api/v1/who", {"Sec_Fetch_Site": "cross-site"}),
        ("GET", "/api/v1/who", {"Sec_Fetch_Site": "same-site"}),
    ],
)
async def test_pages_of_others_cannot_use_a_session(
    stranger: Browser, method: str, path: str, headers: dict[str, str]
) -> None:
    """Without our header, from another origin or site: 403, whatever the cookie is."""
    stranger.cookie = f"vetro_session={Sealer('key').seal(Session('token', 2**40))}"
    answer = await stranger.ask(method, path, {} if method != "GET" else None, **headers)
    assert answer.status == 403, answer.text


async def test_what_tenants_upload_can_run_nothing(browser: Browser) -> None:
    """A picture with a script is passed on with a policy that forbids scripts."""
    await browser.sign_in()
    answer = await browser.ask("GET", "/api/v1/logo")
    assert answer.content == SVG
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert answer.headers["content-security-policy"].endswith("sandbox")
    assert answer.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", ["/api/nothing", "/api/v1", "/api/agents/x", "/api/metrics"])
async def test_only_the_faces_are_reached(stranger: Browser, path: str) -> None:
    """What belongs to no face, or to one that is not for people, is 404 or 401 and never more."""
    assert (await stranger.ask("GET", path)).status in (401, 404)
    assert (await stranger.ask("GET", "/api/v1/who")).status == 401


@pytest.fixture
def built(tmp_path: Path) -> Path:
    """The files of a built dashboard."""
    directory = tmp_path / "built"
    (directory / "assets").mkdir(parents=True)
    (directory / "index.html").write_text('<meta name="csp-nonce" content="__CSP_NONCE__">')
    (directory / "assets/app-1a2b.js").write_text("let whole")
    (directory / "assets/app-1a2b.js.gz").write_bytes(gzip.compress(b"let packed"))
    return directory


async def test_pages_have_a_strict_policy_with_a_fresh_nonce(
    stranger: Browser, built: Path
) -> None:
    """Every address without a file is the application's page, which is not kept."""
    seen: set[str] = set()
    for path in ("", "/", "/catalog", "/environments/x/y.z", "/%2e%2e/etc/passwd"):
        answer = await stranger.ask("GET", path)
        policy = answer.headers["content-security-policy"]
        nonce = re.search(r"style-src 'self' 'nonce-([\w-]+)'", policy)
        assert answer.status == 200
        assert nonce is not None
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
        assert nonce[1] in answer.text
        assert answer.headers["cache-control"] == "no-store"
        seen.add(nonce[1])
    assert len(seen) == 5
    assert built.exists()


async def test_assets_are_kept_for_ever_and_sent_compressed(stranger: Browser, built: Path) -> None:
    """A file with a digest in its name is immutable; who takes gzip gets what was packed at the build."""
    path = f"/assets/{(built / 'assets/app-1a2b.js').name}"
    packed = await stranger.ask("GET", path, Accept_Encoding="gzip")
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.text == "let packed"
    assert "immutable" in packed.headers["cache-control"]
    plain = await stranger.ask("GET", path, Accept_Encoding="identity")
    assert plain.text == "let whole"
    assert plain.headers["content-type"].startswith("text/javascript")
    known = await stranger.ask("GET", path, If_None_Match=plain.headers["etag"])
    assert (known.status, known.content) == (304, b"")
    assert (await stranger.ask("GET", "/assets/other.js")).status == 404


async def test_a_dashboard_that_is_not_built_says_how(stranger: Browser) -> None:
    """Without files the page names the command, and the service needs no restart afterwards."""
    answer = await stranger.ask("GET", "/")
    assert answer.status == 503
    assert "make dashboard" in answer.text


BOOKMARKS = [
    ("catalog/switch_environment/e", "catalog?environment=e"),
    ("catalog/add/a/e", "environments/e/add/a"),
    ("catalog/add/a/e/True/False", "environments/e/add/a"),
    (
        "catalog/switch_environment/e?next=/dashboard/history",
        "catalog?environment=e&next=/dashboard/history",
    ),
    ("catalog/quick-add/a", "catalog/a/deploy"),
    ("catalog/details/a", "catalog/a"),
    ("catalog/images/a", "api/v1/catalog/packages/a/logo"),
    ("catalog/supplier-images/a", "api/v1/catalog/packages/a/supplier_logo"),
    ("environments/create_environment", "environments?create=true"),
    ("environments/e/services", "environments/e"),
    ("environments/e/services/get_d3_data", "environments/e/topology"),
    (f"environments/e/{'a' * 32}/", f"environments/e/components/{'a' * 32}"),
    ("environments/deployment_history", "history"),
    ("packages/upload", "packages?upload=true"),
    ("packages/import_bundle", "packages?import=true"),
    ("packages/modify/p", "packages?edit=p"),
    ("packages/p", "catalog/p"),
    ("packages/download/name/p", "api/v1/catalog/packages/p/download"),
    ("images/", "machines?tab=images"),
    ("images/mark_image", "machines?tab=images"),
    ("categories/add", "packages?categories=true"),
    ("app-catalog/", ""),
    ("app-catalog/catalog/?category=Web", "catalog?category=Web"),
    ("app-catalog/environments/e/services", "environments/e"),
    ("app-catalog/packages/p", "catalog/p"),
    ("catalog/details/%22%3E%0d%0aSet-Cookie: a=b", "catalog/%22%3E%0D%0ASet-Cookie%3A%20a=b"),
]


@pytest.mark.parametrize(("old", "new"), BOOKMARKS)
async def test_bookmarks_of_the_earlier_dashboard_lead_on(
    stranger: Browser, old: str, new: str
) -> None:
    """Each path of A1 is answered with the address of what it showed."""
    answer = await stranger.ask("GET", f"/{old}", accept="text/html,*/*;q=0.8")
    assert (answer.status, answer.headers["location"]) == (302, f"/dashboard/{new}")


async def test_the_panels_of_the_earlier_dashboard_are_pages(stranger: Browser) -> None:
    """The addresses of A1's table of panels lead nowhere else, or to the page that has what they had."""
    led = {"images": "machines?tab=images", "categories": "packages?categories=true"}
    for panel in ("catalog", "environments", "packages", "images", "categories", "templates"):
        answer = await stranger.ask("GET", f"/{panel}/")
        assert answer.headers.get("location") == (
            f"/dashboard/{led[panel]}" if panel in led else None
        )


async def test_pages_are_only_read(stranger: Browser) -> None:
    """Another method on a page is 405, and says which there are."""
    answer = await stranger.ask("POST", "/environments")
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")


async def test_a_session_says_what_its_user_may_and_what_pages_offer(browser: Browser) -> None:
    """The rules that the policy lets the user through, and the settings of the installation."""
    shown = (await browser.sign_in()).json()
    assert shown["allowed"] == ["ann in ours as member"]
    assert shown["settings"] == {
        "title": "Shop",
        "package_mib": 7.0,
        "image_project": "",
        "fixed_network": "murano_network",
    }


async def test_the_health_of_parts_is_for_who_is_signed_in(browser: Browser) -> None:
    """Every part says what it is and what is wrong; without a session nothing is said."""
    assert (await browser.ask("GET", "/api/health")).status == 401
    await browser.sign_in()
    answer = (await browser.ask("GET", "/api/health")).json()
    assert [(one["name"], one["problem"]) for one in answer["parts"]] == [
        ("database", ""),
        ("disk", "the disk is full"),
    ]
    assert answer["version"]
