"""Package lint: installations that another version of the package does not repeat (W212)."""

import re
import textwrap

import pytest

from vetro.packages import check

from .small_packages import archive

HEAD = """\
Namespaces: {=: p, res: io.murano.resources, sys: io.murano.system, conf: io.murano.configuration}
Name: App
Properties:
  port: {Contract: $.int()}
  version: {Contract: $.string()}
  instance: {Contract: $}
  servers: {Contract: [$]}
  done: {Contract: $.bool(), Usage: Out}
  url: {Contract: $.string(), Usage: Out}
Methods:
  install:
    Body:
      - $.instance.agent.call({}, $)
      - $.url: http
  other: {Body: []}
  isInstalled:
    Body:
      - Return: $.getAttr(installed, false)
  isWanted:
    Body:
      - $is: $.getAttr(installed, false)
      - Return: not $is
  isKnown:
    Arguments:
      - key: {Contract: $.string()}
    Body:
      - Return: $.getAttr($key)
  state:
    Body:
      - Return: [$.port, typeinfo($this).version]
  pause: {Body: [!yaql "$.setAttr(paused, true)"]}
  note: {Body: [!yaql "$.setAttr(noted, true)"]}
  deploy:
    Body:
"""
FIRST = HEAD.count("\n") + 1
NEW = "$it: new(sys:Installation, of => $this, on => $.instance"

#: In a list of one line a comma ends an expression.
IN_A_LIST = re.compile(r"(?<=[\[ ])(\$\.setAttr\([^()]*(?:\([^()]*\)[^()]*)*\))(?=[,\]])")
#: Bodies of `deploy`, a line each; those that are named begin with a star.
FORGOTTEN = {
    "a list that is noted": """
        - $wanted: [$.port, $.instance.openstackId]
        *- If: $this.getAttr(installed) != $wanted
          Then:
            - $.instance.agent.call({}, $)
            - $this.setAttr(installed, $wanted)
    """,
    "a mark, and Linux.runCommand": """
        *- If: not $.getAttr(installed, false)
          Then:
            - conf:Linux.runCommand($.instance.agent, true)
            - $.setAttr(installed, true)
    """,
    "a version of something else": """
        - $wanted: [$.port, $.version, typeinfo($.instance).version, $.instance.version]
        *- If: $.getAttr(installed) != $wanted
          Then:
            - $.install()
            - $.setAttr(installed, $wanted)
    """,
    "the version is only reported": """
        - $.other(typeinfo($this).version)
        *- If: $.getAttr(installed) = null
          Then:
            - $.install()
            - $.setAttr(installed, typeinfo($this).version)
    """,
    "a method that is called for each": """
        *- If: $.getAttr(installed) = null
          Then:
            - $.servers.pselect($this.install())
            - $.setAttr(installed, 1)
    """,
    "an early return": """
        *- If: $.getAttr(installed)
          Then: {Return: null}
        - $.install()
        - $.setAttr(installed, 1)
    """,
    "an early return that is nested": """
        - Do:
            - Try:
                *- If: $.getAttr(installed) != null
                  Then: {Throw: Already}
              Catch: {As: e, Do: []}
        - $.install()
        - $.setAttr(installed, 1)
    """,
    "an early return in Else": """
        *- If: not $.getAttr(installed)
          Then: []
          Else: {Return: null}
        - $.install()
        - $.setAttr(installed, 1)
    """,
    "Else": """
        *- If: $.getAttr(installed) = true
          Then: [$.other()]
          Else: [$.install(), $.setAttr(installed, true)]
    """,
    "a variable": """
        - $is: $.getAttr(installed, false)
        - $todo: not $is
        *- If: $todo
          Then: [$.install(), $.setAttr(installed, true)]
    """,
    "a kept property": """
        *- If: not $.done
          Then: [$.install(), {$.done: true}]
    """,
    "a kept property that another method writes": """
        *- If: $.url = null
          Then: [$.install()]
    """,
    "a kept property that is written behind": """
        *- If: not $.done
          Then: [$.install()]
        - $.done: true
    """,
    "a method that answers": """
        *- If: not $.isInstalled()
          Then: [$.install(), $.setAttr(installed, true)]
    """,
    "a method of several lines that answers": """
        *- If: $.isWanted()
          Then: [$.install(), $.setAttr(installed, true)]
    """,
    "While": """
        *- While: not $.getAttr(installed, false)
          Do: [$.install(), $.setAttr(installed, true)]
    """,
    "within While": """
        - While: $.port > 1
          Do:
            *- If: not $.getAttr(installed, false)
              Then: [$.install(), $.setAttr(installed, true)]
    """,
    "Switch": """
        *- Switch:
            $.getAttr(installed) = null: [$.install(), $.setAttr(installed, true)]
    """,
    "Default of Switch": """
        *- Switch:
            $.getAttr(installed, false): [$.other()]
          Default: [$.install(), $.setAttr(installed, true)]
    """,
    "Match": """
        *- Match:
            false: [$.install(), $.setAttr(installed, true)]
          Value: $.getAttr(installed, false)
    """,
    "Default of Match": """
        *- Match:
            true: [$.other()]
          Value: $.getAttr(installed, false)
          Default: [$.install(), $.setAttr(installed, true)]
    """,
    "within Match": """
        - Match:
            1:
              *- If: not $.getAttr(installed, false)
                Then: [$.install(), $.setAttr(installed, true)]
          Value: $.port
    """,
    "within Try, Parallel, Repeat": """
        - Try:
            - Parallel:
                - Repeat: 2
                  Do:
                    *- If: not $.getAttr(installed, false)
                      Then: [$.install(), $.setAttr(installed, true)]
          Catch: {As: e, Do: []}
    """,
    "within Catch": """
        - Try: [$.other()]
          Catch:
            As: e
            Do:
              *- If: not $.getAttr(installed, false)
                Then: [$.install(), $.setAttr(installed, true)]
    """,
    "a name for each server": """
        - For: server
          In: $.servers
          Do:
            - $key: format('installed-{0}', id($server))
            *- If: $.getAttr($key) = null
              Then:
                - $server.agent.call({}, $)
                - $.setAttr($key, 1)
    """,
    "Continue": """
        - For: server
          In: $.servers
          Do:
            *- If: $server.getAttr(installed)
              Then: {Continue: null}
            - conf:Linux.putFile($server.agent, a, b)
            - $server.setAttr(installed, true)
    """,
    "the name in a variable, at one place": """
        - $key: installed
        *- If: not $.getAttr($key)
          Then: [$.install(), $.setAttr(installed, true)]
    """,
    "an agent in a variable": """
        - $a: $.instance.agent
        *- If: not $.getAttr(installed)
          Then:
            - $a.call({}, $)
            - $.setAttr(installed, true)
    """,
    "an agent in a property, and one that is made": """
        - $.a: new(sys:Agent, $.instance)
        *- If: not $.getAttr(installed)
          Then:
            - $.a.sendRaw({})
            - $.setAttr(installed, true)
    """,
    "the servers that are not noted": """
        - $new: $.servers.where(not $.getAttr(installed))
        *- $new.pselect($this.install())
        - $new.select($.setAttr(installed, true))
    """,
    "a loop of the servers that are not noted": """
        *- For: server
          In: $.servers.where(not id($) in $this.getAttr(known, []))
          Do:
            - conf:Linux.runCommand($server.agent, true)
        - $.setAttr(known, $.servers.select(id($)))
    """,
    "within an expression": """
        *- $.getAttr(installed) or $.install()
        - $.setAttr(installed, true)
    """,
    "a mark beside a right guard": f"""
        - {NEW})
        *- If: $it.isDue() and not $.getAttr(installed)
          Then: [$.install(), $it.done(), $.setAttr(installed, true)]
    """,
    "a mark within a right guard": f"""
        - {NEW})
        - If: $it.isDue()
          Then:
            *- If: not $.getAttr(database)
              Then: [$.install(), $.setAttr(database, true)]
            - $it.done()
    """,
    "a state": """
        *- If: $.getAttr(state, new) = new
          Then: [$.install(), $.setAttr(state, old)]
        *- Match:
            new: [$.install(), $.setAttr(state, old)]
          Value: $.getAttr(state, new)
    """,
    "a mark of what is fresh": """
        *- If: $.getAttr(fresh, true)
          Then: [$.install(), $.setAttr(fresh, false)]
    """,
    "the length of what is noted": """
        *- If: len($.getAttr(seen, [])) = 0
          Then: [$.install(), $.setAttr(seen, [1])]
    """,
    "nothing that may be something else": """
        *- If: coalesce($.getAttr(installed), false) = false or $.port = 5
          Then: [$.install(), $.setAttr(installed, true)]
    """,
    "a part of what is noted": """
        - $known: $.getAttr(known, {})
        *- If: $known.get(port) != $.port
          Then: [$.install()]
        - $.setAttr(known, {port => $.port})
    """,
    "a variable that a condition decides": """
        - $todo: true
        - If: $.getAttr(installed)
          Then: [{$todo: false}]
        *- If: $todo
          Then: [$.install(), $.setAttr(installed, true)]
    """,
    "a parameter": """
        *- If: not $.isKnown(installed)
          Then: [$.install(), $.setAttr(installed, true)]
    """,
    "the version that its author counts": """
        *- If: $.getAttr(installed, 0) != 2
          Then: [$.install(), $.setAttr(installed, 2)]
    """,
    "a mark that a method sets": """
        *- If: not $.getAttr(noted)
          Then: [$.install()]
        - $.note()
    """,
    "a mark that is set before": """
        *- If: not $.getAttr(installed)
          Then: [$.setAttr(installed, true), $.install()]
        *- If: not $.done
          Then: [{$.done: true}, $.install()]
    """,
    "a mark that is set behind an early return": """
        *- If: $.done
          Then: {Return: null}
        - $.done: true
        - $.install()
    """,
    "a count alone": """
        *- If: $.getAttr(runs, 0) = 0
          Then:
            - $.install()
            - $.setAttr(runs, $.getAttr(runs, 0) + 1)
    """,
    "what a guest has answered": """
        *- If: $.url = null
          Then:
            - $resources: new(sys:Resources)
            - $.url: $.instance.agent.call($resources.yaml('a.template'), $resources)
    """,
}
REMEMBERED = {
    "an Installation": f"""
        - {NEW})
        - If: $it.isDue()
          Then: [$.install(), $it.done()]
    """,
    "an Installation and an early return": f"""
        - {NEW})
        - If: not $it.isDue()
          Then: {{Return: null}}
        - $.install()
        - $it.done()
    """,
    "an Installation whose values are counted": f"""
        - {NEW}, values => [$.getAttr(runs, 0)])
        - If: $it.isDue()
          Then:
            - $.setAttr(runs, $.getAttr(runs, 0) + 1)
            - $.install()
            - $it.done()
    """,
    "an Installation with a count of attempts": f"""
        - {NEW})
        - $failures: $.getAttr(failures, 0)
        - If: $it.isDue() and $failures < 3
          Then:
            - $.setAttr(failures, $failures + 1)
            - $.install()
            - $it.done()
    """,
    "an Installation within a count": f"""
        - {NEW})
        - If: $.getAttr(failures, 0) > 3
          Then: {{Throw: TooMany}}
        - If: $it.isDue()
          Then:
            - $.setAttr(failures, $.getAttr(failures, 0) + 1)
            - $.install()
            - $it.done()
    """,
    "an Installation or a mark": f"""
        - {NEW})
        - If: $it.isDue() or not $.getAttr(installed)
          Then: [$.install(), $it.done(), $.setAttr(installed, true)]
    """,
    "a count beside it": f"""
        - {NEW})
        - If: $.getAttr(runs, 0) = 0
          Then: [$.other()]
        - $.setAttr(runs, $.getAttr(runs, 0) + 1)
        - If: $it.isDue()
          Then: [$.install(), $it.done()]
    """,
    "a mark that an Installation sets back": f"""
        - {NEW})
        - If: $it.isDue()
          Then: [$.setAttr(installed, false), {{$.done: false}}]
        - If: not $.getAttr(installed)
          Then: [$.install(), $.setAttr(installed, true), $it.done()]
        - If: not $.done
          Then: [$.install(), {{$.done: true}}]
    """,
    "the version in a list": """
        - $wanted: [$.port, typeinfo($this).version]
        - If: $.getAttr(installed) != $wanted
          Then: [$.install(), $.setAttr(installed, $wanted)]
    """,
    "the version of the package": """
        - $type: typeinfo($this)
        - If: $.getAttr(installed) != str($type.package.version)
          Then: [$.install(), $.setAttr(installed, str($type.package.version))]
    """,
    "the version of the class by its name": """
        - If: $.getAttr(installed) != typeinfo(:App).version
          Then: [$.install(), $.setAttr(installed, typeinfo(:App).version)]
    """,
    "the version by a method": """
        - If: $.getAttr(installed) != $.state()
          Then: [$.install(), $.setAttr(installed, $.state())]
    """,
    "the version in a property": """
        - $.wanted: {port: $.port, by: typeinfo($this).version}
        - If: $.getAttr(installed) != $.wanted
          Then: [$.install(), $.setAttr(installed, $.wanted)]
    """,
    "the version in the name": """
        - $key: format('installed by {0}', typeinfo($this).version)
        - If: not $.getAttr($key)
          Then: [$.install(), $.setAttr($key, true)]
    """,
    "the script itself": """
        - $resources: new(sys:Resources)
        - $script: $resources.string('install.sh')
        - If: $.getAttr(installed) != $script
          Then: [$.install(), $.setAttr(installed, $script)]
    """,
    "a variable that an Installation decides": f"""
        - {NEW})
        - $todo: $.getAttr(often, false)
        - If: $it.isDue()
          Then: [{{$todo: true}}]
        - If: $todo
          Then: [$.install(), $.setAttr(often, false), $it.done()]
    """,
    "the version in a part of what is noted": """
        - $known: $.getAttr(known, {})
        - If: $known.get(port) != $.port or $known.get(by) != typeinfo($this).version
          Then: [$.install(), $.setAttr(known, {port => $.port, by => typeinfo($this).version})]
    """,
    "a part that is in what is noted": """
        - If: id($) in $.getAttr(known, []) and len($.getAttr(known, [])) > 0
          Then: [$.install(), $.setAttr(known, [])]
        - If: $.url = null
          Then: {Throw: NotInstalled}
        - $.instance.agent.call({}, $)
    """,
    "a pause": """
        - If: $.getAttr(paused)
          Then: {Return: null}
        - $.install()
    """,
    "a mark that another version sets back": """
        - If: $.getAttr(by) != typeinfo($this).version
          Then: [$.setAttr(installed, null), $.setAttr(by, typeinfo($this).version)]
        - If: not $.getAttr(installed)
          Then: [$.install(), $.setAttr(installed, true)]
    """,
    "nothing is installed": """
        - If: not $.getAttr(installed)
          Then: [$.other(), $.setAttr(installed, true)]
    """,
    "call of something else": """
        - If: not $.getAttr(installed)
          Then:
            - $.instance.phone.call(home)
            - $.setAttr(installed, true)
    """,
    "a wish": """
        - If: $.port > 5
          Then: [$.install()]
    """,
    "never noted": """
        - If: not $.getAttr(deployed)
          Then: [$.install()]
    """,
    "a network before it": """
        - If: not $.getAttr(net)
          Then: [$.setAttr(net, 1)]
        - $.install()
    """,
    "what is installed is removed": """
        - If: $.getAttr(installed, false)
          Then: [$.install(), $.setAttr(installed, null)]
        - If: $.getAttr(installed) != null and $.isInstalled() = true
          Then: [$.install(), $.setAttr(installed, false)]
    """,
    "a loop that ends": """
        - For: server
          In: $.servers
          Do:
            - If: $server.getAttr(seen)
              Then: {Break: null}
            - $server.setAttr(seen, true)
        - $.install()
    """,
    "no guard": """
        - $.setAttr(installed, $.getAttr(installed, 0) + 1)
        - $.install()
    """,
}


@pytest.mark.parametrize("name", [*FORGOTTEN, *REMEMBERED])
def test_guards_that_forget_the_version(name: str) -> None:
    """A guard around calls of a guest that does not depend on the version is named with its line."""
    lines = textwrap.dedent({**FORGOTTEN, **REMEMBERED}[name]).strip().splitlines()
    wrong = [FIRST + index for index, line in enumerate(lines) if "*- " in line]
    assert bool(wrong) == (name in FORGOTTEN)
    body = "\n".join(
        " " * 6 + IN_A_LIST.sub(r'!yaql "\1"', line.replace("*- ", "- ")) for line in lines
    )
    package = archive({"Classes/App.yaml": f"{HEAD}{body}\n"})
    found = check(package)
    assert not [one for one in found if one.level == "error" and one.code < "E3"]
    named = [one for one in found if one.code == "W212"]
    assert [(one.level, one.line) for one in named] == [("warning", line) for line in wrong]
    assert all("io.murano.system.Installation" in one.message for one in named)
