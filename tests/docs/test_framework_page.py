"""docs/framework.md: the package that it shows passes its check and its tests, its model deploys."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from vetro.engine.system import library_path, system_runtime, trial_cloud
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
    """Every listing is a file of the package or a command, and every command succeeds."""
    lines = write(tmp_path).splitlines()
    assert [line.split()[1] for line in lines] == ["check", "test"]
    for line in lines:
        done = subprocess.run(
            [str(BIN / "vetro"), *line.split()[1:]], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr


async def test_the_pages_model_deploys(tmp_path: Path) -> None:
    """The application of the last listing, in an environment on a cloud in memory."""
    write(tmp_path)
    runtime = system_runtime()
    for name in ("io.murano", "io.murano.applications"):
        runtime.add_package(open_package(library_path() / name))
    runtime.add_package(open_package(tmp_path / "my.Cluster"))
    app = json.loads((tmp_path / "my.Cluster/cluster.json").read_text(encoding="utf-8"))
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
