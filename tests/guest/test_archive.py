"""The archive that is shipped: reproducible, self-contained, in an old dialect."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import vetro.guest
from vetro.guest.build import build_archive

SOURCES = sorted((Path(vetro.guest.__file__).parent / "agent").rglob("*.py"))


def test_two_builds_are_equal(tmp_path: Path) -> None:
    """The same sources give the same bytes, whatever the files' times are."""
    first = build_archive(tmp_path / "a" / "guest.pyz").read_bytes()
    os.utime(SOURCES[0])
    assert build_archive(tmp_path / "b" / "guest.pyz").read_bytes() == first


def test_the_build_module_is_not_shipped(guest_archive: Path) -> None:
    """Only the agent is inside, and the file can be executed."""
    with zipfile.ZipFile(guest_archive) as archive:
        names = archive.namelist()
    assert "__main__.py" in names
    assert not [name for name in names if "build" in name or "vetro/" in name]
    done = subprocess.run([str(guest_archive), "--version"], capture_output=True, check=True)
    assert done.stdout.startswith(b"vetro-guest ")


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.name)
def test_sources_are_python_3_6(path: Path) -> None:
    """Every module parses as Python 3.6 and imports the standard library or its own package."""
    tree = ast.parse(path.read_text(), feature_version=(3, 6))
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            modules = [node.module or ""]
        else:
            continue
        for module in modules:
            assert module.partition(".")[0] in sys.stdlib_module_names, module
            assert module != "__future__", "annotations from the future came with 3.7"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--config-file", "/nonexistent/agent.conf"], "/nonexistent/agent.conf"),
        (["--config-file"], "needs a value"),
        (["--wrong"], "Unknown option --wrong"),
    ],
)
def test_bad_command_lines_end_with_code_2(
    guest_archive: Path, arguments: list[str], said: str
) -> None:
    """An invalid configuration is explained, and the exit code is 2."""
    done = subprocess.run(
        [sys.executable, str(guest_archive), *arguments], capture_output=True, check=False
    )
    assert done.returncode == 2
    assert said in done.stderr.decode()


def test_every_module_is_there_where_vetro_is_not(guest_archive: Path) -> None:
    """Each module of the archive can be imported without any other package."""
    with zipfile.ZipFile(guest_archive) as archive:
        modules = sorted(
            name[: -len(".py")].replace("/", ".").removesuffix(".__init__")
            for name in archive.namelist()
            if name.startswith("vetro_guest/")
        )
    assert len(modules) == len(SOURCES)
    program = (
        "import importlib, sys; sys.path.insert(0, sys.argv[1])\n"
        "for name in sys.argv[2:]: importlib.import_module(name)"
    )
    # -I and -S: neither this directory nor what is installed beside Python.
    command = [sys.executable, "-I", "-S", "-c", program, str(guest_archive), *modules]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
