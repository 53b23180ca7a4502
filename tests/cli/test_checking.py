"""``vetro check``: formats, selection, discovery, exit codes."""

import json
import zipfile
from pathlib import Path

import pytest

from vetro.packages import CODES

LIBRARY = Path(__file__).parents[2] / "library"
BAD = """\
    Namespaces: {=: p}
    Name: Bad
    Methods:
      a:
        Body:
          - Iff: 1
          - $.x: my-app
    """


@pytest.fixture
def package(make_package):
    return make_package("p", {"Classes/Bad.yaml": BAD, "LICENSE": "free"})


def test_findings_are_lines_with_places(invoke, package):
    """file:line:column, code and message; a total; exit 1."""
    code, text = invoke("check", package)
    assert code == 1
    file = package / "Classes/Bad.yaml"
    assert text.splitlines() == [
        f"{file}:6:9: E201 no statement has the key Iff; did you mean If?",
        f"{file}:7:14: W203 'my-app' is an expression, not text: quote it if it is meant as text",
        "1 error, 1 warning",
    ]


def test_no_findings_are_exit_0(invoke, make_package):
    """The command says that a good package has no findings."""
    package = make_package("p", {"Classes/A.yaml": "Namespaces: {=: p}\nName: A\n", "LICENSE": ""})
    assert invoke("check", package) == (0, "No errors found!\n")


@pytest.mark.parametrize(
    ("arguments", "codes", "exit_code"),
    [
        ([], ["E201", "W203"], 1),
        (["--select", "E"], ["E201"], 1),
        (["--select", "W203"], ["W203"], 0),
        (["--select", "W203", "--strict"], ["W203"], 1),
        (["--ignore", "E2,W1"], ["W203"], 0),
        (["--select", "E2", "--ignore", "E201"], [], 0),
    ],
)
@pytest.mark.parametrize("form", [["--json"], ["--format", "json"]])
def test_codes_are_chosen_by_their_beginning(invoke, package, arguments, codes, exit_code, form):
    """--select and --ignore; only errors fail the command unless it is --strict."""
    code, text = invoke("check", package, *form, *arguments)
    rows = json.loads(text)
    assert [row["code"] for row in rows] == codes
    assert code == exit_code
    for row in rows:
        assert set(row) == {
            *("package", "file", "path", "line", "column", "code", "level", "message")
        }
        assert row["file"] == "Classes/Bad.yaml"


def test_github_annotations(invoke, package):
    """Each finding is a workflow command; text that would end it is escaped."""
    (package / "Classes/Bad.yaml").write_text("Name: 'p.Bad'\nNamespaces: {=: 'p:q%'}\n")
    _, text = invoke("check", package, "--format", "github", "--select", "W060")
    file = str(package / "Classes/Bad.yaml")
    assert text == (
        f"::warning file={file},line=2,col=17,title=W060::W060 'p:q%25' is not a namespace\n"
    )


def test_archives_are_checked_alike(invoke, package, tmp_path):
    """A zip has the findings of its directory; places are inside it."""
    target = tmp_path / "p.zip"
    with zipfile.ZipFile(target, "w") as archive:
        for path in package.rglob("*"):
            if path.is_file():
                archive.write(path, path.relative_to(package))
    code, text = invoke("check", target)
    assert code == 1
    assert f"{target}!Classes/Bad.yaml:6:9: E201" in text


def test_discovery_finds_packages_below_directories(invoke, package, make_package, tmp_path):
    """Every folder with a manifest is a package, but not those below another."""
    make_package("q", {"Classes/A.yaml": "Namespaces: {=: q}\nName: A\n", "LICENSE": ""})
    nested = package / "Resources" / "inner"
    nested.mkdir(parents=True)
    (nested / "manifest.yaml").write_text("- broken")
    code, text = invoke("check", "--discover", tmp_path, "--json")
    assert code == 1
    assert {row["package"] for row in json.loads(text)} == {str(package)}


def test_what_is_no_package_is_exit_2(invoke, tmp_path):
    """A directory without a manifest, a missing path, and nothing to discover."""
    for arguments in ([tmp_path], [tmp_path / "none"], ["--discover", tmp_path]):
        code, text = invoke("check", *arguments)
        assert code == 2, text
        assert "Error:" in text


def test_a_mistake_of_the_check_itself_is_exit_3(invoke, package, monkeypatch):
    """An internal failure has another exit code than findings."""
    monkeypatch.setattr("vetro.cli.offline.checking.find", lambda *_: 1 / 0)
    code, text = invoke("check", package)
    assert code == 3
    assert "the check itself failed" in text


def test_the_codes_are_listed(invoke):
    """--codes prints every code with its meaning."""
    code, text = invoke("check", "--codes")
    assert code == 0
    assert [line.split()[0] for line in text.splitlines()] == list(CODES)


def test_packages_that_ship_have_no_findings_but_the_licence(invoke):
    """The class library and the samples are clean."""
    code, text = invoke("check", "--discover", LIBRARY, "--json", "--ignore", "W121")
    assert (code, json.loads(text)) == (0, [])


def test_an_import_looks_at_the_manifest_first(invoke, make_package, monkeypatch):
    """Errors of the manifest, all of them, end an upload before anything is sent."""
    monkeypatch.setenv("VETRO_TOKEN", "t")
    monkeypatch.setenv("VETRO_URL", "http://127.0.0.1:1")
    manifest = "Format: '1.4'\nType: Thing\nFullName: p\nDescription: x\nTags: 5\n"
    bad = make_package("p", {"manifest.yaml": manifest})
    code, text = invoke("package", "import", bad)
    assert code == 1
    assert "manifest.yaml:2: E071" in text
    assert "manifest.yaml:5: E070" in text
    good = make_package("q", {"Classes/A.yaml": "Name: q.A\n"})
    code, text = invoke("package", "import", good)
    assert "No Vetro answers" in text
