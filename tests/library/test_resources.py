"""`Resources`, reports, statistics, files and the people behind a deployment (§3.8, §4.1, §4.5-4.6)."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from vetro.engine.system.memory import Nameless
from vetro.muranopl import MemoryPackage
from vetro.packages import PackageFormatError, open_package


async def test_files_are_read_by_an_object_and_by_the_class(lab: Any) -> None:
    """Both read the package of the class that asks; lines end as in Unix."""
    lab.resources = {"a.txt": "1\r\n2\r3\n", "a.json": '{"x": [1]}', "a.yaml": "when: 2020-01-01\n"}
    text = """
    - $r: new(sys:Resources)
    - Return: list($r.string('a.txt'), sys:Resources.string('a.txt'), $r.json('a.json'),
        $r.yaml('a.yaml'), sys:Resources.string('a.txt', binary => true) = null)
    """
    assert await lab.probe(text) == [
        "1\n2\n3\n", "1\n2\n3\n", {"x": [1]}, {"when": "2020-01-01"}, False,
    ]  # fmt: skip


async def test_an_owner_names_the_package(lab: Any) -> None:
    """A class of another package lends its resources only when it is asked by type."""
    text = "- Return: sys:Resources.string('murano-init.conf', owner => std:Environment)"
    assert "instanceHostname" in await lab.probe(text)
    assert "murano-init.conf" in await lab.probe(
        "- Return: sys:Resources.string('murano-init.conf')", fails=True
    )


async def test_a_type_as_name_is_the_file_named_like_the_class(lab: Any) -> None:
    """Packages made of templates read their own that way."""
    lab.resources = {"test.Probe": "x: 1"}
    assert await lab.probe("- Return: sys:Resources.yaml(type($this))") == {"x": 1}


@pytest.mark.parametrize(
    "name", ["../manifest.yaml", "/etc/passwd", "a/../../manifest.yaml", "link"]
)
def test_a_package_gives_nothing_from_outside_its_resources(tmp_path: Path, name: str) -> None:
    """Dots, an absolute path or a link do not lead outside."""
    (tmp_path / "Resources").mkdir()
    (tmp_path / "Classes").mkdir()
    (tmp_path / "Classes" / "a.yaml").write_text("Name: t.A\n")
    (tmp_path / "manifest.yaml").write_text(
        "Format: '1.4'\nType: Library\nFullName: t\nClasses: {t.A: a.yaml}\n"
    )
    package = open_package(tmp_path)
    (tmp_path / "Resources" / "link").symlink_to("/etc/hostname")
    with pytest.raises(PackageFormatError, match="leaves the package"):
        package.read_resource(name)


async def test_reports_keep_their_order_and_their_subject(lab: Any) -> None:
    """Of an object, of null (the environment), of any value as text, in both spellings of errors."""
    text = """
    - $r: $env.reporter
    - $r.report($this, one)
    - $r.report(null, 2)
    - $r.report_error($env, three)
    - $r.reportError($this, four)
    """
    await lab.probe(text)
    assert lab.cloud.reports.reports == [
        ("probe", "info", "one"),
        ("env", "info", "2"),
        ("env", "error", "three"),
        ("probe", "error", "four"),
    ]


async def test_what_runs_is_counted(lab: Any) -> None:
    """Applications and machines with their kinds; what is gone is not counted any more."""
    text = """
    - $.reportDeployed(title => 'The probe', unitCount => 3)
    - $env.instanceNotifier.trackCloudInstance($env)
    """
    await lab.probe(text)
    assert lab.cloud.reports.tracked["probe"] == {
        "instance_id": "probe", "type_name": "test.Probe", "instance_type": 100,
        "type_title": "The probe", "unit_count": 3,
    }  # fmt: skip
    assert lab.cloud.reports.tracked["env"]["instance_type"] == 200
    assert lab.cloud.reports.tracked["env"]["unit_count"] == 1
    await lab.probe("- $.reportDestroyed()\n- $env.instanceNotifier.untrackCloudInstance($env)")
    assert lab.cloud.reports.tracked == {}
    # An application that was never in an environment has not been counted: it can go, too.
    await lab.probe("- new(std:Application).reportDestroyed()")


async def test_a_file_is_a_result(lab: Any) -> None:
    """An action may return one; its type of content has a default."""
    text = "- Return: new(std:File, base64Content => base64encode(x), filename => 'x.txt')"
    found = await lab.probe(text)
    assert found["?"]["type"].startswith("io.murano.File")
    assert (found["base64Content"], found["filename"]) == ("eA==", "x.txt")
    assert found["mimeType"] == "application/octet-stream"


class Directory(Nameless):
    """An identity service with everything Keystone says of a user."""

    async def user(self, id_: str) -> dict[str, Any]:
        """A user."""
        return {
            "id": id_, "name": "ann", "email": "ann@example.com", "domain": "Acme", "enabled": True,
            "links": {}, "default_project_id": "p", "phone": "1",
        }  # fmt: skip

    async def project(self, id_: str) -> dict[str, Any]:
        """A project."""
        return {
            "id": id_, "name": "shop", "description": "d", "parent_id": None, "links": {},
            "enabled": True, "cost_center": 7,
        }  # fmt: skip


async def test_who_deploys_and_whose_it_is(lab: Any) -> None:
    """Fields that the classes do not have are in `extra`; some are dropped."""
    lab.cloud.people = Directory()
    text = """
    - $u: std:User.getCurrent()
    - $p: std:Project.getEnvironmentOwner()
    - Return: [$u.id, $u.name, $u.domain, $u.email, $u.extra, $p.id, $p.name, $p.domain,
        $p.description, $p.extra, std:User.getEnvironmentOwner().name, std:Project.getCurrent().id]
    """
    assert await lab.probe(text) == [
        "user", "ann", "Acme", "ann@example.com", {"phone": "1"},
        "project", "shop", "Default", "d", {"cost_center": 7}, "ann", "project",
    ]  # fmt: skip


async def test_settings_are_the_core_librarys_only(lab: Any) -> None:
    """Another package does not have the function `config`."""
    assert "config" in await lab.probe("- Return: config(rabbitmq, host)", fails=True)


async def test_a_package_reads_only_its_own_resources(lab: Any) -> None:
    """Two packages with a file of one name each see theirs."""
    other = MemoryPackage(
        "other",
        {"o.yaml": "Namespaces: {=: other, sys: io.murano.system}\nName: Reader\nMethods:\n  read:\n"
         "    Usage: Static\n    Body:\n      - Return: sys:Resources.string('f')\n"},
        {"other.Reader": "o.yaml"},
        resources={"f": b"theirs"},
    )  # fmt: skip
    lab.resources = {"f": "ours"}
    lab.libraries.append(other)
    text = "- Return: list(sys:Resources.string('f'), call(read, [], {}, type('other.Reader')))"
    assert await lab.probe(text) == ["ours", "theirs"]


async def test_a_log_line_never_ends_a_deployment(
    lab: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Lines are formatted; one that cannot be is logged as it is, with a warning (§4.7)."""
    caplog.set_level(logging.DEBUG, "applications.test.Probe")
    await lab.probe(
        """
        - $log: logger('test.Probe')
        - $log.info('{0} of {total}', 1, total => 2)
        - $log.warning('{0} and {1}', 1)
        - $log.error('no {arguments}')
        - $log.debug('{0}', null)
        - $log.trace('below')
        - Try:
            - Throw: Odd
              Message: it is odd
          Catch:
            As: error
            Do:
              - $log.exception($error, 'then {0}', $error.message)
        """
    )
    said = [
        (one.name, one.levelname, one.getMessage()) for one in caplog.records if "Probe" in one.name
    ]
    assert {name for name, _, _ in said} == {"applications.test.Probe"}
    assert said[0][1:] == ("INFO", "1 of 2")
    assert said[1][1] == "WARNING"
    assert said[1][2].startswith("Can not format string: {0} and {1} (")
    assert [one[1:] for one in said[2:5]] == [
        ("WARNING", "{0} and {1}"), ("ERROR", "no {arguments}"), ("DEBUG", "None"),
    ]  # fmt: skip
    level, text = said[5][1:]
    assert level == "ERROR"
    assert text.startswith("then it is odd\n")
    assert "Odd: it is odd" in text
