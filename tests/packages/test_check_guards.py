"""Package lint: installations that another version of the package does not repeat (W212)."""

import pytest

from vetro.packages import check

from .small_packages import archive

CLASS = """\
Namespaces: {=: p, res: io.murano.resources, sys: io.murano.system, conf: io.murano.configuration}
Name: App
Properties:
  port: {Contract: $.int()}
  instance: {Contract: $}
  done: {Contract: $.bool(), Usage: Out}
Methods:
  install:
    Body:
      - $.instance.agent.call({}, $)
  other: {Body: []}
  deploy:
    Body:
"""
NOTED = """
      - $wanted: [$.port, $.instance.openstackId]
      - If: $this.getAttr(installed) != $wanted
        Then:
          - CALL
          - $this.setAttr(installed, $wanted)
"""


MARKED = """
      - If: not $.getAttr(deployed, false)
        Then:
          - $.install()
          - $.setAttr(deployed, true)
"""
RETURNED = """
      - If: $.getAttr(deployed)
        Then: {Return: null}
      - $.install()
      - $.setAttr(deployed, 1)
"""
IN_A_VARIABLE = """
      - $is: $.getAttr(deployed, false)
      - If: not $is
        Then:
          - $.install()
          - $.setAttr(deployed, true)
"""
IN_A_PROPERTY = """
      - If: not $.done
        Then: [$.install(), {$.done: true}]
"""
A_WISH = """
      - If: $.port > 5
        Then: $.install()
"""
NEVER_NOTED = """
      - If: $.getAttr(deployed)
        Then: $.install()
"""
OF_A_NETWORK = """
      - If: not $.getAttr(net)
        Then: $.setAttr(net, 1)
      - $.install()
"""
HELPED = """
      - $it: new(sys:Installation, of => $this, on => $.instance)
      - If: $it.isDue()
        Then: [$.install(), $it.done()]
"""


@pytest.mark.parametrize(
    ("body", "lines"),
    [
        (NOTED.replace("CALL", "$.instance.agent.call({}, $)"), [15]),
        (NOTED.replace("CALL", "conf:Linux.runCommand($.instance.agent, true)"), [15]),
        (NOTED.replace("CALL", "$.install()"), [15]),
        (NOTED.replace("CALL", "list(1).pselect($this.install())"), [15]),
        (MARKED, [14]),
        (RETURNED, [14]),
        (IN_A_VARIABLE, [15]),
        (IN_A_PROPERTY, [14]),
        # Nothing is installed, or what is noted says the version.
        (NOTED.replace("CALL", "$.other()"), []),
        (NOTED.replace("CALL", "$.install()").replace("$.port", "typeinfo($this).version"), []),
        (A_WISH, []),
        (NEVER_NOTED, []),
        (OF_A_NETWORK, []),
        (HELPED, []),
    ],
)
def test_guards_that_forget_the_version(body: str, lines: list[int]) -> None:
    """A guard around calls of a guest that counts only what it was told is named with its line."""
    package = archive({"Classes/App.yaml": CLASS + body.lstrip("\n")})
    found = [one for one in check(package) if one.code == "W212"]
    assert [(one.level, one.line) for one in found] == [("warning", line) for line in lines]
    assert all("io.murano.system.Installation" in one.message for one in found)
