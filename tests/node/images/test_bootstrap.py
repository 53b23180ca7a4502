"""Building images: inputs, cache, and what the bootstrap tool is told."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.waiting import until

from vetro.node.images.bootstrap import ImageBuildError, build_image, host_sources
from vetro.node.images.build_scratch import build_directory, mounts_below, remove_leftovers

# Stands for mmdebstrap: notes what it was told and writes a "root file system".
FAKE = """#!/bin/sh
for last; do :; done
[ "$last" = - ] && cat > "$NOTES.sources"
for word; do
  echo "$word" >> "$NOTES"
  case "$word" in *.tar.zst) echo "built" > "$word";; esac
  case "$word" in *missing-package*) echo "E: Unable to locate package missing-package" >&2; exit 25;; esac
done
"""


@pytest.fixture
def notes(fake_path: Path, tmp_path: Path) -> Path:
    """What the stand-in was told."""
    tool = fake_path / "mmdebstrap"
    tool.write_text(FAKE.replace("$NOTES", str(tmp_path / "notes")))
    tool.chmod(tool.stat().st_mode | stat.S_IXUSR)
    return tmp_path / "notes"


async def test_an_image_is_built_once(notes: Path, tmp_path: Path) -> None:
    """The same inputs come from the cache, whatever the name and the order of packages."""
    cache = tmp_path / "cache"
    first = await build_image("web", ["nginx", "apache2"], cache_dir=cache, mirrors=["deb x y z"])
    told = notes.read_text()
    second = await build_image(
        "other", ["apache2", "nginx"], cache_dir=cache, mirrors=["deb x y z"]
    )
    assert notes.read_text() == told
    assert (first.path, first.sha256) == (second.path, second.sha256)
    manifest = second.manifest()
    assert (manifest.name, manifest.type) == ("other", "lxc-rootfs")
    assert first.sha256.startswith(manifest.version)
    third = await build_image("web", ["nginx"], cache_dir=cache, mirrors=["deb x y z"])
    assert third.path != first.path


async def test_builds_of_one_image_wait_for_each_other(notes: Path, tmp_path: Path) -> None:
    """Of three that begin at once one builds; the others say that they wait, and take its image."""
    told: list[str] = []
    cache = tmp_path / "cache"
    built = await asyncio.gather(
        *(
            build_image("web", cache_dir=cache, mirrors=["deb x y z"], on_step=told.append)
            for _ in range(3)
        )
    )
    assert len({image.path for image in built}) == 1
    assert notes.read_text().count("--variant=minbase") == 1
    assert told.count("waiting for another build of the same image") == 2
    assert list(cache.glob(".*")) == []


async def test_the_tool_is_told_packages_and_sources(notes: Path, tmp_path: Path) -> None:
    """Base packages for init and guest agent, no recommended ones, sources by standard input."""
    await build_image("web", ["apache2"], cache_dir=tmp_path / "c", mirrors=["deb http://m x main"])
    told = notes.read_text().splitlines()
    [include] = [word for word in told if word.startswith("--include=")]
    packages = include.removeprefix("--include=").split(",")
    assert {"apache2", "python3", "sysvinit-core", "iproute2", "ca-certificates"} <= {*packages}
    assert "--variant=minbase" in told
    assert "--aptopt=APT::Install-Recommends false" in told
    assert notes.with_name("notes.sources").read_text() == "deb http://m x main"


async def test_a_failed_build_leaves_no_image(notes: Path, tmp_path: Path) -> None:
    """The tool's own words are the reason; the cache stays empty."""
    cache = tmp_path / "cache"
    with pytest.raises(ImageBuildError, match="Unable to locate package missing-package"):
        await build_image("web", ["missing-package"], cache_dir=cache, mirrors=["deb x y z"])
    assert list(cache.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "packages", "suite"),
    [
        ("../web", [], "bookworm"),
        ("", [], "bookworm"),
        ("web", ["apache2;reboot"], "bookworm"),
        ("web", ["--hook=x"], "bookworm"),
        ("web", [], "../../x"),
    ],
)
async def test_names_that_are_none_are_refused(
    name: str, packages: list[str], suite: str, tmp_path: Path
) -> None:
    """Before the tool is started."""
    with pytest.raises(ImageBuildError):
        await build_image(name, packages, suite=suite, cache_dir=tmp_path)


def test_sources_of_this_host_are_used_for_its_distribution_only(tmp_path: Path) -> None:
    """Both file formats are read; third parties and other releases stay out."""
    lists = tmp_path / "sources.list.d"
    lists.mkdir()
    (tmp_path / "sources.list").write_text("# old\n")
    (lists / "debian.sources").write_text(
        "Types: deb deb-src\nURIs: http://m/debian\nSuites: bookworm bookworm-updates trixie\n"
        "Components: main contrib\nSigned-By: /usr/share/keyrings/d.gpg\n\n"
        "Types: deb\nURIs: http://m/off\nSuites: bookworm\nComponents: main\nEnabled: no\n"
    )
    (lists / "one.list").write_text(
        "deb [arch=amd64] http://m/security bookworm-security main\n"
        "deb http://third.party stable main\n"
    )
    (lists / "third.sources").write_text("Types: deb\nURIs: http://t\nSuites: nodistro\n")
    assert host_sources("bookworm", tmp_path).splitlines() == [
        "deb [signed-by=/usr/share/keyrings/d.gpg] http://m/debian bookworm main contrib",
        "deb [signed-by=/usr/share/keyrings/d.gpg] http://m/debian bookworm-updates main contrib",
        "deb [arch=amd64] http://m/security bookworm-security main",
    ]
    assert host_sources("trixie", tmp_path / "nothing") == ""


async def test_a_build_says_what_it_does(notes: Path, tmp_path: Path, fake_path: Path) -> None:
    """Each step of the tool as it goes, nothing else of what it prints."""
    tool = fake_path / "mmdebstrap"
    words = "I: downloading\nI: downloading\nW: slow\nunpacking x\nI: installing\n"
    tool.write_text(tool.read_text() + f"printf '{words}' >&2\n")
    told: list[str] = []
    await build_image("web", cache_dir=tmp_path / "c", mirrors=["deb x y z"], on_step=told.append)
    assert told == ["downloading", "installing"]


async def test_a_cancelled_build_leaves_nothing(
    notes: Path, tmp_path: Path, fake_path: Path
) -> None:
    """Its directory goes, with what it had written."""
    tool = fake_path / "mmdebstrap"
    tool.write_text('#!/bin/sh\nmkdir "$TMPDIR/tree"\necho "I: begun" >&2\nsleep 1000\n')
    cache = tmp_path / "cache"
    begun = asyncio.Event()
    work = asyncio.create_task(
        build_image("web", cache_dir=cache, mirrors=["deb x y z"], on_step=lambda _: begun.set())
    )
    await begun.wait()
    assert [path.name[:7] for path in cache.iterdir()] == [".build-"]
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert list(cache.iterdir()) == []


async def test_what_killed_builds_left_goes_with_the_next(notes: Path, tmp_path: Path) -> None:
    """Abandoned directories are removed; one in use stays."""
    cache = tmp_path / "cache"
    (cache / ".build-old/mmdebstrap.x/etc").mkdir(parents=True)
    (cache / ".build-old/mmdebstrap.x/etc/passwd").write_text("root")
    async with build_directory(cache) as busy:
        assert not (cache / ".build-old").exists()
        await build_image("web", cache_dir=cache, mirrors=["deb x y z"])
        assert busy.is_dir()
    assert not [path for path in cache.iterdir() if path.name.startswith(".")]


def test_mounts_are_found_with_their_names(tmp_path: Path) -> None:
    """Those below a directory alone, names with spaces too, in the order of mounting."""
    info = tmp_path / "mountinfo"
    info.write_text(
        f"1 0 0:1 / / rw - ext4 x rw\n2 1 0:1 / {tmp_path}/a\\040ö rw - proc x rw\n"
        f"3 1 0:1 / {tmp_path}/a\\040ö/dev rw - tmpfs x rw\n4 1 0:1 / {tmp_path}x rw - tmpfs x rw\n"
    )
    assert mounts_below(tmp_path, info) == [tmp_path / "a ö", tmp_path / "a ö/dev"]


# A build that mounts, starts programs of its own and goes on until it is ended.
MOUNTS = """#!/bin/sh
mkdir "$TMPDIR/mmdebstrap.x"
mount -t tmpfs tmpfs "$TMPDIR/mmdebstrap.x"
setsid sleep 98765 &
echo "I: begun" >&2
sleep 98765
"""
BUILD = """
import asyncio, sys
from pathlib import Path
from vetro.cli.compute.images import until_signalled
from vetro.node.images.bootstrap import build_image
work = build_image("web", cache_dir=Path(sys.argv[1]), mirrors=["deb x y z"],
                   on_step=lambda step: print(step, flush=True))
asyncio.run(until_signalled(work))
"""


@pytest.mark.root
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGKILL])
def test_nothing_of_a_build_survives_it(
    fake_path: Path, tmp_path: Path, number: signal.Signals
) -> None:
    """However it ends: no mount, no program; after SIGKILL the directory goes with the next start."""
    tool = fake_path / "mmdebstrap"
    tool.write_text(MOUNTS.replace("98765", str(98765 + int(number))))
    tool.chmod(0o755)
    cache = tmp_path / "cache"
    process = subprocess.Popen(
        [sys.executable, "-c", BUILD, str(cache)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"begun\n"
    process.send_signal(number)
    process.communicate(timeout=60)
    assert mounts_below(cache) == []
    marker = str(98765 + int(number)).encode()
    until(lambda: not any(marker in words.split(b"\0") for words in command_lines()))
    if number == signal.SIGKILL:
        assert [left.name[:7] for left in remove_leftovers(cache)] == [".build-"]
    assert list(cache.iterdir()) == []


@pytest.mark.root
def test_mounts_of_earlier_versions_are_undone(tmp_path: Path) -> None:
    """They did not contain them: what is still mounted below a leftover is unmounted, then removed."""
    left = tmp_path / ".build-x/mmdebstrap.y"
    left.mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(left)], check=True)
    (left / "dev").mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "tmpfs", str(left / "dev")], check=True)
    assert remove_leftovers(tmp_path) == [tmp_path / ".build-x"]
    assert mounts_below(tmp_path) == []
    assert list(tmp_path.iterdir()) == []


def command_lines() -> Iterator[bytes]:
    """The command lines of all processes."""
    for one in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            yield one.read_bytes()
