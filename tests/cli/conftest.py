"""Package directories made for a test, and the command run in this process."""

import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.cli.serving import Service, serving
from tests.shelf import Shelf

from vetro.cli import cli


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    """Compiled classes are kept for this run of the tests, not in the home directory."""
    shared = tmp_path_factory.getbasetemp() / "code"
    monkeypatch.setenv("VETRO_CODE_CACHE", str(shared))


@pytest.fixture
def invoke():
    """`invoke(*arguments, input=None) -> (exit code, output)`: the command in this process."""

    def run(*arguments, **options):
        result = CliRunner().invoke(cli, [str(item) for item in arguments], **options)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result.exit_code, result.output

    return run


@pytest.fixture
def make_package(tmp_path):
    """`make_package(name, files, **manifest) -> Path`: a directory; classes are found in the text."""

    def make(name, files, *, classes=None, type_="Library", extra="") -> Path:
        root = tmp_path / name
        found = dict(classes or {})
        for file, text in files.items():
            path = root / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text), encoding="utf-8")
            if classes is None and file.startswith("Classes/"):
                for line in textwrap.dedent(text).splitlines():
                    if line.startswith("Name: "):
                        short = line.removeprefix("Name: ").strip()
                        full = short if "." in short else f"{name}.{short}"
                        found[full] = file.removeprefix("Classes/")
        lines = ["Format: '1.4'", f"Type: {type_}", f"FullName: {name}", "Description: A package"]
        lines.append("Classes:" if found else "Classes: {}")
        lines += [f"  {full}: {file}" for full, file in found.items()]
        if "manifest.yaml" not in files:
            text = "\n".join(lines) + "\n" + textwrap.dedent(extra)
            (root / "manifest.yaml").write_text(text, encoding="utf-8")
        return root

    return make


@pytest.fixture
def shelf(tmp_path: Path) -> Iterator[Shelf]:
    """An empty repository."""
    (tmp_path / "repository").mkdir()
    made = Shelf(tmp_path / "repository")
    yield made
    made.close()


@pytest.fixture(scope="package")
def without_machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """One service, without a node, for all modules that talk to one: each has a project of its own."""
    directory = tmp_path_factory.mktemp("service")
    with serving(directory, "  instances", VETRO_NODE_ENABLED="false") as made:
        yield made


@pytest.fixture
def install_plugin(tmp_path, monkeypatch):
    """`install_plugin(code, *entries)`: a distribution that names native classes, for this test."""

    def install(code, *entries):
        site = tmp_path / "site"
        (site / "acme-1.0.dist-info").mkdir(parents=True)
        lines = ["[io.murano.extensions]", *entries]
        (site / "acme-1.0.dist-info" / "entry_points.txt").write_text("\n".join(lines) + "\n")
        (site / "acme-1.0.dist-info" / "METADATA").write_text("Name: acme\nVersion: 1.0\n")
        (site / "acme_natives.py").write_text(textwrap.dedent(code))
        monkeypatch.syspath_prepend(site)
        monkeypatch.delitem(sys.modules, "acme_natives", raising=False)

    yield install
    sys.modules.pop("acme_natives", None)
