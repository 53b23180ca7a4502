"""The sample applications in real containers: deployed, used, scaled, healed and removed by the command."""

import base64
import gzip
import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from tests.server.conftest import Installation
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.thorough, pytest.mark.root, pytest.mark.e2e]
IMAGE = "samples"
# One image for all of them: installing in every container would take longer than everything else.
PACKAGES = (
    "apache2,libapache2-mod-php,mariadb-server,php-curl,php-gd,php-intl,php-mbstring,php-mysql,php-xml,php-zip,"
    "postgresql,wordpress,wordpress-theme-twentytwentythree"
)
SAMPLES = ("HeatVolume", "MariaDb", "PostgreSql", "PostgreSqlCluster", "WebTier", "WordPress")
PASSWORD = "Secret-12345"
ITEM = "select number from item"
BALANCER6_MANIFEST = """\
Format: Heat.HOT/1.0
Type: Application
FullName: test.Balancer6
Version: 1.0.0
Name: A balancer over IPv6
Description: Web servers without IPv4 addresses, and a balancer before them
Author: Vetro
"""
BALANCER6 = """\
heat_template_version: 2016-10-14
description: Web servers without IPv4 addresses, and a balancer before them
parameters:
  image: {type: string}
  cidr: {type: string}
  servers: {type: number}
resources:
  network: {type: 'OS::Neutron::Net', properties: {name: six}}
  subnet:
    type: OS::Neutron::Subnet
    properties:
      network: {get_resource: network}
      ip_version: 6
      cidr: {get_param: cidr}
  group:
    type: OS::Neutron::SecurityGroup
    properties:
      rules:
        - {ethertype: IPv6, remote_ip_prefix: '::/0', protocol: tcp,
           port_range_min: 8080, port_range_max: 8080}
  web:
    type: OS::Heat::ResourceGroup
    properties:
      count: {get_param: servers}
      resource_def:
        type: OS::Nova::Server
        properties:
          name: six-%index%
          image: {get_param: image}
          flavor: m1.small
          networks: [{subnet: {get_resource: subnet}}]
          security_groups: [{get_resource: group}]
          user_data_format: RAW
          user_data: |
            #!/bin/sh
            # Apache runs from the beginning: at a port where nothing listens before the page is there,
            # a balancer that takes new members for well until it has looked goes to another one.
            set -e
            echo 'Shop (six-%index%)' > /var/www/html/index.html
            echo 'Listen 8080' > /etc/apache2/sites-enabled/six.conf
            echo '<VirtualHost *:8080>' >> /etc/apache2/sites-enabled/six.conf
            echo 'DocumentRoot /var/www/html' >> /etc/apache2/sites-enabled/six.conf
            echo '</VirtualHost>' >> /etc/apache2/sites-enabled/six.conf
            apache2ctl -k graceful 2>/dev/null || apache2ctl -k start
            echo yes > /var/www/html/serving.txt
  monitor:
    type: OS::Neutron::HealthMonitor
    properties: {type: HTTP, url_path: /serving.txt, delay: 1, timeout: 1, max_retries: 3}
  pool:
    type: OS::Neutron::Pool
    properties:
      protocol: HTTP
      lb_method: ROUND_ROBIN
      subnet_id: {get_resource: subnet}
      monitors: [{get_resource: monitor}]
      vip: {protocol_port: 80}
  balancer:
    type: OS::Neutron::LoadBalancer
    properties:
      pool_id: {get_resource: pool}
      protocol_port: 8080
      members: {get_attr: [web, refs]}
outputs:
  url:
    value:
      str_replace:
        template: http://[ADDRESS]/
        params:
          ADDRESS: {'Fn::Select': [address, {get_attr: [pool, vip]}]}
"""


def test_the_samples_do_what_they_say(vetro: Installation) -> None:
    """Each in an environment of its own, all at the same time, on one installation."""
    cache = ROOT / "var/image-cache"
    vetro.run("image", "build", IMAGE, "--packages", PACKAGES, "--cache-dir", str(cache))
    # A machine of its own, where nothing else listens: the stack of the web tier makes it.
    vetro.run(
        "image", "build", "vetro-balancer", "--packages", "haproxy", "--cache-dir", str(cache)
    )
    for name in SAMPLES:
        vetro.run("package", "import", "--public", str(ROOT / "library" / name))
    walks = (
        walk_of_the_web_tier,
        walk_of_the_cluster,
        walk_of_the_database,
        walk_of_the_site,
        walk_of_the_volume,
        walk_of_a_balancer_over_ipv6,
    )
    with ThreadPoolExecutor(len(walks)) as pool:
        for walk in [pool.submit(walk, vetro) for walk in walks]:
            walk.result()
    until(lambda: not vetro.leftovers(), f"everything is gone: {vetro.leftovers()}")


def walk_of_the_web_tier(vetro: Installation) -> None:
    """It grows, loses a server, heals and shrinks, and no request fails meanwhile."""
    add(vetro, "web", "WebTier", "page=Shop", "servers=2")
    vetro.run("env", "deploy", "web")
    url = application(vetro, "web", "WebTier")["url"]
    until(lambda: servers_behind(url, 6) == {"web-1", "web-2"}, "both serve")
    with traffic(url) as failures:
        vetro.run("action", "call", "web", "scaleOut")
        until(lambda: servers_behind(url, 6) == {"web-1", "web-2", "web-3"}, "three serve")
        lost = machine(vetro, "web-2")
        vetro.run("vm", "destroy", "--yes", lost)
        until(lambda: servers_behind(url, 6) == {"web-1", "web-3"}, "two serve")
        vetro.run("action", "call", "web", "heal")
        assert machine(vetro, "web-2") != lost
        until(lambda: servers_behind(url, 6) == {"web-1", "web-2", "web-3"}, "three serve")
        vetro.run("action", "call", "--yes", "web", "scaleIn")
        until(lambda: len(servers_behind(url, 6)) == 2, "two serve")
    assert failures == []
    vetro.run("env", "destroy", "--yes", "web")


def walk_of_the_cluster(vetro: Installation) -> None:
    """Replicas come and go, have the primary's data, and a backup is a file."""
    add(vetro, "data", "PostgreSqlCluster", f"password={PASSWORD}", "servers=2")
    vetro.run("env", "deploy", "data")
    assert vetro.json("action", "call", "data", "status").startswith("1 of 1 replicas follow ")
    vetro.run("action", "call", "data", "createDatabase", "--arg", "name=orders")
    psql(vetro, "db-1", "create table item as select 42 as number")
    vetro.run("action", "call", "data", "scaleOut")
    assert vetro.json("action", "call", "data", "status").startswith("2 of 2 replicas follow ")
    for replica in ("db-2", "db-3"):
        until(lambda name=replica: psql(vetro, name, ITEM) == "42", f"{replica} follows")
    dump = vetro.json("action", "call", "data", "backup", "--arg", "name=orders")
    assert dump["filename"] == "orders.sql.gz"
    text = gzip.decompress(base64.b64decode(dump["base64Content"])).decode()
    assert "COPY public.item" in text
    assert "\n42\n" in text
    vetro.run("action", "call", "--yes", "data", "scaleIn")
    assert vetro.json("action", "call", "data", "status").startswith("1 of 1 replicas follow ")
    assert psql(vetro, "db-1", ITEM) == "42"
    vetro.run("env", "destroy", "--yes", "data")


def walk_of_the_database(vetro: Installation) -> None:
    """A database answers SQL that another machine of its environment runs; another password is taken."""
    add(vetro, "sql", "PostgreSql", "--name", "numbers", f"password={PASSWORD}", "pattern=number-#")
    script = {
        "?": {"type": "org.vetro.samples.SqlScript", "classVersion": "1.0.0", "id": "script"},
        "name": "script",
        "database": vetro.json("env", "show", "sql")["services"][0]["?"]["id"],
        "sql": "select 6 * 7",
        "instance": {
            "?": {"type": "io.murano.resources.LinuxMuranoInstance", "id": "client"},
            "name": "client",
            "flavor": "m1.small",
            "image": IMAGE,
        },
    }
    file = vetro.directory / "client" / "script.json"
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(script))
    vetro.run("env", "add", "sql", "--file", str(file))
    vetro.run("env", "deploy", "sql")
    assert application(vetro, "sql", "SqlScript")["output"].strip() == "42"
    assert vetro.json("action", "call", "sql", "connections") >= 0
    vetro.run("env", "edit", "sql", "numbers", "--set", f"password={PASSWORD}6")
    vetro.run("env", "deploy", "sql")
    vetro.run("env", "destroy", "--yes", "sql")


def walk_of_the_site(vetro: Installation) -> None:
    """WordPress has its tables in the database of another component."""
    add(vetro, "blog", "MariaDb", "--name", "store")
    add(vetro, "blog", "WordPress", "--name", "site", f"password={PASSWORD}")
    vetro.run("env", "deploy", "blog")
    url = application(vetro, "blog", "WordPress")["url"]
    with urllib.request.urlopen(url, timeout=60) as answer:
        assert answer.url.endswith("/wp-admin/install.php")
        assert "WordPress" in answer.read().decode()
    vetro.run("env", "destroy", "--yes", "blog")


def walk_of_the_volume(vetro: Installation) -> None:
    """The machine of a Heat template has its volume; when that is full it grows, and keeps its files."""
    add(vetro, "disk", "HeatVolume", "group0.name=disk")
    vetro.run("env", "deploy", "disk")
    before = application(vetro, "disk", "HeatVolume")["templateOutputs"]
    store = machine(vetro, "store")
    # A container sees /dev/vdb at /mnt/vdb.
    vetro.run("vm", "exec", store, "--", "fallocate", "-l", "700M", "/mnt/vdb/first")
    more = ("vm", "exec", store, "--", "fallocate", "-l", "700M", "/mnt/vdb/second")
    assert "No space left on device" in vetro.run(*more, code=1)
    vetro.run("env", "edit", "disk", "disk", "--set", "templateParameters.volume_size=2")
    vetro.run("env", "deploy", "disk")
    vetro.run(*more)
    size = vetro.run("vm", "exec", store, "--", "stat", "-c", "%s", "/mnt/vdb/first")
    assert int(size) == 700 * 2**20
    assert application(vetro, "disk", "HeatVolume")["templateOutputs"] == before
    vetro.run("env", "destroy", "--yes", "disk")


def walk_of_a_balancer_over_ipv6(vetro: Installation) -> None:
    """HAProxy at an IPv6 address, its members too: they come and go, and no request fails meanwhile."""
    package = vetro.directory / "client" / "balancer6"
    package.mkdir(parents=True)
    (package / "manifest.yaml").write_text(BALANCER6_MANIFEST)
    (package / "template.yaml").write_text(BALANCER6)
    vetro.run("package", "import", "--public", str(package))
    start = f"fd7e:{vetro.net:x}:{vetro.port:x}:"
    add(
        vetro,
        "six",
        "Balancer6",
        "--name",
        "six",
        f"cidr={start}:/64",
        "servers=2",
    )
    vetro.run("env", "deploy", "six")
    url = application(vetro, "six", "Balancer6")["templateOutputs"]["url"]
    assert url.startswith(f"http://[{start}:")
    # No agent reports when the script of a machine has ended: the deployment does not wait for the pages.
    until(lambda: answers(url), "a server behind the balancer has its page")
    until(lambda: servers_behind(url, 6) == {"six-0", "six-1"}, "both serve")
    with traffic(url) as failures:
        scale(vetro, "six", "3")
        until(lambda: servers_behind(url, 6) == {"six-0", "six-1", "six-2"}, "three serve")
        scale(vetro, "six", "1")
        assert servers_behind(url, 6) == {"six-0"}
    assert failures == []
    vetro.run("env", "destroy", "--yes", "six")


def scale(vetro: Installation, environment: str, servers: str) -> None:
    """Deploy another number of servers."""
    vetro.run(
        "env", "edit", environment, environment, "--set", f"templateParameters.servers={servers}"
    )
    vetro.run("env", "deploy", "--yes", environment)


def add(vetro: Installation, environment: str, sample: str, *answers: str) -> None:
    """An application by its form: answers as FIELD=VALUE, options as they are."""
    if environment not in {row["name"] for row in vetro.json("env", "list")}:
        vetro.run("env", "create", environment)
    given: list[str] = []
    for answer in (*answers, f"image={IMAGE}"):
        given += ["--set", answer] if "=" in answer else [answer]
    vetro.run("env", "add", environment, sample, *given)


def application(vetro: Installation, environment: str, sample: str) -> Any:
    """The model of the environment's application of this sample."""
    services = vetro.json("env", "model", environment, "--path", "/services")
    return next(one for one in services if f".{sample}" in one["?"]["type"])


def machine(vetro: Installation, name: str) -> str:
    """The id of the running machine with this name."""
    rows = vetro.json("vm", "list")
    return next(r["uuid"] for r in rows if (r["alias"], r["state"]) == (name, "running"))


def psql(vetro: Installation, name: str, text: str) -> str:
    """What PostgreSQL on a machine answers."""
    command = ("su", "postgres", "-c", f'cd /; psql -qAtX -c "{text}" orders')
    return str(vetro.run("vm", "exec", machine(vetro, name), "--", *command, code=None)).strip()


def page(url: str) -> str:
    """What is at an address, over the network."""
    with urllib.request.urlopen(url, timeout=20) as answer:
        return str(answer.read().decode())


def answers(url: str) -> bool:
    """Whether there is a page at an address; a balancer without a server that is well returns 503."""
    try:
        page(url)
    except urllib.error.HTTPError as error:
        assert error.code == 503
        return False
    return True


def servers_behind(url: str, requests: int) -> set[str]:
    """The names of the servers that answer so many requests."""
    return set(re.findall(r"\((.*)\)", "".join(page(url) for _ in range(requests))))


@contextmanager
def traffic(url: str) -> Iterator[list[str]]:
    """Ask for a page again and again; the requests that failed."""
    failures: list[str] = []
    end = Event()

    def ask() -> None:
        while not end.wait(0.02):
            try:
                text = page(url)
            except OSError as error:
                failures.append(str(error))
            else:
                failures.extend([] if text.startswith("Shop (") else [text])

    thread = Thread(target=ask)
    thread.start()
    try:
        yield failures
    finally:
        end.set()
        thread.join()
