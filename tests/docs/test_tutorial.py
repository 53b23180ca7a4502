"""The tutorial, run as it stands: every file it shows is written, every command it shows is run."""

import itertools
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect
from tests.browser import somebody
from tests.networks import unused_number
from tests.ports import free_port
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
pytestmark = [pytest.mark.root, pytest.mark.e2e]

_BLOCK = re.compile(
    r"^(?:`(?P<file>[\w./]+)`:\n\n)?```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.S | re.M
)

# What a step in the browser says. Names of what is on the page are bold; what is typed or read is code.
_STEP = re.compile(
    r"(?P<verb>[Pp]ress|[Ff]ill in|[Ww]ait for|[Ss]ee) \*\*(?P<name>[^*]+)\*\*"
    r"(?: with `(?P<value>[^`]+)`)?(?P<gone> to be gone)?"
    r"|(?P<more>opens|type|answers) `(?P<text>[^`]+)`"
)
_DEPLOYED_MS = 240_000


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
        port = free_port()
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
        self.url = self.environ["VETRO_URL"]
        self.server: subprocess.Popen[bytes] | None = None
        self.said = ""

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
        self.said = done.stdout
        if commands.strip() == "vetro dashboard" and not self.user:
            with somebody(self) as person:
                browse(person.page)
        return done.stdout

    def link(self) -> str:
        """The address that the last command printed."""
        return self.said.strip()

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


@pytest.mark.thorough
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


def browser_steps() -> list[re.Match[str]]:
    """The steps in the browser, in their order."""
    page = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")
    section = page[page.index("It prints an address that signs") : page.index("## 7.")]
    text = " ".join(section.split())
    steps = list(_STEP.finditer(text))
    # Nothing of the page that a reader is to look for goes by.
    read = sum(bool(step[group]) for step in steps for group in ("name", "value", "text"))
    assert text.count("**") / 2 + text.count("`") / 2 == read, text
    return steps


def browse(page: Page) -> None:
    """Take the steps as a person does: by what stands on the page."""
    for step in browser_steps():
        name, verb = step["name"], (step["verb"] or step["more"]).lower()
        if verb == "press":
            roles = ("button", "link", "menuitem")
            one, *others = (page.get_by_role(role, name=name, exact=True) for role in roles)
            for other in others:
                one = one.or_(other)
            one.last.click()
        elif verb == "fill in":
            label = re.compile(rf"^{re.escape(name)}( \*)?$")
            page.get_by_role("textbox", name=label).fill(step["value"])
        elif step["gone"]:
            expect(page.get_by_role("link", name=name, exact=True)).to_have_count(0)
        elif verb in ("wait for", "see"):
            page.get_by_text(name).last.wait_for(timeout=_DEPLOYED_MS)
        elif verb == "opens":
            with page.context.expect_page() as opened:
                page.get_by_role("log").get_by_role("link").last.click()
            expect(opened.value.locator("body")).to_contain_text(step["text"])
            opened.value.close()
        elif verb == "type":
            page.keyboard.type(step["text"])
            page.keyboard.press("Enter")
        else:
            expect(page.locator("[data-console]")).to_contain_text(step["text"])


#: Puts an open directory with some of its directories ($1 … `--`) over a closed one ($0), for a command.
_SHOWN = """
exec 3<"$0"
mount -t tmpfs -o mode=755 tmpfs "$0"
while [ "$1" != -- ]; do
  mkdir -p "$0/$1"
  mount --no-canonicalize --rbind "/proc/self/fd/3/$1" "$0/$1"
  shift
done
shift
exec 3<&- "$@"
"""


def without_rights() -> list[str]:
    """The words that run a command as a user without rights on this machine.

    This user sees the checkout and its Python, also where root alone may enter a directory above.
    """
    shown: dict[Path, list[str]] = {}
    for directory in (ROOT, Path(sys.base_prefix)):
        closed = (above for above in reversed(directory.parents) if not above.stat().st_mode & 1)
        for first in itertools.islice(closed, 1):
            shown.setdefault(first, []).append(str(directory.relative_to(first)))
    words = ["unshare", "--mount"]
    for first, directories in shown.items():
        words += ["sh", "-euc", _SHOWN, str(first), *directories, "--"]
    return [*words, "setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--"]


@pytest.fixture
def home() -> Iterator[Path]:
    """The directory of a user without rights: pytest's own may be entered by root alone."""
    with tempfile.TemporaryDirectory(prefix="tutorial-") as directory:
        os.chown(directory, 65534, 65534)
        yield Path(directory)


@pytest.mark.thorough
def test_the_tutorial_works_without_root(home: Path) -> None:
    """A user without rights gets the same by the path for them: at a port that they may have."""
    reader = Reader(home, without_rights())
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
