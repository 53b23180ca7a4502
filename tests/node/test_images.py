"""Building images: inputs, cache, and what the bootstrap tool is told."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from vetro.node.images import ImageBuildError, build_image, host_sources

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
    assert second.manifest()["name"] == "other"
    assert first.manifest()["type"] == "lxc-rootfs"
    assert first.manifest()["sha256"] == first.sha256
    third = await build_image("web", ["nginx"], cache_dir=cache, mirrors=["deb x y z"])
    assert third.path != first.path


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
