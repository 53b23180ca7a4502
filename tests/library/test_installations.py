"""What is installed again, and what is not: every sample, and the class behind them."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from vetro.engine.services import library_path
from vetro.engine.worker.upgraded import keep_unsaid, silent_upgrades
from vetro.packages import build_archive, open_package

SECRET = "correct horse"
FRAMEWORK = "io.murano.applications"


def group(count: int) -> dict[str, Any]:
    """Servers of the framework that are called after their numbers."""
    provider = {
        "?": {"id": "provider", "type": f"{FRAMEWORK}.TemplateServerProvider"},
        "template": {
            "?": {"type": "io.murano.resources.LinuxMuranoInstance"},
            "flavor": "m1.small",
            "image": "debian",
        },
        "serverNamePattern": "host-{0}",
    }
    kind = {"id": "group", "type": f"{FRAMEWORK}.ServerReplicationGroup"}
    return {"?": kind, "provider": provider, "numItems": count, "minItems": 1}


def machine(name: str) -> dict[str, Any]:
    """A machine of this name."""
    return {
        "?": {"id": name, "type": "io.murano.resources.LinuxMuranoInstance"},
        "name": name,
        "flavor": "m1.small",
        "image": "debian",
    }


#: Of each sample: what it has, what its user changes, and which machines then run something, those that do
#: when each of them was made anew, and those of an upgrade.
SAMPLES: dict[str, tuple[dict[str, Any], dict[str, Any], set[str], dict[str, set[str]], set[str]]] = {
    "ApacheHttpServer": (
        {"name": "a", "instance": machine("web")},
        {"page": "Other"}, {"web"}, {"web": {"web"}}, {"web"},
    ),
    "HelloScript": (
        {"name": "a", "instance": machine("web")},
        {"script": "true"}, {"web"}, {"web": {"web"}}, {"web"},
    ),
    "MariaDb": (
        {"name": "a", "instance": machine("db")},
        {"port": 3307}, {"db"}, {"db": {"db"}}, {"db"},
    ),
    "PostgreSql": (
        {"name": "a", "password": SECRET, "instance": machine("db")},
        {"password": "another horse"}, {"db"}, {"db": {"db"}}, {"db"},
    ),
    "TwoTier": (
        {"name": "a", "servers": [machine("one"), machine("two")], "balancer": machine("front")},
        {"page": "Other"},
        {"one", "two"},
        {"one": {"one"}, "front": {"front"}},
        {"one", "two", "front"},
    ),
    "WordPress": (
        {"name": "a", "password": SECRET, "instance": machine("web"),
         "server": {"?": {"id": "maria", "type": "org.vetro.samples.MariaDb/1.0.0"},
                    "name": "maria", "instance": machine("db")}},
        {"password": "another horse"},
        # The database is made on the other machine.
        {"web", "db"},
        {"web": {"web", "db"}, "db": {"web", "db"}},
        {"web", "db"},
    ),
    "PostgreSqlCluster": (
        {"password": SECRET, "servers": group(2)},
        {"password": "another horse"},
        {"host-1", "host-2"},
        # The replica has to copy a primary that was made anew.
        {"host-1": {"host-1", "host-2"}, "host-2": {"host-2"}},
        {"host-1", "host-2"},
    ),
    "WebTier": (
        {"servers": group(2)},
        {"page": "Other"},
        {"host-1", "host-2"},
        {"host-2": {"host-2"}},
        {"host-1", "host-2"},
    ),
}  # fmt: skip


class Samples:
    """One sample at a time, in a laboratory; which machines were called is known by their names."""

    def __init__(self, lab: Any, directory: Path) -> None:
        self.lab = lab
        self.directory = directory
        lab.libraries = [open_package(library_path() / FRAMEWORK)]

    def use(self, name: str, version: str = "1.0.0", script: str = "") -> None:
        """Make a sample available as this version, maybe with another script, and MariaDB beside it."""
        copy = self.directory / f"{name}-{version}-{len(script)}"
        shutil.copytree(library_path() / name, copy)
        manifest = copy / "manifest.yaml"
        text = manifest.read_text().replace("Version: 1.0.0", f"Version: {version}")
        manifest.write_text(text)
        if script:
            (copy / "Resources").mkdir(exist_ok=True)
            (copy / "Resources" / "more.sh").write_text(script)
        beside = [open_package(library_path() / "MariaDb")] if name == "WordPress" else []
        self.lab.packages = [*beside, open_package(copy)]

    def anew(self, name: str) -> None:
        """A machine is made anew from its image, and stays the same server."""
        compute = self.lab.cloud.compute
        (uuid,) = (key for key, one in compute.server_list.items() if one.spec.name == name)
        compute.disks[uuid] += 1

    async def deploy(self, model: dict[str, Any]) -> tuple[dict[str, Any], set[str]]:
        """The model after a deployment, and the machines that have run something."""
        model = await self.lab.deploy(model)
        names = {f"eenv-h{one['?']['id']}".lower(): one["name"] for one in machines(model)}
        plans = self.lab.cloud.transport.plans
        called = {names[queue] for queue, _ in plans if queue in names}
        plans.clear()
        return model, called


def machines(value: Any) -> list[dict[str, Any]]:
    """The machines in a model."""
    if isinstance(value, list):
        return [one for part in value for one in machines(part)]
    if not isinstance(value, dict):
        return []
    own = [value] if "ipAddresses" in value and "name" in value else []
    return [*own, *(one for part in value.values() for one in machines(part))]


@pytest.fixture
def samples(lab: Any, tmp_path: Path) -> Samples:
    """The samples."""
    return Samples(lab, tmp_path)


@pytest.mark.sampled(only=["HelloScript", "TwoTier", "WordPress"])
@pytest.mark.parametrize("name", SAMPLES)
async def test_a_sample_installs_when_something_counts(samples: Samples, name: str) -> None:
    """Unchanged nothing runs; it does for a property, a machine made anew, a version, and another script."""
    properties, edit, by_edit, by_machine, by_version = SAMPLES[name]
    samples.use(name)
    lab = samples.lab
    app = lab.application("app", f"org.vetro.samples.{name}/1.0.0", **properties)
    every = set(by_version)
    seen: dict[str, set[str]] = {}
    model, seen["first"] = await samples.deploy(lab.environment(app))
    model, seen["unchanged"] = await samples.deploy(model)
    model["Objects"]["applications"][0].update(edit)
    model, seen["edited"] = await samples.deploy(model)
    for one in by_machine:
        samples.anew(one)
        model, seen[f"{one} anew"] = await samples.deploy(model)
    samples.use(name, "1.1.0")
    # As an upgrade of the component writes it.
    text = json.dumps(model).replace(f"samples.{name}/1.0.0", f"samples.{name}/1.1.0")
    model, seen["upgraded"] = await samples.deploy(json.loads(text))
    samples.use(name, "1.1.0", "echo more")
    model, seen["another script"] = await samples.deploy(model)
    _, seen["at the end"] = await samples.deploy(model)
    assert seen == {
        "first": every,
        "unchanged": set(),
        "edited": by_edit,
        **{f"{one} anew": called for one, called in by_machine.items()},
        "upgraded": by_version,
        "another script": by_version,
        "at the end": set(),
    }


async def test_what_is_kept_of_values_is_no_value(samples: Samples) -> None:
    """A password that an installation depends on is not in the model a second time."""
    samples.use("PostgreSql")
    app = samples.lab.application(
        "app", "org.vetro.samples.PostgreSql/1.0.0", **SAMPLES["PostgreSql"][0]
    )
    model, _ = await samples.deploy(samples.lab.environment(app))
    assert "io.murano.system.Installation" in json.dumps(model["Attributes"])
    assert SECRET not in json.dumps(model["Attributes"])


async def test_an_archive_and_its_directory_are_the_same_content(tmp_path: Path) -> None:
    """Nothing is installed again since a package came as an archive; a form does not count, a script does."""
    copy = tmp_path / "copy"
    shutil.copytree(library_path() / "MariaDb", copy)
    build_archive(copy, tmp_path / "copy.zip")
    first = open_package(copy).content_digest
    assert open_package(tmp_path / "copy.zip").content_digest == first
    (copy / "UI" / "ui.yaml").write_text((copy / "UI" / "ui.yaml").read_text() + "# more\n")
    assert open_package(copy).content_digest == first
    (copy / "Resources" / "scripts" / "install.sh").write_text("true\n")
    assert open_package(copy).content_digest != first


MARKED = """
Name: Web
Extends: [std:Application, app:SoftwareComponent]
Properties:
  servers: {Contract: $.class(app:SingleServerGroup).notNull()}
Methods:
  deploy:
    Body:
      - $.servers.deploy()
      - $this.setAttr('installed_at_web', true, 'io.murano.applications.Installable')
      - $.install($.servers)
  onInstallServer:
    Arguments:
      - server: {Contract: $.class(res:Instance).notNull()}
      - serverGroup: {Contract: $.class(app:ServerGroup).notNull()}
    Body:
      - conf:Linux.runCommand($server.agent, install)
"""


@pytest.mark.parametrize(("disks", "runs"), [(1, 0), (2, 1)])
async def test_a_mark_of_an_earlier_release_counts_for_its_disk(
    lab: Any, disks: int, runs: int
) -> None:
    """The framework's mark without a record is believed, unless the machine was made anew since."""
    lab.libraries = [open_package(library_path() / FRAMEWORK)]
    lab.add_class(MARKED)
    kind = {"id": "servers", "type": f"{FRAMEWORK}.SingleServerGroup"}
    servers = {"?": kind, "server": machine("web")}
    model = lab.environment(lab.application("app", "test.Web", servers=servers))

    def before(call: str) -> None:
        if call == "release":
            for uuid in lab.cloud.compute.server_list:
                lab.cloud.compute.disks[uuid] = disks

    lab.cloud.compute.before = before
    model = await lab.deploy(model)
    assert len(lab.cloud.transport.plans) == runs
    lab.cloud.transport.plans.clear()
    await lab.deploy(model)
    assert lab.cloud.transport.plans == []


#: Values, other values, and whether an installation with the former is due with the latter.
VALUES = [
    ("null", "[]", True),
    ("[1]", "[1]", False),
    ("[1]", "list(1)", False),
    ("[1]", "['1']", True),
    ("[1, 2]", "[2, 1]", True),
    ("{a => 1, b => 2}", "{b => 2, a => 1}", False),
    ("set(1, 2)", "set(2, 1)", False),
    ("[$env]", "[$env]", False),
    ("[$env]", "[$this]", True),
    ("[type(Probe)]", "[type(Probe)]", False),
    ("[datetime(2026, 1, 1)]", "[datetime(2026, 1, 1)]", False),
    ("[datetime(2026, 1, 1)]", "[datetime(2026, 1, 2)]", True),
    ("range(3).select($ + 1)", "[1, 2, 3]", False),
]


async def test_values_are_compared_by_what_they_say(lab: Any) -> None:
    """Objects by themselves, maps and sets in any order, texts and numbers as different things."""
    lines = ["- $seen: []"]
    for number, (values, others, _) in enumerate(VALUES):
        made = f"new(sys:Installation, of => $this, name => n{number}, values => "
        lines += [
            f'- $one: !yaql "{made}{values})"',
            "- $before: $one.isDue()",
            "- $one.done()",
            f'- $two: !yaql "{made}{others})"',
            f'- $other: !yaql "new(sys:Installation, of => $env, name => n{number}, values => {values})"',
            "- $seen: $seen + [[$before, $one.isDue(), $two.isDue(), $other.isDue()]]",
        ]
    seen = await lab.probe("\n".join([*lines, "- Return: $seen"]))
    assert seen == [[True, False, due, True] for _, _, due in VALUES]


async def test_an_installation_without_a_machine_and_one_that_is_forgotten(lab: Any) -> None:
    """What is on no machine counts its package and values; `forget` makes it due, unless it is marked."""
    seen = await lab.probe("""
        - $one: new(sys:Installation, of => $this)
        - $one.done()
        - $two: new(sys:Installation, of => $this)
        - $seen: [$one.isDue(), $two.isDue()]
        - $one.forget()
        - $seen: $seen + [$one.isDue()]
        - $one.forget()
        - $seen: $seen + [$one.isDue(marked => true)]
        - Return: $seen + [$two.isDue()]
    """)
    assert seen == [False, False, True, False, False]


async def test_what_was_begun_is_due_until_it_is_done(lab: Any) -> None:
    """Also with the values of what was done before, by another object, when it is marked, and by `begin`."""
    seen = await lab.probe("""
        - $old: new(sys:Installation, of => $this, values => [1])
        - $new: new(sys:Installation, of => $this, values => [2])
        - $beside: new(sys:Installation, of => $env, values => [1])
        - $old.done()
        - $beside.done()
        - $seen: [$old.isDue(), $new.isDue(), $old.isDue(), $old.isDue(marked => true), $beside.isDue()]
        - $new.done()
        - $seen: $seen + [$new.isDue(), $old.isDue()]
        - $old.done()
        - $old.begin()
        - Return: $seen + [$old.isDue()]
    """)
    assert seen == [False, True, True, True, False, False, True, True]


FRAGILE = """
Name: Fragile
Extends: std:Application
Properties:
  port: {Contract: $.int().notNull()}
  fails: {Contract: $.bool(), Default: false}
  caught: {Contract: $.bool(), Default: false}
  runs: {Contract: [], Usage: Out, Default: []}
Methods:
  install:
    Body:
      - $it: new(sys:Installation, of => $this, values => [$.port])
      - If: $it.isDue()
        Then:
          - $.runs: $.runs.append($.port)
          - If: $.fails
            Then: {Throw: Broken, Message: half of it is there}
          - $it.done()
  deploy:
    Scope: Public
    Body:
      - If: $.caught
        Then: {Try: [$.install()], Catch: {As: error, Do: []}}
        Else: [$.install()]
"""


@pytest.mark.parametrize("how", ["deployment", "action", "caught"])
async def test_an_edit_that_failed_half_way_and_is_taken_back_is_installed_again(
    lab: Any, how: str
) -> None:
    """The former values are not what is on the machine, whatever ran the installation that failed."""
    lab.add_class(FRAGILE)
    model = await lab.deploy(lab.environment(lab.application("app", "test.Fragile", port=1)))
    failing = {"port": 2, "fails": True, "caught": how == "caught"}
    model["Objects"]["applications"][0].update(failing)
    if how == "action":
        reply = await lab.run(model, {"object_id": "app", "method": "deploy", "args": {}})
        model = reply.model
    else:
        model = await lab.deploy(model, fails=how == "deployment")
    model["Objects"]["applications"][0].update(port=1, fails=False)
    model = await lab.deploy(await lab.deploy(model))
    assert model["Objects"]["applications"][0]["runs"] == [1, 2, 1]


@pytest.mark.sampled(only=["right", "forgets"])
@pytest.mark.parametrize("kind", ["right", "forgets", "made anew", "unchanged"])
async def test_an_upgrade_that_runs_nothing_is_said(samples: Samples, kind: str) -> None:
    """With the versions and the machine; not when a plan was sent, nor when the machine is another one."""
    lab, made = samples.lab, list[Any]()
    services = lab.cloud.services
    lab.cloud.services = lambda *of: made.append(services(*of)) or made[-1]
    samples.use("HelloScript")
    path = samples.directory / "HelloScript-1.0.0-0"
    if kind != "right":
        text = (path / "Classes" / "HelloScript.yaml").read_text()
        text = re.sub(r"\$installation: new.*", "$wanted: [$.script]", text)
        text = text.replace("$installation.isDue()", "$this.getAttr(installed) != $wanted")
        text = text.replace("$installation.done()", "$this.setAttr(installed, $wanted)")
        (path / "Classes" / "HelloScript.yaml").write_text(text)
        lab.packages = [open_package(path)]
    app = lab.application(
        "app", "org.vetro.samples.HelloScript/1.0.0", name="hello", instance=machine("web")
    )
    before = await lab.deploy(lab.environment(app))
    assert list(silent_upgrades({"Objects": None}, before, ())) == []
    if kind == "made anew":
        samples.anew("web")
    if kind != "unchanged":
        shutil.copytree(path, samples.directory / "next")
        manifest = samples.directory / "next" / "manifest.yaml"
        manifest.write_text(manifest.read_text().replace("Version: 1.0.0", "Version: 1.1.0"))
        lab.packages = [open_package(samples.directory / "next")]
        before = json.loads(json.dumps(before).replace("HelloScript/1.0.0", "HelloScript/1.1.0"))
        before["ObjectsCopy"] = json.loads(
            json.dumps(before["ObjectsCopy"]).replace("HelloScript/1.1.0", "HelloScript/1.0.0")
        )
    after = await lab.deploy(before)
    found = list(silent_upgrades(before, after, made[-1].guests_called))
    assert [one.component for one in found] == (["app"] if kind == "forgets" else [])
    for one in found:
        assert one.warning.startswith(
            "hello has version 1.1.0 instead of 1.0.0, but nothing was run on its"
        )
        assert "machines (web)" in one.warning
    # A deployment that failed says nothing of it; the one after it does, and only that.
    for failed, said in ((found, ["1.0.0"]), ((), [])):
        keep_unsaid(after, failed)
        before = {**after, "ObjectsCopy": after["Objects"]}
        after = await lab.deploy(before)
        again = list(silent_upgrades(before, after, made[-1].guests_called))
        assert [one.was for one in again] == (said if kind == "forgets" else [])
