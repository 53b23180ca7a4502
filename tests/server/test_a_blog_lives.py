"""A blog is lived with: WordPress with MariaDB in real containers, a post and a picture.

Whatever is changed around them, they are there afterwards, on the same machines at the same addresses."""

from __future__ import annotations

import json
import re
import shutil
import urllib.error
import urllib.parse
import urllib.request
import xmlrpc.client
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.ports import free_port
from tests.server.conftest import ROOT, Installation
from tests.waiting import until

pytestmark = [pytest.mark.thorough, pytest.mark.root, pytest.mark.e2e]
IMAGE = "blog"
PACKAGES = (
    "apache2,libapache2-mod-php,mariadb-server,php-curl,php-gd,php-intl,php-mbstring,php-mysql,php-xml,php-zip,"
    "wordpress,wordpress-theme-twentytwentythree"
)
PASSWORD = "Secret-12345"
ROTATED = "Rotated-12345"
TITLE = "What is kept is kept"
PICTURE = b"a picture, or what stands for one"
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBmSOIKVJdnPTyI8uwn0EUIInxQ1UOqkz8cQTXl8Qmwt"


class Blog:
    """The environment `blog` with what its author has put there."""

    def __init__(self, vetro: Installation) -> None:
        self.vetro = vetro
        for name in ("MariaDb", "WordPress"):
            vetro.run("package", "import", "--public", str(ROOT / "library" / name))
        vetro.run("env", "create", "blog")
        self.add("MariaDb", "--name", "store")
        self.add("WordPress", "--name", "site", "--set", f"password={PASSWORD}")
        vetro.run("env", "deploy", "blog")
        self.url = str(self.component("site")["url"])
        self.environment = next(one["id"] for one in vetro.json("env", "list"))
        self.write()
        self.machines = self.machines_now()
        self.addresses = self.addresses_now()
        self.kept("it was written")

    def add(self, sample: str, *options: str) -> None:
        """An application by its form."""
        self.vetro.run("env", "add", "blog", sample, "--set", f"image={IMAGE}", *options)

    def component(self, name: str) -> Any:
        """An application as it is deployed."""
        services = self.vetro.json("env", "model", "blog", "--path", "/services")
        return next(one for one in services if one["name"] == name)

    def write(self) -> None:
        """Finish the installation in the browser; write a post, and put a file beside it."""
        form = {
            "weblog_title": "A blog", "user_name": "author", "admin_password": PASSWORD,
            "admin_password2": PASSWORD, "pw_weak": "on", "admin_email": "author@blog.example",
            "blog_public": "0", "Submit": "Install",
        }  # fmt: skip
        body = urllib.parse.urlencode(form).encode()
        with urllib.request.urlopen(f"{self.url}wp-admin/install.php?step=2", body, 120) as answer:
            assert "Success" in answer.read().decode()
        author = xmlrpc.client.ServerProxy(f"{self.url}xmlrpc.php")
        post = {
            "post_title": TITLE,
            "post_content": "And named before it goes.",
            "post_status": "publish",
        }
        assert author.wp.newPost(0, "author", PASSWORD, post)
        text = f"mkdir -p {UPLOADS} && printf %s '{PICTURE.decode()}' > {UPLOADS}/picture.txt"
        self.vetro.run("vm", "exec", self.machines_now()["wordpress-1"], "--", "sh", "-c", text)

    def machines_now(self) -> dict[str, str]:
        """The running machines: their uuids by their names."""
        rows = self.vetro.json("vm", "list")
        return {one["alias"]: one["uuid"] for one in rows if one["state"] == "running"}

    def addresses_now(self) -> dict[str, Any]:
        """The addresses of the machines of the two components."""
        return {one: self.component(one)["instance"]["ipAddresses"] for one in ("store", "site")}

    def kept(self, after: str) -> None:
        """Post and picture can be read, and the machines are the same."""
        now = self.machines_now()
        assert {name: now.get(name) for name in self.machines} == self.machines, after
        assert self.addresses_now() == self.addresses, after
        assert TITLE in read(f"{self.url}?feed=rss2"), after
        assert read(f"{self.url}wp-content/uploads/picture.txt") == PICTURE.decode(), after

    def deploy(self, *options: str, code: int | None = 0) -> str:
        """What a deployment says."""
        return self.vetro.run("env", "deploy", "blog", *options, code=code)

    def form(self, begin: dict[str, str], **touched: Any) -> tuple[str, dict[str, Any]]:
        """What the pages of the dashboard do with a form: the session, and what the form showed."""
        at = f"/v1/environments/{self.environment}"
        session = self.call("POST", f"{at}/configure")["id"]
        where = {"environment_id": self.environment, "session_id": session}
        wizard = self.call("POST", "/v1/wizards", {**begin, **where}, session)
        page = self.call(
            "GET",
            f"/v1/wizards/{wizard['id']}/pages/{wizard['form']['pages'][0]['name']}",
            None,
            session,
        )
        shown: dict[str, Any] = {"version": wizard["package"]["version"]}
        while page:
            fields = page["fields"]
            shown |= {one["name"]: one["value"] for one in fields}
            # A secret that is there already is not shown, and stays as it is.
            values = {
                one["name"]: touched.get(one["name"], one["value"])
                for one in fields
                if not one.get("secret") or one["name"] in touched
            }
            # A new secret is entered twice.
            twice = [one for one in fields if one.get("confirmation") and one["name"] in touched]
            values |= {one["confirmation"]: touched[one["name"]] for one in twice}
            answer = self.call(
                "POST",
                f"/v1/wizards/{wizard['id']}/pages/{page['name']}",
                {"values": values},
                session,
            )
            assert answer["valid"], answer
            page = answer["page"]
        self.call("POST", f"/v1/wizards/{wizard['id']}/finish", where, session)
        return session, shown

    def change(self, name: str, **touched: Any) -> dict[str, Any]:
        """*Change* of a component in the browser, deployed; what its form showed."""
        begin = {"component_id": self.component(name)["?"]["id"]}
        session, shown = self.form(begin, **touched)
        self.deploy("--session", session)
        return shown

    def call(self, method: str, path: str, body: Any = None, session: str = "") -> Any:
        """A request that succeeds."""
        headers = {"X-Configuration-Session": session} if session else {}
        status, answer = self.vetro.http(method, path, body, **headers)
        assert status < 300, answer
        return answer


UPLOADS = "/var/lib/wordpress/wp-content/uploads"


def read(url: str) -> str:
    """What is at an address, over the network."""
    with urllib.request.urlopen(url, timeout=60) as answer:
        return str(answer.read().decode())


@pytest.fixture
def blog(install: Callable[..., Installation]) -> Blog:
    """The blog, on an installation that may be started again elsewhere."""
    vetro = install("blog", driver="lxc")
    cache = ROOT / "var/image-cache"
    vetro.run("image", "build", IMAGE, "--packages", PACKAGES, "--cache-dir", str(cache))
    return Blog(vetro)


def test_a_blog_lives_through_whatever_is_changed_around_it(blog: Blog, tmp_path: Path) -> None:
    """One after another, as over the months; each says what it has done."""
    changed_in_the_browser(blog)
    the_service_moves(blog)
    a_password_is_rotated(blog)
    the_package_is_upgraded(blog, tmp_path)
    a_second_site_comes(blog, tmp_path)
    the_database_is_taken_out(blog)
    a_key_pair_is_somebody_elses(blog, tmp_path)
    a_port_is_given_up(blog)
    a_member_imports_a_package(blog)
    a_host_name_is_changed(blog)
    blog.vetro.run("env", "destroy", "--yes", "blog")
    until(lambda: not blog.vetro.leftovers(), f"everything is gone: {blog.vetro.leftovers()}")


def changed_in_the_browser(blog: Blog) -> None:
    """With nothing touched, and with one field: the generated host name is the one there is."""
    for name in ("store", "site"):
        blog.change(name)
        blog.kept(f"Change of {name} with nothing touched")
    blog.change("site", flavor="m1.medium")
    assert blog.component("site")["instance"]["flavor"] == "m1.medium"
    blog.kept("Change of the size")


def the_service_moves(blog: Blog) -> None:
    """To another port: an unchanged deployment makes nothing, and the agents are reached."""
    vetro = blog.vetro
    vetro.stop()
    vetro.port = free_port()
    vetro.url = f"http://127.0.0.1:{vetro.port}"
    vetro.environ["VETRO_URL"] = vetro.url
    vetro.start()
    blog.deploy()
    blog.kept("the service has moved")
    arguments = ("database=other", "user=other", f"password={PASSWORD}")
    given = [word for one in arguments for word in ("--arg", one)]
    vetro.run("action", "call", "blog", "createDatabase", *given)
    blog.kept("an action on the machine's agent")


def a_password_is_rotated(blog: Blog) -> None:
    """By a command; then *Change* of something else: the new one stays, and the site answers with it."""
    blog.vetro.run("env", "edit", "blog", "site", "--set", f"password={ROTATED}")
    blog.deploy()
    blog.kept("the password was rotated")
    blog.change("site", flavor="m1.small")
    blog.kept("Change after that")
    assert password_at(blog) == ROTATED


def password_at(blog: Blog) -> str:
    """What WordPress signs in at its database with."""
    machine = blog.machines["wordpress-1"]
    text = blog.vetro.run("vm", "exec", machine, "--", "cat", "/etc/wordpress/config-default.php")
    found = re.search(r"'DB_PASSWORD', '(.*)'", text)
    assert found is not None
    return found[1]


def the_package_is_upgraded(blog: Blog, tmp_path: Path) -> None:
    """To a newer version; then *Change*: its form is the new one's, and nothing goes back."""
    newer = tmp_path / "WordPress"
    shutil.copytree(ROOT / "library/WordPress", newer)
    manifest = newer / "manifest.yaml"
    manifest.write_text(manifest.read_text().replace("Version: 1.0.0", "Version: 1.1.0"))
    blog.vetro.run("package", "import", "--public", str(newer))
    blog.vetro.run("env", "upgrade", "blog", "site", "--yes")
    blog.deploy()
    blog.kept("the package was upgraded")
    shown = blog.change("site", flavor="m1.medium")
    assert shown["version"] == "1.1.0"
    assert version_of(blog.component("site")) == "1.1.0"
    assert password_at(blog) == ROTATED
    blog.kept("Change after the upgrade")


def version_of(component: Any) -> str:
    """The version of the package that a component is of, in either spelling."""
    header = component["?"]
    return str(header.get("classVersion") or header["type"].partition("/")[2].partition("@")[0])


def a_second_site_comes(blog: Blog, tmp_path: Path) -> None:
    """By the form, with the host name as offered: another one. As JSON with the first one's: refused."""
    packages = blog.call("GET", "/v1/catalog/packages?fqn=org.vetro.samples.WordPress")["packages"]
    newest = next(one for one in packages if one["version"] == "1.1.0")
    store = blog.component("store")["?"]["id"]
    session, _ = blog.form(
        {"package": newest["id"]}, server=store, database="second", user="second",
        password=PASSWORD, image=IMAGE, floating=False,
    )  # fmt: skip
    blog.deploy("--session", session)
    blog.kept("a second site")
    assert sorted(blog.machines_now()) == ["mariadb-1", "wordpress-1", "wordpress-2"]
    third = {
        "?": {"type": "org.vetro.samples.WordPress/1.1.0", "id": "third"},
        "name": "third", "server": store, "password": PASSWORD,
        "instance": {
            "?": {"type": "io.murano.resources.LinuxMuranoInstance", "id": "third-machine"},
            "name": "wordpress-1", "flavor": "m1.small", "image": IMAGE,
        },
    }  # fmt: skip
    file = tmp_path / "third.json"
    file.write_text(json.dumps(third))
    said = blog.vetro.run("env", "add", "blog", "--file", str(file), code=1)
    assert "wordpress-1" in said
    assert "site" in said
    blog.vetro.run("env", "changes", "blog", "--discard", "--yes", code=None)
    blog.deploy()
    blog.kept("a third one was refused")


def the_database_is_taken_out(blog: Blog) -> None:
    """It is refused, and who uses it is named."""
    said = blog.vetro.run("env", "remove", "blog", "store", code=1)
    assert "site" in said
    blog.deploy()
    blog.kept("taking the database out was refused")


def a_key_pair_is_somebody_elses(blog: Blog, tmp_path: Path) -> None:
    """A stack that wants one of that name does not take it along when it goes."""
    vetro = blog.vetro
    public = tmp_path / "mine.pub"
    public.write_text(f"{KEY} mine\n")
    vetro.run("keypair", "create", "mine", str(public))
    package = tmp_path / "Keys"
    package.mkdir()
    (package / "manifest.yaml").write_text(
        "Format: Heat.HOT/1.0\nType: Application\nFullName: my.Keys\nVersion: 1.0.0\nName: Keys\n"
        "Description: A key pair\nAuthor: me\n"
    )
    template = {
        "heat_template_version": "2016-10-14",
        "resources": {
            "k": {"type": "OS::Nova::KeyPair", "properties": {"name": "mine", "public_key": KEY}}
        },
    }
    (package / "template.yaml").write_text(json.dumps(template))
    vetro.run("package", "import", "--public", str(package))
    vetro.run("env", "create", "keys")
    vetro.run("env", "add", "keys", "my.Keys", "--name", "keys")
    vetro.run("env", "deploy", "keys", code=None)
    vetro.run("env", "destroy", "--yes", "keys")
    assert [one["name"] for one in vetro.json("keypair", "list")] == ["mine"]
    blog.kept("another environment was destroyed")


def a_port_is_given_up(blog: Blog) -> None:
    """Its rule leaves; one that somebody removes by hand comes back."""
    blog.vetro.run("env", "edit", "blog", "store", "--set", "port=3307")
    blog.deploy()
    blog.kept("the database has another port")
    group, ports = rules(blog)
    assert "3306" not in ports
    assert {"3307", "80"} <= set(ports)
    blog.vetro.run("group", "rule", "remove", group, str(ports.index("80") + 1))
    assert "80" not in rules(blog)[1]
    blog.deploy()
    assert "80" in rules(blog)[1]
    blog.kept("a rule came back")


def rules(blog: Blog) -> tuple[str, list[str]]:
    """The group of the environment's machines, and the ports of its rules in their order."""
    groups = blog.vetro.json("group", "list")
    group = next(
        one["uuid"]
        for one in groups
        if blog.environment in json.dumps(one) or "Murano" in json.dumps(one)
    )
    return group, [str(one["ports"]) for one in blog.vetro.json("group", "rule", "list", group)]


def a_member_imports_a_package(blog: Blog) -> None:
    """Who may not replace a public one takes nothing away, and the blog can be deployed."""
    vetro = blog.vetro
    member = as_member(vetro)
    vetro.environ, own = {**vetro.environ, **member}, vetro.environ
    path = str(ROOT / "library/WordPress")
    try:
        vetro.run("package", "import", path, "--exists-action", "update", code=None)
    finally:
        vetro.environ = own
    packages = vetro.json("package", "list")
    found = {one["version"] for one in packages if "WordPress" in json.dumps(one)}
    assert found == {"1.0.0", "1.1.0"}
    blog.deploy()
    blog.kept("a member has imported the package")


def as_member(vetro: Installation) -> dict[str, str]:
    """What the command of a member of the administrator's project finds around it."""
    at = "/identity/v3"

    def listed(kind: str, name: str) -> str:
        rows = vetro.http("GET", f"{at}/{kind}?name={name}")[1][kind]
        return str(next(one["id"] for one in rows if one["name"] == name))

    project, role = listed("projects", "admin"), listed("roles", "member")
    user = {"user": {"name": "member", "password": PASSWORD}}
    made = vetro.http("POST", f"{at}/users", user)[1]["user"]["id"]
    where = f"{at}/projects/{project}/users/{made}/roles/{role}"
    assert vetro.http("PUT", where)[0] == 204
    return {
        "OS_AUTH_URL": f"{vetro.url}{at}", "OS_USERNAME": "member", "OS_PASSWORD": PASSWORD,
        "OS_PROJECT_NAME": "admin", "OS_USER_DOMAIN_NAME": "Default",
        "OS_PROJECT_DOMAIN_NAME": "Default", "VETRO_DATA_DIR": str(vetro.directory / "none"),
        "XDG_STATE_HOME": str(vetro.directory / "client-of-member"),
    }  # fmt: skip


def a_host_name_is_changed(blog: Blog) -> None:
    """What that costs is said and asked; without an answer nothing is done. Of the second it is meant."""
    blog.vetro.run("env", "edit", "blog", "site", "--set", "instance.name=front")
    said = blog.deploy(code=1)
    assert "replaces machine wordpress-1, its data is lost: host name wordpress-1 → front" in said
    blog.kept("losing the first site was refused")
    blog.vetro.run("env", "edit", "blog", "site", "--set", "instance.name=wordpress-1")
    blog.deploy()
    blog.kept("the name is as before")
    second = next(
        one
        for one in blog.vetro.json("env", "model", "blog", "--path", "/services")
        if one.get("instance", {}).get("name") == "wordpress-2"
    )
    blog.vetro.run("env", "edit", "blog", second["name"], "--set", "instance.name=back")
    assert "replaces machine wordpress-2" in blog.deploy(code=1)
    assert "wordpress-2" in blog.machines_now()
    blog.deploy("--yes")
    assert sorted(blog.machines_now()) == ["back", "mariadb-1", "wordpress-1"]
    blog.kept("the second site has another machine")
