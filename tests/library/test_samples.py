"""The sample applications: what a second deployment does, and what it does not."""

from __future__ import annotations

from typing import Any

import pytest

from vetro.engine.services import library_path
from vetro.packages import open_package

from .conftest import LINUX

NAMES = ("ApacheHttpServer", "HelloScript", "TwoTier")


@pytest.fixture
def samples(lab: Any) -> Any:
    """The laboratory with the sample packages."""
    lab.packages = [open_package(library_path() / name) for name in NAMES]
    return lab


def plans(lab: Any) -> list[str]:
    """The queues that plans went to since this was asked last."""
    found = [queue for queue, _ in lab.cloud.transport.plans]
    lab.cloud.transport.plans.clear()
    return found


def two_tier(lab: Any, **properties: Any) -> Any:
    """Two web servers and a balancer."""
    servers = [lab.instance(f"s{n}", f"web{n}") for n in range(2)]
    balancer = lab.instance("b", "front", assignFloatingIp=True)
    app = lab.application(
        "app",
        "org.vetro.samples.TwoTier/1.0.0",
        name="t",
        servers=servers,
        balancer=balancer,
        **properties,
    )
    return lab.environment(app)


async def test_two_tiers_are_made_in_one_update(samples: Any) -> None:
    """Machines side by side, then a plan on each, the balancer's last and with all addresses."""
    model = await samples.deploy(two_tier(samples))
    assert samples.kinds().count("stack.push") == 2
    sent = samples.cloud.transport.plans
    assert [queue for queue, _ in sent[-1:]] == ["eenv-hb"]
    assert sorted(queue for queue, _ in sent[:-1]) == ["eenv-hs0", "eenv-hs1"]
    app = model["Objects"]["applications"][0]
    assert sent[-1][1]["Parameters"]["servers"] == [one["ipAddresses"][0] for one in app["servers"]]
    assert app["url"] == f"http://{app['balancer']['floatingIpAddress']}:80/"


async def test_two_tiers_unchanged_call_no_agent(samples: Any) -> None:
    """Nor does the stack change; a changed page reaches the web servers only; a new server all."""
    model = await samples.deploy(two_tier(samples))
    plans(samples)
    samples.calls()
    model = await samples.deploy(model)
    assert plans(samples) == []
    assert samples.calls() == []

    app = model["Objects"]["applications"][0]
    app["page"] = "changed"
    model = await samples.deploy(model)
    assert sorted(plans(samples)) == ["eenv-hs0", "eenv-hs1"]

    app = model["Objects"]["applications"][0]
    app["servers"].append(samples.instance("s2", "web2"))
    model = await samples.deploy(model)
    assert sorted(plans(samples)) == ["eenv-hb", "eenv-hs2"]

    model["Objects"]["applications"][0]["port"] = 8080
    await samples.deploy(model)
    assert sorted(plans(samples)) == ["eenv-hb", "eenv-hs0", "eenv-hs1", "eenv-hs2"]


async def test_a_plan_that_failed_runs_again(samples: Any) -> None:
    """Only what is known to have been done is left out."""
    good = samples.cloud.transport.guest
    samples.cloud.transport.guest = lambda queue, plan: (
        {"FormatVersion": "2.0.0", "ErrorCode": 1, "Body": {"Message": "no"}}
        if queue == "eenv-hs1"
        else good(queue, plan)
    )
    model = await samples.deploy(two_tier(samples), fails=True)
    plans(samples)
    samples.cloud.transport.guest = good
    await samples.deploy(model)
    assert sorted(plans(samples)) == ["eenv-hb", "eenv-hs1"]


@pytest.mark.parametrize(
    ("name", "changed"), [("ApacheHttpServer", {"page": "x"}), ("HelloScript", {"script": "x"})]
)
async def test_samples_with_one_machine(samples: Any, name: str, changed: dict[str, str]) -> None:
    """Unchanged no plan runs, changed it does, and the environment can be removed."""
    app = samples.application(
        "app", f"org.vetro.samples.{name}/1.0.0", name="a", instance=samples.instance()
    )
    model = await samples.deploy(samples.environment(app))
    assert len(plans(samples)) == 1
    model = await samples.deploy(model)
    assert plans(samples) == []
    model["Objects"]["applications"][0].update(changed)
    model = await samples.deploy(model)
    assert len(plans(samples)) == 1
    await samples.destroy(model)
    assert not samples.cloud.compute.server_list


async def test_plans_say_that_isolation_is_optional_when_every_package_does(samples: Any) -> None:
    """One package of the environment that does not say so is enough that none of its plans does."""
    page = samples.application(
        "site", "org.vetro.samples.ApacheHttpServer/1.0.0", name="s",
        instance=samples.instance("i", "host"),
    )  # fmt: skip
    await samples.deploy(samples.environment(page))
    sent = samples.cloud.transport.plans
    assert [plan.get("Isolation") for _, plan in sent] == ["optional"]
    sent.clear()
    await samples.deploy(two_tier(samples))
    assert [plan.get("Isolation") for _, plan in sent] == [None] * 3


async def test_a_heat_template_with_a_volume(lab: Any) -> None:
    """Machine, network and volume are one stack; a larger volume leaves the machine alone."""
    lab.packages = [open_package(library_path() / "HeatVolume")]
    app = lab.application(
        "app",
        "org.vetro.samples.HeatVolume/1.0.0",
        name="a",
        templateParameters={"image": "debian"},
    )
    model = await lab.deploy(lab.environment(app, networks={}))
    app = model["Objects"]["applications"][0]
    outputs = app["templateOutputs"]
    volume = lab.cloud.compute.volume_list[outputs["volume"]]
    ((server_id, server),) = lab.cloud.compute.server_list.items()
    assert (server.spec.name, volume.name, volume.size) == ("store", "store-data", 1)
    assert outputs["address"].startswith("10.77.0.")
    assert outputs["device"] == "/dev/vdb"
    lab.calls()
    model = await lab.deploy(model)
    assert lab.calls() == []

    model["Objects"]["applications"][0]["templateParameters"]["volume_size"] = 3
    model = await lab.deploy(model)
    assert [one.size for one in lab.cloud.compute.volume_list.values()] == [3]
    assert list(lab.cloud.compute.server_list) == [server_id]

    model["Objects"]["applications"][0]["templateParameters"]["device"] = "/dev/vdc"
    assert "cannot be changed: device" in await lab.failure(model)
    await lab.destroy(model)
    assert not lab.cloud.compute.server_list
    assert not lab.cloud.compute.volume_list


async def test_wordpress_finds_its_database_in_another_component(lab: Any) -> None:
    """Two machines in one environment; the site's plan has the address of the other machine."""
    lab.packages = [open_package(library_path() / name) for name in ("MariaDb", "WordPress")]
    database = lab.application(
        "db", "org.vetro.samples.MariaDb/1.0.0", name="db", instance=lab.instance("m", "maria")
    )
    site = lab.application(
        "site", "org.vetro.samples.WordPress/1.0.0", name="blog", server="db",
        password="correct horse", instance=lab.instance("w", "web", assignFloatingIp=True),
    )  # fmt: skip
    model = await lab.deploy(lab.environment(database, site))
    sent = [(queue, plan["Name"]) for queue, plan in lab.cloud.transport.plans]
    assert sent == [("eenv-hm", "MariaDB"), ("eenv-hm", "Database"), ("eenv-hw", "WordPress")]
    database, site = model["Objects"]["applications"]
    plan = lab.cloud.transport.plans[-1][1]
    assert plan["Parameters"]["host"] == database["host"] == database["instance"]["ipAddresses"][0]
    assert site["url"] == f"http://{site['instance']['floatingIpAddress']}/"
    plans(lab)
    await lab.deploy(model)
    assert plans(lab) == []


async def test_a_second_site_takes_nothing_from_the_first(lab: Any) -> None:
    """As offered it has a database and a user of its own; with those of the first it is refused in words."""
    lab.packages = [open_package(library_path() / name) for name in ("MariaDb", "WordPress")]

    def site(id_: str, **properties: Any) -> Any:
        machine = lab.instance(f"m{id_}", f"web{id_}")
        properties = {"password": f"correct horse {id_}", **properties}
        kind = "org.vetro.samples.WordPress/1.0.0"
        return lab.application(id_, kind, name=id_, server="db", instance=machine, **properties)

    def environment(*sites: Any) -> Any:
        maria = lab.instance("m", "maria")
        kind = "org.vetro.samples.MariaDb/1.0.0"
        return lab.environment(lab.application("db", kind, name="db", instance=maria), *sites)

    def made() -> dict[str, str]:
        """Users by database, of the plans that were sent since this was asked last."""
        sent = [plan for _, plan in lab.cloud.transport.plans if plan["Name"] == "Database"]
        lab.cloud.transport.plans.clear()
        return {one["Parameters"]["database"]: one["Parameters"]["user"] for one in sent}

    await lab.deploy(environment(site("one"), site("two"), site("three", database="", user="")))
    assert made() == {f"wordpress_{one}": f"wordpress_{one}" for one in ("one", "two", "three")}
    taken = {"database": "blog", "user": "author"}
    for second, said in (
        ({"database": "blog"}, "The database blog on db is that of one. Give two another database"),
        ({"user": "author"}, "one has the user author on db with another password. Give two"),
        ({"user": "author", "password": "correct horse one"}, None),
        ({"database": "other", "user": "other"}, None),
    ):
        model = environment(site("one", **taken), site("two", **second))
        if said is None:
            await lab.deploy(model)
        else:
            assert said in await lab.failure(model)


async def test_a_second_web_tier_has_a_balancer_of_its_own(lab: Any) -> None:
    """Each has its pool with its own servers, and another address; one alone is called as it always was."""
    lab.packages = [open_package(library_path() / n) for n in ("io.murano.applications", "WebTier")]

    def tier(id_: str) -> Any:
        machine = {"?": {"id": f"t{id_}", "type": LINUX}, "flavor": "m1.small", "image": "debian"}
        provider = {
            "?": {"id": f"p{id_}", "type": "io.murano.applications.TemplateServerProvider"},
            "template": machine,
            "serverNamePattern": id_ + "-{0}",
        }
        group = {
            "?": {"id": f"g{id_}", "type": "io.murano.applications.ServerReplicationGroup"},
            "numItems": 2,
            "provider": provider,
        }
        return lab.application(id_, "org.vetro.samples.WebTier/1.0.0", servers=group)

    model = await lab.deploy(lab.environment(tier("one"), tier("two")))
    first, second = model["Objects"]["applications"]
    assert first["url"] != second["url"]
    resources = (await lab.template())["resources"]
    pools = {
        name: sorted(
            member
            for member, one in resources.items()
            if one["type"] == "OS::Neutron::PoolMember"
            and one["properties"]["pool_id"] == {"get_resource": name}
        )
        for name, pool in resources.items()
        if pool["type"] == "OS::Neutron::Pool"
    }
    assert pools == {
        "web-pool": ["web-member-one-1", "web-member-one-2"],
        "web-two-pool": ["web-two-member-two-1", "web-two-member-two-2"],
    }
    before = resources.keys()
    await lab.deploy(model)
    assert (await lab.template())["resources"].keys() == before
