"""docs/openstack.md, run as it stands: its settings are used, its commands are run in their order."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.server.conftest import ROOT, Installation

from .cloud import Cloud
from .conftest import listed

pytestmark = [pytest.mark.openstack, pytest.mark.e2e]
_BLOCK = re.compile(r"^```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.S | re.M)


class Reader:
    """Somebody who does what the page says, with openrc files of the cloud's administrator and of a user."""

    def __init__(self, directory: Path, cloud: Cloud, vetro: Installation) -> None:
        self.directory = directory
        self.cloud = cloud
        self.vetro = vetro
        for who, name in (("admin", "openrc"), ("demo", "openrc-demo")):
            (directory / f"{who}-openrc").write_text((cloud.directory / name).read_text())
        (directory / "library").symlink_to(ROOT / "library")

    def own(self, text: str) -> str:
        """A text of the page with this reader's addresses and password."""
        for example, real in (
            ("https://keystone.example.org:5000/v3", self.cloud.url),
            ("https://vetro.example.org", self.vetro.url),
            ("…", "of-the-page"),
        ):
            text = text.replace(example, real)
        return text

    def do(self, commands: str) -> str:
        """Run a block of commands as a shell does; what it prints."""
        # Where Vetro is comes from the service catalog, who one is from the openrc files.
        names = ("OS_", "VETRO_")
        environ = {name: one for name, one in os.environ.items() if not name.startswith(names)}
        environ |= {
            "PATH": f"{Path(sys.executable).parent}:{environ['PATH']}",
            "PASSWORD": "of-the-page",
            "VETRO_DATA_DIR": str(self.directory / "nothing"),
            "XDG_STATE_HOME": str(self.directory / "client"),
        }
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", self.own(commands)],
            cwd=self.directory,
            env=environ,
            capture_output=True,
            text=True,
            timeout=900,
        )
        text = done.stdout + done.stderr
        assert done.returncode == 0, f"{commands}\n{text}\n{self.vetro.log()}"
        return text


async def test_the_page_works_as_it_stands(cloud: Cloud, tmp_path: Path) -> None:
    """An operator who follows the page has a Vetro on the cloud, and a user deploys on it."""
    page = (ROOT / "docs/openstack.md").read_text(encoding="utf-8")
    steps = [(found["kind"], found["text"]) for found in _BLOCK.finditer(page)]
    assert [kind for kind, _ in steps] == ["sh", "toml", "sh", "toml", "toml", "sh", "sh"]
    data = tmp_path / "data"
    data.mkdir()
    vetro = Installation(data, driver="simulated")
    reader = Reader(tmp_path, cloud, vetro)
    settings = "\n".join(text for kind, text in steps if kind == "toml")
    (data / "vetro.toml").write_text(reader.own(settings))
    commands = [text for kind, text in steps if kind == "sh"]
    image = "--public --disk-format raw --container-format bare --file vetro.toml debian-12"
    reader.do(f". admin-openrc\ncp data/vetro.toml .\nopenstack image create {image}")
    try:
        reader.do(commands[0])
        vetro.start()
        said = "".join(map(reader.do, commands[1:]))
        assert "added vetro, public" in said
        assert "| store " in said
        assert "| store-data " in said
        async with cloud.session() as admin:
            found = await listed(admin, "image", "/v2/images", name="debian-12")
        assert "Debian 12" in found["images"][0]["murano_image_info"]
    finally:
        vetro.end()
        reader.do(
            ". admin-openrc\nopenstack user delete vetro\nopenstack image delete debian-12\n"
            "vetro openstack register --url https://vetro.example.org --region RegionOne --remove"
        )
