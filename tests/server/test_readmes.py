"""The README of each sample, walked to its end in real containers; then what a person sees there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.docs.commands import shown
from tests.server.conftest import ROOT, Installation
from tests.server.pages import Person, title
from tests.waiting import until

pytestmark = [pytest.mark.thorough, pytest.mark.root, pytest.mark.e2e]
PASSWORD = "correct horse"
TITLE = "What a person sees"
Said = list[tuple[str, str]]


@pytest.fixture(scope="module")
def walked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installation]:
    """An installation for all of them; images are built once for all runs in this checkout."""
    directory = tmp_path_factory.mktemp("readmes")
    directory.chmod(0o711)
    installation = Installation(directory, VETRO_IMAGE_CACHE=str(ROOT / "var/image-cache"))
    installation.start()
    yield installation
    installation.end()


def page_of_the_server(vetro: Installation, said: Said) -> None:
    """The page, and who serves it."""
    assert Person(application(vetro, "site")["url"]).sees() == "Hello\n"
    assert "200 Apache" in said[-1][1]


def greeting(vetro: Installation, _said: Said) -> None:
    """What the script has printed."""
    (name,) = machines(vetro)
    assert application(vetro, "hello")["output"].strip() == f"Hello from {name}"


def database(vetro: Installation, _said: Said) -> None:
    """Who knows the password signs in over the network; a server that ended at once is no success."""
    host = application(vetro, "data")["host"]
    client = ("mariadb", "--host", host, "--user", "shop", f"--password={PASSWORD}", "shop")
    sql = "create table item as select 6 * 7 as number; select number from item"
    words = on_a_machine(vetro, "mariadb-1", *client, "--batch", "--execute", sql)
    assert words.split() == ["number", "42"]
    # A port that another program has: `service` answers 0, the script has asked.
    taken = "setsid python3 -m http.server 4406 > /dev/null 2>&1 &"
    on_a_machine(vetro, "mariadb-1", "sh", "-c", taken)
    vetro.run("env", "edit", "data", "store", "--set", "port=4406")
    said = vetro.run("env", "deploy", "data", code=1)
    assert "MariaDB does not listen at port 4406" in said


def relational_database(vetro: Installation, _said: Said) -> None:
    """Who knows the password signs in at the database, over the network."""
    host = application(vetro, "data")["host"]
    client = f"PGPASSWORD='{PASSWORD}' psql -Atc 'select 6 * 7' -h {host} -U app app"
    assert on_a_machine(vetro, "db-1", "sh", "-c", client).strip() == "42"


def cluster(vetro: Installation, said: Said) -> None:
    """Two replicas follow, and the backup is a file."""
    words = {command: text for command, text in said if command.startswith("action call")}
    assert "2 of 2 replicas follow" in words["action call data status"]
    assert "orders.sql.gz" in words["action call data backup --arg name=orders"]
    host = application(vetro, "data")["host"]
    client = f"PGPASSWORD='{PASSWORD}' psql -Atc 'select 6 * 7' -h {host} -U app orders"
    assert on_a_machine(vetro, "db-2", "sh", "-c", client).strip() == "42"


def two_tiers(vetro: Installation, _said: Said) -> None:
    """The page by the balancer, from each server."""
    someone = Person(application(vetro, "shop")["url"])
    wanted = {f"Hello (web-{number})\n" for number in (1, 2, 3)}
    until(lambda: {someone.sees() for _ in range(6)} == wanted, "three serve")


def web_tier(vetro: Installation, _said: Said) -> None:
    """The page by the balancer, from the two servers and the one that has come."""
    someone = Person(application(vetro, "shop")["url"])
    wanted = {f"Shop (web-{number})\n" for number in (1, 2, 3)}
    until(lambda: {someone.sees() for _ in range(6)} == wanted, "three serve")


def volume(vetro: Installation, _said: Said) -> None:
    """The machine greets, and has the volume."""
    assert "keeps what is on it" in on_a_machine(vetro, "store", "cat", "/etc/motd")
    mounts = on_a_machine(vetro, "store", "cat", "/proc/mounts")
    assert re.search(r"^\S+ /mnt/vdb ", mounts, re.M), mounts


def blog(vetro: Installation, _said: Said) -> None:
    """A blog: its installation is finished, there is a page with a theme, and its author signs in.

    A second one with what the form offers has a database of its own; one that asks for the first one's is
    refused, and the first is what it was.
    """
    author = Person(application(vetro, "blog", "site")["url"])
    assert "Welcome to the famous five-minute WordPress installation" in author.reads()
    form = {
        "weblog_title": TITLE, "user_name": "author", "admin_password": PASSWORD,
        "admin_password2": PASSWORD, "pw_weak": "on", "admin_email": "author@blog.example",
        "Submit": "Install",
    }  # fmt: skip
    assert "Success" in author.reads("wp-admin/install.php?step=2", **form)
    is_there(author.at)
    login = {"log": "author", "pwd": PASSWORD, "testcookie": "1", "wp-submit": "Log In"}
    author.sees("wp-login.php")
    inside = author.sees("wp-login.php", **login, redirect_to=f"{author.at}wp-admin/")
    assert title(inside).startswith("Dashboard"), inside[:500]
    assert "Hello world!" in author.reads("?feed=rss2")

    add = ("env", "add", "blog", "WordPress", "--set", "password=another horse")
    vetro.run(*add, "--name", "second")
    vetro.run("env", "deploy", "blog")
    second = Person(application(vetro, "blog", "second")["url"])
    assert "Welcome to the famous five-minute WordPress installation" in second.reads()
    is_there(author.at)
    own = f"wordpress_{application(vetro, 'blog', 'site')['?']['id']}"
    vetro.run(*add, "--name", "third", "--set", f"database={own}")
    said = vetro.run("env", "deploy", "blog", code=1)
    assert f"The database {own} on store is that of site" in said
    is_there(author.at)


def is_there(at: str) -> None:
    """The blog as a visitor sees it: its title, a post, and a theme that lays it out."""
    visitor = Person(at)
    page = visitor.sees()
    assert title(page) == TITLE, page[:500]
    assert "Hello world!" in visitor.reads()
    assert "wp-block-template-part" in page


SEES: dict[str, Callable[[Installation, Said], None]] = {
    "ApacheHttpServer": page_of_the_server,
    "HeatVolume": volume,
    "HelloScript": greeting,
    "MariaDb": database,
    "PostgreSql": relational_database,
    "PostgreSqlCluster": cluster,
    "TwoTier": two_tiers,
    "WebTier": web_tier,
    "WordPress": blog,
}


def test_every_sample_is_walked() -> None:
    """A new one is looked at, too."""
    found = {path.parent.name for path in (ROOT / "library").glob("*/manifest.yaml")}
    assert {name for name in found if not name.startswith("io.murano")} == set(SEES)


@pytest.mark.parametrize("sample", SEES)
def test_a_readme_leads_to_what_a_person_sees(walked: Installation, sample: str) -> None:
    """Its commands as they stand, one after another; then the words of a page, a login, an answer."""
    said: Said = []
    for words in shown((ROOT / "library" / sample / "README.md").read_text(encoding="utf-8")):
        said.append((" ".join(words), walked.run(*words, directory=ROOT)))
    SEES[sample](walked, said)
    for row in walked.json("env", "list"):
        walked.run("env", "destroy", "--yes", row["id"])
    for row in walked.json("package", "list"):
        walked.run("package", "delete", "--yes", row["id"], code=None)
    until(lambda: not walked.leftovers(), f"everything is gone: {walked.leftovers()}")


def application(vetro: Installation, environment: str, name: str = "") -> Any:
    """The environment's application of this name; the first one without a name."""
    services = vetro.json("env", "model", environment, "--path", "/services")
    return next(one for one in services if name in ("", one.get("name")))


def machines(vetro: Installation) -> list[str]:
    """The names of the running machines."""
    return [one["alias"] for one in vetro.json("vm", "list") if one["state"] == "running"]


def on_a_machine(vetro: Installation, name: str, *command: str) -> str:
    """What a command on the machine of this name prints."""
    rows = vetro.json("vm", "list")
    (uuid,) = [r["uuid"] for r in rows if (r["alias"], r["state"]) == (name, "running")]
    return vetro.run("vm", "exec", uuid, "--", *command)
