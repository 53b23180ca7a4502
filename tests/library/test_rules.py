"""Rules of the security group that the applications of an environment share."""

from __future__ import annotations

import functools
import random
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from vetro.engine.services import library_path
from vetro.stacks import ResourceFailure, StackError

GROUP = "MuranoSecurityGroup-env"
CLASSES = """
Name: App
Extends: std:Application
Properties:
  instance: {Contract: $.class(res:Instance).notNull()}
  ports: {Contract: [$.int().notNull()]}
  group: {Contract: $.string()}
  helper: {Contract: $.class(Helper).owned()}
Methods:
  deploy:
    Body:
      # Once, as most packages do.
      - If: not $.getAttr(deployed, false)
        Then:
          - $rules: $.ports.select({FromPort => $, ToPort => $, IpProtocol => tcp, External => true})
          - If: $.helper != null
            Then:
              - $.helper.open($rules)
            Else:
              - $.find(std:Environment).securityGroupManager.addGroupIngress($rules, $.group)
          - $.instance.deploy()
          - $.setAttr(deployed, true)
---
Name: Helper
Methods:
  open:
    Arguments:
      - rules: {Contract: []}
    Body:
      - $rules.select([$]).pselect(:Helper.ask($this.find(std:Environment), $))
  ask:
    Usage: Static
    Arguments:
      - env: {Contract: $.class(std:Environment)}
      - rules: {Contract: []}
    Body:
      - $env.securityGroupManager.addGroupIngress($rules)
"""


def app(lab: Any, name: str, *ports: int, **properties: Any) -> Any:
    """An application with one machine, which opens ports."""
    instance = lab.instance(f"vm-{name}", name)
    return lab.application(name, "test.App", instance=instance, ports=[*ports], **properties)


async def ports(lab: Any, group: str = GROUP) -> list[int | None]:
    """The first ports of a group's rules; ``None`` is ICMP."""
    body = (await lab.template())["resources"][group]
    return [one.get("port_range_min") for one in body["properties"]["rules"]]


def keep(model: Any, *names: str) -> None:
    """Take the other applications out."""
    objects = model["Objects"]
    objects["applications"] = [one for one in objects["applications"] if one["?"]["id"] in names]


@pytest.mark.parametrize("helper", [None, {"?": {"id": "h", "type": "test.Helper"}}])
async def test_rules_leave_with_the_last_application_that_asked_for_them(
    lab: Any, helper: Any
) -> None:
    """Also when none of the others asks again: packages ask once. Rules that two share stay."""
    lab.add_class(CLASSES)
    apps = [app(lab, "web", 80, 443, helper=helper), app(lab, "shop", 443, 8080), app(lab, "db", 1)]
    model = await lab.deploy(lab.environment(*apps))
    # The machines open port 22.
    assert sorted(one or 0 for one in await ports(lab)) == [0, 1, 22, 80, 443, 8080]
    lab.calls()
    model = await lab.deploy(model)
    assert lab.calls() == []
    keep(model, "shop", "db")
    model = await lab.deploy(model)
    assert sorted(one or 0 for one in await ports(lab)) == [0, 1, 22, 443, 8080]
    keep(model, "db")
    model = await lab.deploy(model)
    assert sorted(one or 0 for one in await ports(lab)) == [0, 1, 22]
    lab.calls()
    model = await lab.deploy(model)
    assert lab.calls() == []


async def test_a_group_that_nobody_asks_for_any_more_is_removed(lab: Any) -> None:
    """One of an application's own, with its rules."""
    lab.add_class(CLASSES)
    model = await lab.deploy(lab.environment(app(lab, "web", 80, group="front"), app(lab, "db", 1)))
    assert await ports(lab, "front") == [None, 80]
    keep(model, "db")
    await lab.deploy(model)
    resources = (await lab.template())["resources"]
    assert "front" not in resources
    assert GROUP in resources


async def test_rules_from_before_their_askers_were_kept_stay(lab: Any) -> None:
    """Who had asked is not known: it may be an application that does not ask again."""
    lab.add_class(CLASSES)
    model = await lab.deploy(lab.environment(app(lab, "web", 80), app(lab, "db", 1)))
    model["Attributes"] = [one for one in model["Attributes"] if not one[2].startswith("rules ")]
    model["Objects"]["applications"].append(app(lab, "shop", 80, 8080))
    model = await lab.deploy(model)
    keep(model, "db")
    await lab.deploy(model)
    assert sorted(one or 0 for one in await ports(lab)) == [0, 1, 22, 80]


ALWAYS = """
Name: Always
Extends: std:Application
Properties:
  ports: {Contract: [$.int().notNull()]}
  once: {Contract: [$.int().notNull()], Default: []}
  fails: {Contract: $.bool(), Default: false}
  pushes: {Contract: $.bool(), Default: true}
  parts: {Contract: [$.class(Part)], Default: []}
Methods:
  rules:
    Arguments:
      - ports: {Contract: []}
    Body:
      - Return: $ports.select({FromPort => $, ToPort => $, IpProtocol => tcp, External => true})
  open:
    Arguments:
      - ports: {Contract: []}
    Body:
      - $.find(std:Environment).securityGroupManager.addGroupIngress($.rules($ports))
  deploy:
    Body:
      - $.open($.ports)
      - $.parts.pselect($.deploy())
      - If: not $.getAttr(deployed, false)
        Then:
          - $.open($.once)
          - $.setAttr(deployed, true)
      - If: $.pushes
        Then:
          - $.find(std:Environment).stack.push()
      - If: $.fails
        Then:
          - Throw: Broken
  also:
    Scope: Public
    Arguments:
      - port: {Contract: $.int().notNull()}
    Body:
      - $.open([$port])
      - $.find(std:Environment).stack.push()
  again:
    Scope: Public
    Body:
      - $.deploy()
---
Name: Part
Properties:
  port: {Contract: $.int().notNull()}
Methods:
  deploy:
    Body:
      - If: not $.getAttr(deployed, false)
        Then:
          - $.find(Always).open([$.port])
          - $.setAttr(deployed, true)
"""


def always(lab: Any, name: str, *ports: int, **properties: Any) -> Any:
    """An application that asks in each of its deployments for its ports."""
    return lab.application(name, "test.Always", ports=[*ports], **properties)


def part(name: str, port: int) -> Any:
    """A part of an application, which asks when it is installed."""
    return {"?": {"id": name, "type": "test.Part"}, "port": port}


def of(model: Any, name: str) -> Any:
    """An application of a model."""
    return next(one for one in model["Objects"]["applications"] if one["?"]["id"] == name)


async def opened(lab: Any) -> list[int]:
    """The ports that are open, without ICMP."""
    return sorted(one for one in await ports(lab) if one is not None)


async def test_a_port_that_an_application_gave_up_is_closed_by_the_same_deployment(
    lab: Any,
) -> None:
    """What it asks for once, what others ask for, and what it goes on asking for stay."""
    lab.add_class(ALWAYS)
    apps = [always(lab, "web", 80, 1883, once=[9]), always(lab, "shop", 80)]
    model = await lab.deploy(lab.environment(*apps))
    assert await opened(lab) == [9, 80, 1883]
    of(model, "web")["ports"] = [1885]
    model = await lab.deploy(model)
    assert await opened(lab) == [9, 80, 1885]
    lab.calls()
    model = await lab.deploy(model)
    assert lab.calls() == []
    of(model, "shop")["ports"] = []
    model = await lab.deploy(model)
    assert await opened(lab) == [9, 1885]
    of(model, "web")["ports"] = [80, 1883]
    await lab.deploy(model)
    assert await opened(lab) == [9, 80, 1883]


async def test_a_deployment_that_fails_gives_nothing_up(lab: Any) -> None:
    """What an application asked for before stays open until a deployment of all ends well."""
    lab.add_class(ALWAYS)
    model = await lab.deploy(lab.environment(always(lab, "web", 80), always(lab, "shop", 1)))
    of(model, "web").update(ports=[81], fails=True)
    of(model, "shop").update(ports=[2])
    model = await lab.deploy(model, fails=True)
    assert {1, 80} <= {*await opened(lab)}
    of(model, "web").update(fails=False)
    await lab.deploy(model)
    assert await opened(lab) == [2, 81]


async def test_a_push_that_fails_is_made_up_for_by_the_next_deployment(lab: Any) -> None:
    """Who asked for a rule is forgotten only when the back end does not have it any more."""
    lab.add_class(ALWAYS)
    model = await lab.deploy(lab.environment(always(lab, "web", 80)))
    of(model, "web").update(ports=[])
    lab.cloud.compute.fail["update_security_group"] = ResourceFailure("no room")
    model = await lab.deploy(model, fails=True)
    assert await opened(lab) == []
    (group,) = lab.cloud.compute.group_list.values()
    assert 80 in [one.get("port_range_min") for one in group.rules]
    del lab.cloud.compute.fail["update_security_group"]
    await lab.deploy(model)
    assert await opened(lab) == []
    (group,) = lab.cloud.compute.group_list.values()
    assert 80 not in [one.get("port_range_min") for one in group.rules]


async def test_an_action_gives_nothing_up(lab: Any) -> None:
    """What it asks for stays beside the others, also when it deploys its application again."""
    lab.add_class(ALWAYS)
    model = await lab.deploy(lab.environment(always(lab, "web", 80)))

    async def act(method: str, **args: Any) -> Any:
        action = {"object_id": "web", "method": method, "args": args}
        reply = await lab.run(model, action)
        assert not reply.is_exception, reply.details
        return reply.model

    model = await act("also", port=7)
    model = await act("also", port=8)
    assert await opened(lab) == [7, 8, 80]
    model = await lab.deploy(model)
    assert await opened(lab) == [7, 8, 80]
    of(model, "web")["ports"] = [81]
    model = await act("again")
    assert 80 in await opened(lab)
    model = await lab.deploy(model)
    assert await opened(lab) == [7, 8, 81]


async def test_parts_of_an_application_ask_for_themselves(lab: Any) -> None:
    """A part that was installed before keeps its port beside a new one; a removed one takes its along."""
    lab.add_class(ALWAYS)
    model = await lab.deploy(
        lab.environment(always(lab, "web", parts=[part("a", 1), part("b", 2)]))
    )
    assert await opened(lab) == [1, 2]
    of(model, "web")["parts"].append(part("c", 3))
    model = await lab.deploy(model)
    assert await opened(lab) == [1, 2, 3]
    del of(model, "web")["parts"][0]
    await lab.deploy(model)
    assert await opened(lab) == [2, 3]


@pytest.mark.parametrize("seed", range(3))
async def test_open_are_the_ports_that_somebody_asks_for(lab: Any, seed: int) -> None:
    """Whatever is edited, added, taken out or fails: a deployment that ends well settles it."""
    chance = random.Random(seed)
    lab.add_class(ALWAYS)
    model = lab.environment()
    once: dict[str, list[int]] = {}
    for step in range(6):
        applications = model["Objects"]["applications"]
        if applications and chance.random() < 0.2:
            gone = applications.pop(chance.randrange(len(applications)))
            once.pop(gone["?"]["id"], None)
        if len(applications) < 3:
            applications.append(always(lab, f"a{step}", once=chance.sample(range(100, 104), 1)))
        for one in applications:
            one["ports"] = chance.sample(range(1, 5), 2)
            one["fails"] = chance.random() < 0.2
        wanted = {port for one in applications for port in one["ports"]}
        fails = any(one["fails"] for one in applications)
        before = set(await opened(lab)) if step else set[int]()
        model = await lab.deploy(model, fails=fails)
        applications = model["Objects"]["applications"]
        for one in applications:
            once.setdefault(one["?"]["id"], one["once"])
        installed = {port for ports in once.values() for port in ports}
        if fails:
            assert before & installed <= set(await opened(lab))
        else:
            assert set(await opened(lab)) == wanted | installed
        if not fails and chance.random() < 0.5:
            # A deployment in which nothing was edited changes nothing.
            lab.calls()
            model = await lab.deploy(model)
            assert lab.calls() == []


async def test_a_new_version_that_asks_elsewhere_gives_up_what_its_code_no_longer_asks_for(
    lab: Any,
) -> None:
    """The statements that once asked are gone; what was asked for by code that is still there stays."""
    lab.add_class(ALWAYS)
    model = await lab.deploy(lab.environment(always(lab, "web", 80, once=[9])))
    assert await opened(lab) == [9, 80]
    lab.packages.clear()
    lab.add_class(ALWAYS.replace("- $.open($.ports)", "- $.open([8080])", 1))
    model = await lab.deploy(model)
    assert await opened(lab) == [9, 8080]


async def test_a_new_version_that_asks_for_nothing_any_more_leaves_no_port_open(lab: Any) -> None:
    """It is seen to run when its machine asks: for the port by which people get in."""
    asks = "      - $.find(std:Environment).securityGroupManager.addGroupIngress([$.rule])\n"
    lab.add_class(WITH_MACHINE.replace("      # asks\n", asks))
    rule = {"FromPort": 80, "ToPort": 80, "IpProtocol": "tcp", "External": True}
    machine = lab.application("web", "test.Site", instance=lab.instance(), rule=rule)
    model = await lab.deploy(lab.environment(machine))
    assert await opened(lab) == [22, 80]
    lab.packages.clear()
    lab.add_class(WITH_MACHINE)
    await lab.deploy(model)
    assert await opened(lab) == [22]


async def test_a_new_release_of_the_core_library_closes_no_port(lab: Any, tmp_path: Path) -> None:
    """Other words in its methods are not another place: what was asked for once stays."""
    lab.add_class(ALWAYS)
    model = await lab.deploy(lab.environment(always(lab, "web", 80, once=[9])))
    copied = tmp_path / "io.murano"
    shutil.copytree(library_path() / "io.murano", copied)
    file = copied / "Classes/system/security_groups.yaml"
    text = file.read_text()
    file.write_text(text.replace("$direction", "$way").replace("- direction:", "- way:"))
    assert "$way" in file.read_text()
    make = lab.make

    lab.make = functools.partial(lab.runtimes.new, copied)
    model = await lab.deploy(model)
    assert await opened(lab) == [9, 80]
    of(model, "web")["ports"] = [81]
    await lab.deploy(model)
    assert await opened(lab) == [9, 81]
    lab.make = make


async def test_a_machine_of_another_class_does_not_keep_the_ports_of_the_former_one(
    lab: Any,
) -> None:
    """People get into a Windows by another port than into a Linux."""
    lab.add_class(WITH_MACHINE)
    site = lab.application("web", "test.Site", instance=lab.instance(), rule={})
    model = await lab.deploy(lab.environment(site))
    assert await opened(lab) == [22]
    of(model, "web")["instance"] = lab.instance(type_="io.murano.resources.WindowsInstance")
    await lab.deploy(model)
    assert await opened(lab) == [3389]


WITH_MACHINE = """
Name: Site
Extends: std:Application
Properties:
  instance: {Contract: $.class(res:Instance).notNull()}
  rule: {Contract: {}}
Methods:
  deploy:
    Body:
      # asks
      - $.instance.deploy()
"""


async def test_askers_that_were_known_without_their_places_are_kept(lab: Any) -> None:
    """In models of earlier versions an application stands for all its places until it asks again."""
    lab.add_class(ALWAYS)
    model = await lab.deploy(lab.environment(always(lab, "web", 80, once=[9])))
    for row in model["Attributes"]:
        if row[2].startswith("rules "):
            for one in row[3][GROUP]:
                one["by"] = [by if isinstance(by, str) else by["app"] for by in one["by"]]
    model = await lab.deploy(model)
    assert await opened(lab) == [9, 80]
    of(model, "web")["ports"] = [81]
    model = await lab.deploy(model)
    assert await opened(lab) == [9, 81]


@pytest.mark.parametrize("change", [False, True])
async def test_a_rule_that_was_removed_by_hand_is_put_back(lab: Any, change: bool) -> None:
    """By a deployment in which nothing was edited, and by one that changes another resource.

    A rule that was added by hand stays.
    """
    lab.add_class(ALWAYS + MACHINE)
    machine = lab.application("db", "test.Machine", instance=lab.instance("vm", "vm"))
    model = await lab.deploy(lab.environment(always(lab, "web", 80, 443), machine))
    (group,) = lab.cloud.compute.group_list.values()
    whole = list(group.rules)
    added = {**whole[-1], "direction": "ingress", "port_range_min": 9, "port_range_max": 9}
    group.rules = [one for one in whole if one.get("port_range_min") != 443] + [added]
    of(model, "web")["pushes"] = False
    if change:
        of(model, "db")["instance"]["flavor"] = "m1.large"
    model = await lab.deploy(model)
    told = [one.get("port_range_min") for one in group_rules(lab)]
    assert sorted(one for one in told if one) == [9, 22, 80, 443]
    assert all(one in group_rules(lab) for one in whole)
    lab.calls()
    await lab.deploy(model)
    assert lab.calls() == []


async def test_a_look_that_is_not_possible_is_a_report(
    lab: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The deployment goes on without it; what a back end could not do beside its work is a report, too."""
    lab.add_class(ALWAYS)
    model = await lab.deploy(lab.environment(always(lab, "web", 80)))
    update = lab.cloud.stacks.update

    async def away(_project: str, name: str) -> list[str]:
        raise StackError(f"nobody can look at {name}")

    async def with_warnings(*given: Any, **options: Any) -> Any:
        return replace(await update(*given, **options), warnings=["a machine is in the way"])

    monkeypatch.setattr(lab.cloud.stacks, "altered", away)
    monkeypatch.setattr(lab.cloud.stacks, "update", with_warnings)
    of(model, "web")["ports"] = [443]
    await lab.deploy(model)
    said = lab.texts("warning")
    assert [one for one in said if one.startswith("nobody can look at")] != []
    assert "a machine is in the way" in said
    assert [one.get("port_range_min") for one in group_rules(lab)].count(443) == 1


def group_rules(lab: Any) -> list[Any]:
    """The rules of the only group, as the compute service has them."""
    (group,) = lab.cloud.compute.group_list.values()
    return list(group.rules)


MACHINE = """
---
Name: Machine
Extends: std:Application
Properties:
  instance: {Contract: $.class(res:Instance).notNull()}
Methods:
  deploy:
    Body:
      # As a package that pushes nothing when it is there already.
      - If: $.getAttr(flavor) != $.instance.flavor
        Then:
          - $.instance.deploy()
          - $.setAttr(flavor, $.instance.flavor)
"""
