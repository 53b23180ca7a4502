"""docs/framework.md: the package that it shows passes its check and its tests, its model deploys."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from vetro.cli.client.connection import Connection
from vetro.cli.environments.objects import Checker
from vetro.cli.terminal.output import CommandError
from vetro.engine.system import library_path, system_runtime, trial_cloud
from vetro.muranopl import Runtime
from vetro.packages import load_form, open_package

from .commands import understood
from .framework_page import MODEL, write

BIN = Path(sys.executable).parent


def test_the_pages_package_passes_its_tests(tmp_path: Path) -> None:
    """Every listing is a file of the package or a command; those that need no service succeed."""
    lines = write(tmp_path)
    assert [line.split()[1] for line in lines[:2]] == ["check", "test"]
    for line in lines[:2]:
        done = subprocess.run(
            [str(BIN / "vetro"), *line.split()[1:]], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr


def test_the_pages_commands_for_a_service_are_understood(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each names a command and gives it what it takes; tests/server/test_framework_guide.py runs them."""
    lines = write(tmp_path)[2:]
    monkeypatch.chdir(tmp_path)
    assert [" ".join(line.split()[1:3]) for line in lines] == [
        *("image build", "package import", "env create", "env add", "env deploy", "action call")
    ]
    for line in lines:
        with understood(line.split()[1:]) as context:
            assert context.params


def page_runtime(tmp_path: Path) -> tuple[Runtime, dict[str, Any]]:
    """The page's package and the library; the application of the last listing."""
    write(tmp_path)
    runtime = system_runtime()
    for name in ("io.murano", "io.murano.applications"):
        runtime.add_package(open_package(library_path() / name))
    runtime.add_package(open_package(tmp_path / "my.Cluster"))
    return runtime, json.loads((tmp_path / MODEL).read_text(encoding="utf-8"))


def without_ids(value: Any) -> Any:
    """A model without what tells its objects apart."""
    if isinstance(value, list):
        return [without_ids(one) for one in cast("list[Any]", value)]
    if not isinstance(value, dict):
        return value
    found = cast("dict[str, Any]", value)
    type_ = {"type": found["?"]["type"]} if "?" in found else {}
    return {key: type_ if key == "?" else without_ids(one) for key, one in found.items()}


def test_the_pages_form_makes_the_pages_model(tmp_path: Path) -> None:
    """What the form asks for, answered as its command does, is the application of the last listing."""
    write(tmp_path)
    package = open_package(tmp_path / "my.Cluster")
    form = load_form(package.ui or "", package_name=package.full_name, title="Cluster")
    made = form.build(form.fill({"servers": 2, "flavor": "m1.small", "image": "debian-12"}))
    listed = json.loads((tmp_path / MODEL).read_text(encoding="utf-8"))
    assert without_ids(made) == {"page": "Hello", **without_ids(listed)}


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
