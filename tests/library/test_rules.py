"""Rules of the security group that the applications of an environment share."""

from __future__ import annotations

from typing import Any

import pytest

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
