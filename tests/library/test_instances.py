"""Instances, networks and what they leave in the stack (core-library.md §5, §10, §12)."""

from __future__ import annotations

from typing import Any

APP = """
Name: Shop
Extends: std:Application
Properties:
  instance: {Contract: $.class(res:Instance).notNull()}
  installed: {Contract: $.int(), Usage: Out}
Methods:
  deploy:
    Body:
      - $environment: $this.find(std:Environment)
      - $environment.securityGroupManager.addGroupIngress([
          {FromPort => 80, ToPort => 80, IpProtocol => tcp, External => true}])
      - $environment.reporter.report($this, 'Creating the machine')
      - $.instance.deploy()
      - If: not $this.getAttr(deployed, false)
        Then:
          - $environment.reporter.report($this, 'Installing')
          - conf:Linux.runCommand($.instance.agent, 'install the shop')
          - $this.setAttr(deployed, true)
"""


async def test_the_order_of_effects_of_one_linux_application(lab: Any) -> None:
    """First the network, then the machine, then the agent; a second deployment does nothing (§10)."""
    lab.add_class(APP)
    model = lab.environment(lab.application("shop", "test.Shop", instance=lab.instance()))
    after = await lab.deploy(model)
    effects = [
        kind for kind in lab.kinds() if kind.startswith(("stack.p", "agent.s", "report", "track"))
    ]
    assert effects == ["report", "stack.push", "stack.push", "track", "report", "agent.send"]
    assert lab.texts() == ["Creating the machine", "Installing"]
    calls = lab.calls()
    assert calls.index("create_subnet") < calls.index("create_server")
    assert "create_security_group" in calls[: calls.index("create_port")]
    assert len(lab.cloud.transport.plans) == 1
    vm = after["Objects"]["applications"][0]["instance"]
    assert vm["openstackId"] in lab.cloud.compute.server_list
    assert len(vm["ipAddresses"]) == 1

    again = await lab.deploy(after)
    assert lab.calls() == []
    assert "stack.push" not in lab.kinds()
    assert len(lab.cloud.transport.plans) == 1
    assert again["Objects"] == after["Objects"]
    assert await lab.destroy(again)
    assert not lab.cloud.compute.server_list
    assert not lab.cloud.stacks.store.stacks
