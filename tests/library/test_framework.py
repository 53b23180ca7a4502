"""The Application Development Framework over several deployments, on a cloud in memory.

What happens within one deployment is tested by the package's own test classes
(`vetro test library/io.murano.applications`, run by tests/cli/test_samples.py).
"""

from __future__ import annotations

from typing import Any

import pytest

from vetro.engine.services import library_path
from vetro.packages import open_package

from .conftest import LINUX, Laboratory, Model

FRAMEWORK = "io.murano.applications"
CLASSES = """
Name: Web
Extends: app:MultiServerApplicationWithScaling
Properties:
  key: {Contract: $.string()}
Methods:
  getConfigurationKey:
    Body:
      - If: $.key = null
        Then:
          - Return: cast($this, app:Configurable).getConfigurationKey()
      - Return: $.key
  onInstallServer:
    Arguments:
      - instance: {Contract: $.class(res:Instance).notNull()}
      - where: {Contract: $.class(app:ServerGroup).notNull()}
    Body:
      - conf:Linux.runCommand($instance.agent, install)
  onConfigureServer:
    Arguments:
      - instance: {Contract: $.class(res:Instance).notNull()}
      - where: {Contract: $.class(app:ServerGroup).notNull()}
    Body:
      - conf:Linux.runCommand($instance.agent, configure)
---
Name: Draining
Extends: Web
Methods:
  onUninstallServer:
    Arguments:
      - instance: {Contract: $.class(res:Instance).notNull()}
    Body:
      - conf:Linux.runCommand($instance.agent, drain)
  # As two users who press the button at once.
  twice:
    Scope: Public
    Body:
      - Parallel:
          - $.scaleOut()
          - $.scaleOut()
---
Name: One
Extends: app:SingleServerApplication
Methods:
  onInstallServer:
    Arguments:
      - instance: {Contract: $.class(res:Instance).notNull()}
      - where: {Contract: $.class(app:ServerGroup).notNull()}
    Body:
      - conf:Linux.runCommand($instance.agent, install)
---
Name: Careless
Extends: Web
Methods:
  onCompleteInstallation:
    Arguments:
      - machines: {Contract: []}
      - where: {Contract: $.class(app:ServerGroup).notNull()}
      - failed: {Contract: []}
    Body:
      - If: len($machines) > 2
        Then:
          - Throw: Unfinished
            Message: not done
---
Name: Ring
Properties:
  next: {Contract: $.class(Ring)}
  inner: {Contract: $.class(Ring)}
---
Name: Rings
Extends: std:Application
Properties:
  group: {Contract: $.class(app:ReplicationGroup).notNull()}
Methods:
  deploy:
    Body:
      - $.group.deploy()
"""


class Framework(Laboratory):
    """The laboratory with the framework, and applications on it."""

    def commands(self) -> list[tuple[str, str]]:
        """The commands run since this was asked last: host's queue and command, sorted."""
        found = [
            (queue, str(next(iter(plan["Files"].values()))["Body"]))
            for queue, plan in self.cloud.transport.plans
            if plan.get("Files")
        ]
        self.cloud.transport.plans.clear()
        return sorted(found)

    def counted(self) -> dict[str, int]:
        """How many times each command was run since this was asked last."""
        found = [command for _, command in self.commands()]
        return {command: found.count(command) for command in sorted(set(found))}

    def names(self) -> list[str]:
        """The names of the servers that run."""
        return sorted(one.spec.name for one in self.cloud.compute.server_list.values())

    def group(self, count: int, **properties: Any) -> Model:
        """A replicated group of servers."""
        provider = {
            "?": {"id": "provider", "type": f"{FRAMEWORK}.TemplateServerProvider"},
            "template": {"?": {"type": LINUX}, "flavor": "m1.small", "image": "debian"},
            "serverNamePattern": "web-{0}",
        }
        return {
            "?": {"id": "group", "type": f"{FRAMEWORK}.ServerReplicationGroup"},
            "provider": provider,
            "numItems": count,
            **properties,
        }

    def web(self, count: int, type_: str = "Web", **properties: Any) -> Model:
        """An environment with an application on a group of servers."""
        given = {"servers": self.group(count), "key": "stable", **properties}
        app = self.application("app", f"test.{type_}", **given)
        app["?"]["name"] = "shop"
        return self.environment(app)


@pytest.fixture
def framework(lab: Laboratory) -> Framework:
    """The core library and the framework, on an empty cloud."""
    made = Framework(lab.cloud, lab.runtimes)
    made.libraries = [open_package(library_path() / FRAMEWORK)]
    made.add_class(CLASSES)
    return made


def app_of(model: Model) -> Model:
    """The only application of a model."""
    found: Model = model["Objects"]["applications"][0]
    return found


def volume_names(model: Model) -> list[str]:
    """The resources of the volumes that servers have."""
    servers = app_of(model)["servers"]["items"]
    return [f"vol-{one['?']['id']}" for server in servers for one in server["volumes"].values()]


def kill(framework: Framework, name: str) -> None:
    """Somebody removes a server behind our back."""
    servers = framework.cloud.compute.server_list
    (uuid,) = [key for key, one in servers.items() if one.spec.name == name]
    del servers[uuid]


async def test_servers_come_in_one_update_and_stay(framework: Framework) -> None:
    """Five servers are one update after the network's; deploying again pushes and installs nothing."""
    model = await framework.deploy(framework.web(5))
    assert framework.kinds().count("stack.push") == 2
    assert framework.names() == [f"web-{n}" for n in range(1, 6)]
    assert framework.counted() == {"configure": 5, "install": 5}
    framework.calls()
    model = await framework.deploy(model)
    assert framework.calls() == []
    assert framework.counted() == {}
    assert framework.kinds().count("stack.push") == 0
    await framework.destroy(model)
    assert framework.cloud.compute.server_list == {}


async def test_without_a_key_of_its_own_a_component_is_configured_by_every_deployment(
    framework: Framework,
) -> None:
    """The default key differs from deployment to deployment, and is one throughout one of them."""
    model = await framework.deploy(framework.web(2, key=None))
    framework.counted()
    await framework.deploy(model)
    assert framework.counted() == {"configure": 2}


async def test_a_changed_key_configures_all_servers_again(framework: Framework) -> None:
    """And installs none."""
    model = await framework.deploy(framework.web(2))
    framework.counted()
    app_of(model)["key"] = "other"
    await framework.deploy(model)
    assert framework.counted() == {"configure": 2}


async def test_the_number_of_servers_is_declared(framework: Framework) -> None:
    """A changed numItems adds servers, which alone are installed, or removes the newest."""
    model = await framework.deploy(framework.web(2))
    framework.counted()
    app_of(model)["servers"]["numItems"] = 4
    model = await framework.deploy(model)
    assert framework.counted() == {"configure": 2, "install": 2}
    assert [one["name"] for one in app_of(model)["servers"]["items"]] == [
        f"web-{n}" for n in range(1, 5)
    ]
    app_of(model)["servers"]["numItems"] = 1
    model = await framework.deploy(model)
    assert framework.names() == ["web-1"]
    assert framework.counted() == {}


async def test_scaling_is_an_action_and_touches_what_it_must(framework: Framework) -> None:
    """Actions are listed; one more server is one server made and installed, one fewer is one less."""
    model = await framework.deploy(framework.web(3))
    actions = {one["name"] for one in app_of(model)["?"]["_actions"].values()}
    assert actions >= {"scaleOut", "scaleIn", "heal"}
    framework.counted()
    framework.calls()
    await framework.call(model, "app", "scaleOut")
    assert framework.counted() == {"configure": 1, "install": 1}
    assert [one for one in framework.calls() if "server" in one] == ["create_server"]
    model = framework.reply.model
    assert framework.names() == ["web-1", "web-2", "web-3", "web-4"]
    await framework.call(model, "app", "scaleIn")
    assert framework.names() == ["web-1", "web-2", "web-3"]
    assert framework.counted() == {}
    assert app_of(framework.reply.model)["servers"]["provider"]["allocated"] == 3


async def test_scaling_beyond_the_bounds_stays_at_them(framework: Framework) -> None:
    """And succeeds."""
    servers = framework.group(2, minItems=2, maxItems=3)
    model = await framework.deploy(framework.web(2, servers=servers, scaleFactor=5))
    await framework.call(model, "app", "scaleOut")
    assert app_of(framework.reply.model)["servers"]["numItems"] == 3
    await framework.call(framework.reply.model, "app", "scaleIn")
    assert app_of(framework.reply.model)["servers"]["numItems"] == 2


async def test_bounds_that_exclude_each_other_are_refused_when_loaded(framework: Framework) -> None:
    """The message names the property."""
    servers = framework.group(2, minItems=3, maxItems=2)
    assert "maxItems" in await framework.failure(framework.web(2, servers=servers))


@pytest.mark.parametrize("number", [0, -1])
async def test_a_limit_of_nobody_at_a_time_is_refused_when_loaded(
    framework: Framework, number: int
) -> None:
    """The message names the property; nothing is made."""
    assert "maxParallel" in await framework.failure(framework.web(2, maxParallel=number))
    assert framework.names() == []


async def test_a_limit_above_the_number_of_servers_limits_nobody(framework: Framework) -> None:
    """All are installed and configured, once each; text that is a number is one."""
    model = await framework.deploy(framework.web(2, maxParallel="5"))
    assert framework.counted() == {"configure": 2, "install": 2}
    assert app_of(model)["maxParallel"] == 5


@pytest.mark.thorough
@pytest.mark.parametrize(("allowed", "fails"), [("one", False), ("none", True)])
async def test_a_server_that_never_boots_among_ten(
    framework: Framework, allowed: str, fails: bool
) -> None:
    """Within the tolerance nine serve and the tenth is tried again by the next deployment; beyond it
    the deployment fails and says why."""
    answers = framework.cloud.transport.guest
    mute: set[str] = set()

    def guest(queue: str, plan: dict[str, Any]) -> Any:
        if not mute:
            mute.add(queue)
        return None if queue in mute else answers(queue, plan)

    framework.cloud.transport.guest = guest
    model = framework.web(10, allowedInstallFailures=allowed, allowedConfigurationFailures=allowed)
    model = await framework.deploy(model, fails=fails)
    texts = framework.texts()
    unable = [text for text in texts if text.startswith("Unable to install shop on web-")]
    assert len(unable) == 1
    assert "did not respond" in unable[0]
    if fails:
        assert "Too many errors (1) encountered while installing shop" in str(
            framework.reply.message
        )
        assert "TimeoutException" in str(framework.reply.details)
    else:
        assert "Finished configuring shop (1 errors encountered)" in texts
    mute.add("")
    mute.clear()
    mute.add("nobody")
    framework.counted()
    await framework.deploy(model)
    assert framework.counted() == {"configure": 10 if fails else 1, "install": 1}


async def test_a_failure_after_the_installation_keeps_its_marks(framework: Framework) -> None:
    """The task fails; the next deployment installs nothing twice."""
    model = await framework.deploy(framework.web(3, "Careless"), fails=True)
    assert "not done" in str(framework.reply.message)
    assert framework.counted() == {"install": 3}
    await framework.deploy(model)
    assert framework.counted() == {"configure": 3}


async def test_servers_drain_before_they_leave(framework: Framework) -> None:
    """In a later deployment as well, when nobody has called the component yet."""
    model = await framework.deploy(framework.web(3, "Draining"))
    framework.counted()
    app_of(model)["servers"]["numItems"] = 2
    model = await framework.deploy(model)
    assert framework.counted() == {"drain": 1}
    await framework.call(model, "app", "scaleIn")
    assert framework.counted() == {"drain": 1}
    await framework.destroy(framework.reply.model)
    assert framework.counted() == {}


async def test_servers_that_a_request_does_not_let_go_do_not_drain(framework: Framework) -> None:
    """The action is refused before anything ends on them."""
    model = await framework.deploy(framework.web(3, "Draining"))
    framework.counted()
    framework.cloud.may_lose = ["machine web-1"]
    reply = await framework.run(model, {"object_id": "app", "method": "scaleIn", "args": {}})
    assert reply.is_exception
    assert "removes machine web-3, its data is lost" in str(reply.message)
    assert (framework.names(), framework.counted()) == (["web-1", "web-2", "web-3"], {})
    framework.cloud.may_lose = ["machine web-3"]
    await framework.call(model, "app", "scaleIn")
    assert (framework.names(), framework.counted()) == (["web-1", "web-2"], {"drain": 1})


async def test_servers_with_addresses_and_volumes_do_not_drain_for_half_an_answer(
    framework: Framework,
) -> None:
    """All that goes with them is asked before: floating addresses, and volumes that are their own."""
    servers = framework.group(3)
    volume = {"?": {"type": "io.murano.resources.CinderVolume"}, "name": "posts", "size": 1}
    servers["provider"]["template"] |= {"assignFloatingIp": True, "volumes": {"/data": volume}}
    model = await framework.deploy(framework.web(3, "Draining", servers=servers))
    framework.counted()
    cloud = framework.cloud
    action: Model = {"object_id": "app", "method": "scaleIn", "args": {}}
    cloud.may_lose = ["machine web-3"]
    reply = await framework.run(model, action)
    assert reply.is_exception
    assert "removes volume" in str(reply.message)
    assert "removes address" in str(reply.message)
    assert framework.counted() == {}
    addresses = {one.address for one in cloud.compute.floating_list.values()}
    cloud.may_lose += ["volume posts", *(f"volume posts ({one})" for one in volume_names(model))]
    reply = await framework.run(model, action)
    assert framework.counted() == {}
    (said,) = [one for one in addresses if f"removes address {one}" in str(reply.message)]
    cloud.may_lose += [f"address {said}"]
    await framework.call(model, "app", "scaleIn")
    assert (framework.names(), framework.counted()) == (["web-1", "web-2"], {"drain": 1})


async def test_a_server_that_is_gone_can_be_scaled_away(framework: Framework) -> None:
    """Nobody waits for it to drain."""
    model = await framework.deploy(framework.web(3, "Draining"))
    framework.counted()
    kill(framework, "web-3")
    await framework.call(model, "app", "scaleIn")
    assert framework.names() == ["web-1", "web-2"]
    assert framework.counted() == {}


@pytest.mark.thorough
async def test_healing_makes_lost_servers_again(framework: Framework) -> None:
    """A removed and a stopped server are replaced and installed; the others are left alone."""
    model = await framework.deploy(framework.web(4))
    before = {one["name"]: one["openstackId"] for one in app_of(model)["servers"]["items"]}
    framework.counted()
    kill(framework, "web-2")
    for server in framework.cloud.compute.server_list.values():
        if server.spec.name == "web-3":
            server.state = "stopped"
    await framework.call(model, "app", "heal")
    assert framework.names() == ["web-1", "web-2", "web-3", "web-4"]
    assert framework.counted() == {"configure": 2, "install": 2}
    items = app_of(framework.reply.model)["servers"]["items"]
    after = {one["name"]: one["openstackId"] for one in items}
    assert {name for name in before if before[name] != after[name]} == {"web-2", "web-3"}
    framework.calls()
    await framework.call(framework.reply.model, "app", "heal")
    assert framework.calls() == []


async def test_the_server_of_an_application_is_replaced(framework: Framework) -> None:
    """Its group survives deployments; another server in its place is installed, the old one removed."""
    app = framework.application("app", "test.One", server=framework.instance("s1", "first"))
    model = await framework.deploy(framework.environment(app))
    group = app_of(model)["_serverGroup"]["?"]["id"]
    assert framework.counted() == {"install": 1}
    model = await framework.deploy(model)
    assert app_of(model)["_serverGroup"]["?"]["id"] == group
    assert framework.counted() == {}
    app_of(model)["server"] = framework.instance("s2", "second")
    model = await framework.deploy(model)
    assert app_of(model)["_serverGroup"]["?"]["id"] == group
    assert framework.names() == ["second"]
    assert framework.commands() == [("eenv-hs2", "install")]


async def test_subscriptions_and_events_are_not_written_down(framework: Framework) -> None:
    """They last as long as the session."""
    assert "Event" not in str((await framework.deploy(framework.web(1)))["Objects"])


async def test_marks_of_an_older_engine_count_at_first(framework: Framework) -> None:
    """Servers that it installed are not installed again; its record is replaced by ours."""
    model = await framework.deploy(framework.web(2))
    servers = {one["?"]["id"] for one in app_of(model)["servers"]["items"]}
    owner = f"{FRAMEWORK}.Installable"
    model["Attributes"] = [
        one
        for one in model["Attributes"]
        if not (str(one[2]).startswith("installed_at_") or (one[0] in servers and one[1] == owner))
    ] + [[id_, owner, "installed", True] for id_ in servers]
    framework.counted()
    model = await framework.deploy(model)
    assert framework.counted() == {}
    marks = [one for one in model["Attributes"] if str(one[2]).startswith("installed_at_")]
    assert {str(one[2]).removeprefix("installed_at_") for one in marks} == servers


async def test_pools_and_turns_are_remembered(framework: Framework) -> None:
    """What a pool has given away, and whose turn it is, are known to the next deployment."""
    rings = [{"?": {"id": f"r{n}", "type": "test.Ring"}} for n in range(3)]
    model = framework.environment(
        framework.application("app", "test.Rings", group={
            "?": {"id": "g", "type": f"{FRAMEWORK}.ReplicationGroup"},
            "numItems": 1,
            "provider": {
                "?": {"id": "p", "type": f"{FRAMEWORK}.PoolReplicaProvider"}, "pool": rings,
            },
        }),
    )  # fmt: skip
    model = await framework.deploy(model)
    app_of(model)["group"]["numItems"] = 2
    model = await framework.deploy(model)
    assert app_of(model)["group"]["items"] == ["r0", "r1"]
    app_of(model)["group"]["provider"] = {
        "?": {"id": "q", "type": f"{FRAMEWORK}.RoundrobinReplicaProvider"},
        "items": app_of(model)["group"]["provider"]["pool"],
    }
    app_of(model)["group"] |= {
        "items": [],
        "numItems": 2,
        "?": {"id": "h", "type": f"{FRAMEWORK}.ReplicationGroup"},
    }
    model = await framework.deploy(model)
    app_of(model)["group"]["numItems"] = 4
    model = await framework.deploy(model)
    assert app_of(model)["group"]["items"] == ["r0", "r1", "r2", "r0"]


async def test_a_template_whose_objects_refer_to_each_other_in_a_circle(
    framework: Framework,
) -> None:
    """Every clone is a circle of its own."""
    template = {
        "?": {"id": "outer", "type": "test.Ring"},
        "inner": {"?": {"id": "inner", "type": "test.Ring"}, "next": "outer"},
    }
    model = framework.environment(
        framework.application("app", "test.Rings", group={
            "?": {"id": "g", "type": f"{FRAMEWORK}.ReplicationGroup"},
            "numItems": 2,
            "provider": {
                "?": {"id": "p", "type": f"{FRAMEWORK}.CloneReplicaProvider"},
                "template": template,
            },
        }),
    )  # fmt: skip
    model = await framework.deploy(model)
    one, two = app_of(model)["group"]["items"]
    assert one["inner"]["next"] == one["?"]["id"]
    assert two["inner"]["next"] == two["?"]["id"]
    assert len({one["?"]["id"], two["?"]["id"], "outer"}) == 3


async def test_ports_are_opened_once_in_each_region(framework: Framework) -> None:
    """Servers of two regions: each region's rules are set and pushed once."""
    framework.packages.clear()
    framework.add_class(
        """
Name: Open
Extends: [app:MultiServerApplication, app:OpenStackSecurityConfigurable]
Methods:
  getSecurityRules:
    Body:
      - Return: [{FromPort: 80, ToPort: 80, IpProtocol: tcp, External: true}]
"""
    )
    servers = [
        framework.instance(f"s{n}", f"web{n}", regionName=region)
        for n, region in enumerate([None, None, "north"])
    ]
    broker = {"host": "h", "login": "l", "password": "p"}
    framework.class_configs["io.murano.Environment"] = {
        "regionConfigs": {"north": {"agentRabbitMq": broker}}
    }
    group = {"?": {"id": "g", "type": f"{FRAMEWORK}.ServerList"}, "servers": servers}
    app = framework.application("app", "test.Open", servers=group)
    model = await framework.deploy(framework.environment(app))
    assert len(framework.cloud.stacks.store.stacks) == 2
    for stack in framework.cloud.stacks.store.stacks.values():
        rules = [
            rule
            for one in stack.template["resources"].values()
            if one["type"] == "OS::Neutron::SecurityGroup"
            for rule in one["properties"]["rules"]
        ]
        assert len([rule for rule in rules if rule.get("port_range_min") == 80]) == 1
    framework.calls()
    await framework.deploy(model)
    assert framework.calls() == []


async def test_two_scale_actions_at_once(framework: Framework) -> None:
    """One waits for the other: two servers more, with names of their own, each installed once."""
    model = await framework.deploy(framework.web(1, "Draining"))
    framework.counted()
    await framework.call(model, "app", "twice")
    assert framework.names() == ["web-1", "web-2", "web-3"]
    assert framework.counted() == {"configure": 2, "install": 2}
    assert app_of(framework.reply.model)["servers"]["numItems"] == 3


@pytest.mark.thorough
async def test_a_kill_after_the_servers_have_left(framework: Framework) -> None:
    """The model has not been saved: the same action again ends in the same state, nobody drains."""
    model = await framework.deploy(framework.web(3, "Draining"))
    await framework.call(model, "app", "scaleIn")
    assert framework.names() == ["web-1", "web-2"]
    framework.counted()
    await framework.call(model, "app", "scaleIn")
    assert framework.names() == ["web-1", "web-2"]
    assert framework.counted() == {}
    assert app_of(framework.reply.model)["servers"]["numItems"] == 2
    await framework.call(framework.reply.model, "app", "scaleOut")
    assert framework.names() == ["web-1", "web-2", "web-3"]
    assert framework.counted() == {"configure": 1, "install": 1}


@pytest.mark.thorough
async def test_a_release_that_the_stack_refuses(framework: Framework) -> None:
    """Nothing is forgotten between begin and end of a release: the next try releases the server."""
    model = await framework.deploy(framework.web(3))
    delete = framework.cloud.compute.delete_server

    async def refused(*_args: Any, **_named: Any) -> None:
        raise RuntimeError("no")

    framework.cloud.compute.delete_server = refused  # type: ignore[method-assign]
    assert await framework.failure(model, "app", "scaleIn")
    assert framework.names() == ["web-1", "web-2", "web-3"]
    framework.cloud.compute.delete_server = delete  # type: ignore[method-assign]
    model = await framework.deploy(framework.reply.model)
    assert framework.names() == ["web-1", "web-2"]
    assert [one["name"] for one in app_of(model)["servers"]["items"]] == ["web-1", "web-2"]


async def test_a_pool_that_is_empty_in_the_middle_and_filled_again(framework: Framework) -> None:
    """The group has what there is, in order; the next deployment takes the rest."""
    rings = [{"?": {"id": f"r{n}", "type": "test.Ring"}} for n in range(4)]
    provider = {
        "?": {"id": "p", "type": f"{FRAMEWORK}.PoolReplicaProvider"},
        "pool": rings[:2],
    }
    group = {
        "?": {"id": "g", "type": f"{FRAMEWORK}.ReplicationGroup"},
        "numItems": 4,
        "provider": provider,
    }
    model = await framework.deploy(
        framework.environment(framework.application("app", "test.Rings", group=group))
    )
    assert app_of(model)["group"]["items"] == ["r0", "r1"]
    app_of(model)["group"]["provider"]["pool"] += rings[2:]
    model = await framework.deploy(model)
    assert app_of(model)["group"]["items"] == ["r0", "r1", "r2", "r3"]


async def test_a_pool_member_that_is_removed_leaves_the_pool(framework: Framework) -> None:
    """What was handed out and does not exist any more is forgotten, and another takes its place."""
    rings = [{"?": {"id": f"r{n}", "type": "test.Ring"}} for n in range(3)]
    group = {
        "?": {"id": "g", "type": f"{FRAMEWORK}.ReplicationGroup"},
        "numItems": 2,
        "provider": {
            "?": {"id": "p", "type": f"{FRAMEWORK}.PoolReplicaProvider"},
            "pool": rings,
        },
    }
    model = await framework.deploy(
        framework.environment(framework.application("app", "test.Rings", group=group))
    )
    assert app_of(model)["group"]["items"] == ["r0", "r1"]
    app_of(model)["group"]["provider"]["pool"].pop(0)
    model = await framework.deploy(model)
    assert app_of(model)["group"]["items"] == ["r1", "r2"]
