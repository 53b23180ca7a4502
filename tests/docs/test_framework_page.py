"""docs/framework.md: the package that it shows passes its check and its tests, its model deploys."""

import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import click
import pytest

from vetro.cli import cli
from vetro.cli.client.connection import Connection
from vetro.cli.environments.objects import Checker
from vetro.cli.terminal.output import CommandError
from vetro.engine.system import library_path, system_runtime, trial_cloud
from vetro.muranopl import Runtime
from vetro.packages import open_package

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
_BLOCK = re.compile(r"^(?:`([\w./]+)`:\n\n)?```(\w*)\n(.*?)^```$", re.M | re.S)


def write(directory: Path) -> str:
    """Write the page's files as its reader does; its commands."""
    page = (ROOT / "docs/framework.md").read_text(encoding="utf-8")
    commands = ""
    for name, kind, text in _BLOCK.findall(page):
        if name:
            target = directory / "my.Cluster" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        else:
            assert kind == "sh"
            commands += text
    return commands


def test_the_pages_package_passes_its_tests(tmp_path: Path) -> None:
    """Every listing is a file of the package or a command; those that need no service succeed."""
    lines = write(tmp_path).splitlines()
    assert [line.split()[1] for line in lines[:2]] == ["check", "test"]
    for line in lines[:2]:
        done = subprocess.run(
            [str(BIN / "vetro"), *line.split()[1:]], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_pages_commands_for_a_service_are_understood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each names a command and gives it what it takes; tests of the samples run the like for real."""
    lines = write(tmp_path).splitlines()[2:]
    (tmp_path / "my.Cluster/cluster.json").rename(tmp_path / "cluster.json")
    monkeypatch.chdir(tmp_path)
    assert [" ".join(line.split()[1:3]) for line in lines] == [
        *("image build", "package import", "env create", "env add", "env deploy", "action call")
    ]
    for line in lines:
        found: click.Command | None = cli
        words = line.split()[1:]
        context = click.Context(cli, info_name="vetro")
        while isinstance(found, click.Group):
            found = found.get_command(context, words.pop(0))
        assert found is not None, line
        with found.make_context(found.name, words, parent=context) as understood:
            assert understood.params


def page_runtime(tmp_path: Path) -> tuple[Runtime, dict[str, Any]]:
    """The page's package and the library; the application of the last listing."""
    write(tmp_path)
    runtime = system_runtime()
    for name in ("io.murano", "io.murano.applications"):
        runtime.add_package(open_package(library_path() / name))
    runtime.add_package(open_package(tmp_path / "my.Cluster"))
    return runtime, json.loads((tmp_path / "my.Cluster/cluster.json").read_text(encoding="utf-8"))


async def test_the_pages_model_deploys(tmp_path: Path) -> None:
    """The application of the last listing, in an environment on a cloud in memory."""
    runtime, app = page_runtime(tmp_path)
    network = {"?": {"id": "net", "type": "io.murano.resources.NeutronNetwork"}, "name": "net"}
    root = {
        "?": {"id": "env", "type": "io.murano.Environment"},
        "name": "shop",
        "applications": [app],
        "defaultNetworks": {"environment": network, "flat": None},
    }
    cloud = trial_cloud()
    session = runtime.session(services=cloud.services())
    action: dict[str, Any] = {"object_id": "env", "method": "deploy", "args": {}}
    reply = await session.run_task_async({"action": action, "model": {"Objects": root}})
    assert not reply.is_exception, reply.details
    assert len(cloud.compute.server_list) == 2


def test_the_pages_model_can_be_added(tmp_path: Path) -> None:
    """`vetro env add --file` takes it: the template does without the name, which the pattern makes."""
    runtime, app = page_runtime(tmp_path)

    class Service:
        """What the command asks of the service."""

        def answer(self, _method: str, path: str, **_options: Any) -> Any:
            rows = [{"name": "debian-12"}, {"name": "m1.small"}]
            found: Any = {"flavors": rows} if path.endswith("flavors") else rows
            if path.startswith("/v1/schemas/"):
                name = path.rpartition("/")[2]
                at_least = "=1.0.0" if name.startswith("my.") else None
                found = runtime.schema(name, [""], version_spec=at_least)
            return SimpleNamespace(status=200, json=lambda: found)

    Checker(cast("Connection", Service())).refuse_wrong(app, [])
    del app["servers"]["provider"]["template"]["flavor"]
    with pytest.raises(CommandError, match=r"servers\.provider\.template\.flavor is required"):
        Checker(cast("Connection", Service())).refuse_wrong(app, [])
