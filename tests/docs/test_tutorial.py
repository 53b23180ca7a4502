"""The tutorial, run as it stands: every file it shows is written, every command it shows is run."""

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from tests.networks import unused_number
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
pytestmark = [pytest.mark.root, pytest.mark.e2e, pytest.mark.timeout(1800)]

_BLOCK = re.compile(
    r"^(?:`(?P<file>[\w./]+)`:\n\n)?```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.S | re.M
)


def blocks() -> list[tuple[str, str, str]]:
    """The fenced blocks of the page: kind, file name (of the paragraph before), text."""
    page = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
    return [(m["kind"], m["file"] or "", m["text"]) for m in _BLOCK.finditer(page)]


class Reader:
    """Somebody who does what the page says, in a directory and on a port of their own."""

    def __init__(self, directory: Path, user: Sequence[str] = ()) -> None:
        """``user``: the words before a command that make it somebody else's."""
        self.directory = directory
        self.user = user
        with socket.create_server(("127.0.0.1", 0)) as probe:
            port = probe.getsockname()[1]
        (directory / "dist").symlink_to(ROOT / "dist")
        net = unused_number()
        self.environ = {
            **os.environ,
            "PATH": f"{BIN}:{os.environ['PATH']}",
            "VETRO_DATA_DIR": str(directory / "data"),
            "VETRO_PORT": str(port),
            "VETRO_URL": f"http://127.0.0.1:{port}",
            "VETRO_NODE_PREFIX": f"t{port % 4096:03x}",
            "VETRO_NETWORK_EXTERNAL_CIDR": f"172.29.{net}.0/24",
            "VETRO_NETWORK_ENV_IP_TEMPLATE": f"10.{net}.0.0",
            "VETRO_IMAGE_CACHE": str(ROOT / "var/image-cache"),
            "XDG_STATE_HOME": str(directory / "client"),
        }
        self.server: subprocess.Popen[bytes] | None = None

    def do(self, commands: str) -> str:
        """Run a block of commands as a shell does; what it prints."""
        if commands.strip() == "vetro up":
            return self.start()
        lines = [
            line
            for line in commands.splitlines()
            # Set-up was done before the tests; the variables are those of this reader.
            if line != "make setup" and not line.startswith("export ")
        ]
        done = subprocess.run(
            [*self.user, "bash", "-euo", "pipefail", "-c", "\n".join(lines)],
            cwd=self.directory,
            env=self.environ,
            capture_output=True,
            text=True,
            timeout=900,
        )
        assert done.returncode == 0, f"{commands}\n{done.stdout}{done.stderr}{self.log()}"
        return done.stdout

    def start(self) -> str:
        """``vetro up`` in a terminal of its own, until it answers."""
        if not self.user:
            (self.directory / "data").mkdir(mode=0o711)
        with (self.directory / "up.log").open("wb") as log:
            self.server = subprocess.Popen(
                [*self.user, str(BIN / "vetro"), "up"],
                env=self.environ,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        answer = ["curl", "-s", "-o", "/dev/null", "-w", "%{http_code}"]

        def ready() -> bool:
            assert self.server is not None
            assert self.server.poll() is None, self.log()
            url = self.environ["VETRO_URL"] + "/readyz"
            return subprocess.run([*answer, url], capture_output=True).stdout == b"200"

        until(ready, "the server is ready")
        return self.log()

    def log(self) -> str:
        """What the server said."""
        path = self.directory / "up.log"
        return path.read_text(errors="replace") if path.exists() else ""

    def stop(self) -> None:
        """Ctrl-C in the server's terminal."""
        if self.server is not None:
            self.server.send_signal(signal.SIGINT)
            assert self.server.wait(240) == 0, self.log()


def test_the_tutorial_works_as_it_stands(tmp_path: Path) -> None:
    """A newcomer who follows the page gets what it promises, to the last command."""
    for directory in (tmp_path, tmp_path.parent):
        directory.chmod(0o711)
    reader = Reader(tmp_path)
    try:
        said = follow(reader, as_root())
        assert "password" in said
        assert "Hello\n" in said
        assert "Hello again\n" in said
        assert "200 Apache" in said
        assert "Hello Ann" in said
        assert not list((tmp_path / "data/node/vms").iterdir())
    finally:
        reader.stop()


def as_root() -> list[tuple[str, str, str]]:
    """The blocks for somebody with root, in their order."""
    return blocks()[: -len(without_root())]


def without_root() -> list[tuple[str, str, str]]:
    """The blocks of the section for somebody without."""
    page = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
    section = page[page.index("## Without root") :]
    return [(m["kind"], m["file"] or "", m["text"]) for m in _BLOCK.finditer(section)]


def follow(reader: Reader, steps: list[tuple[str, str, str]]) -> str:
    """Do the steps; what the commands say."""
    said = ""
    for kind, file, text in steps:
        if kind == "sh":
            said += reader.do(text)
        elif file:
            target = reader.directory / "my.Greeter" / file
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
    return said


def somebody() -> list[str]:
    """The words that run a command as a user without rights on this machine.

    Where such a user may not read this checkout, it may read, but nothing else more.
    """
    words = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    may_read = subprocess.run([*words, str(BIN / "vetro"), "--version"], capture_output=True)
    if may_read.returncode == 0:
        return [*words, "--"]
    reading = ("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search")
    return [*words, *reading, "--"]


@pytest.fixture
def home() -> Iterator[Path]:
    """The directory of a user without rights: pytest's own may be entered by root alone."""
    with tempfile.TemporaryDirectory(prefix="tutorial-") as directory:
        os.chown(directory, 65534, 65534)
        yield Path(directory)


def test_the_tutorial_works_without_root(home: Path) -> None:
    """A user without rights gets the same by the path for them: at a port that they may have."""
    reader = Reader(home, somebody())
    reader.environ["HOME"] = str(home)
    install, images = without_root()
    steps = [install, *as_root()[1:]]
    (place,) = [n for n, step in enumerate(steps) if "vetro image build" in step[2]]
    steps[place] = images
    try:
        said = follow(reader, steps)
        assert "password" in said
        assert "Hello\n" in said
        assert "Hello again\n" in said
        assert '"200 ' in said
        assert "Hello Ann" in said
        assert not list((home / "data/node/vms").iterdir())
    finally:
        reader.stop()


def test_the_page_has_all_its_parts() -> None:
    """The blocks are found as this test understands the page."""
    found = blocks()
    assert {kind for kind, _, _ in found} >= {"sh", "yaml"}
    assert [file for _, file, _ in found if file] == [
        "manifest.yaml",
        "Classes/Greeter.yaml",
        "UI/ui.yaml",
    ]
